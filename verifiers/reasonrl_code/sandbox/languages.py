"""The languages a program may be in: one entry each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Language:
    """How a program of this language is run.

    Attributes:
        name: as in `Program.language`.
        tags: what the first line of a fenced block may call it.
        file: the name its source gets.
        compile: the command that makes `binary` of `file`; empty for Python, which runs in a warm interpreter.
        binary: the executable, in the same folder.
        calls: can single functions be called in it? Else only standard input and output are tested.
        seconds, memory: limits of the compilation: seconds of CPU, bytes of address space.
    """

    name: str
    tags: tuple[str, ...]
    file: str
    compile: tuple[str, ...] = ()
    binary: str = ""
    calls: bool = False
    seconds: float = 20.0
    memory: int = 2 * 2**30


LANGUAGES = {
    language.name: language
    for language in (
        Language("python", tags=("python", "py", "python3", "py3"), file="main.py", calls=True),
        Language(
            "cpp",
            tags=("cpp", "c++", "cc", "cxx"),
            file="main.cpp",
            compile=("/usr/bin/g++", "-O2", "-std=c++17", "-o", "main", "main.cpp"),
            binary="main",
        ),
    )
}
