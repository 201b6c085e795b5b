"""What a check of code is made of: the program, its tests, and how one test ended. Plain records."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Ending = Literal["pass", "fail", "timeout", "memory", "error", "blocked", "infra"]
"""How a test ended. "blocked": the program asked for what the sandbox denies, and broke on that; "infra": the sandbox
itself broke, which says nothing of the program."""


@dataclass(frozen=True)
class Program:
    """A candidate's source text and the name of its language in `languages.LANGUAGES`."""

    source: str
    language: str = "python"


@dataclass(frozen=True)
class StdioTest:
    """The program reads `input` from standard input and must write `output` to standard output."""

    input: str
    output: str
    weight: float = 1.0


@dataclass(frozen=True)
class CallTest:
    """`function(*args, **kwargs)` must return `expected`; the comparison is made outside the sandbox.

    Attributes:
        function: a name of the program, or "Class.method" for a method of a new instance made without arguments.
        args, kwargs, expected: plain Python values (see `sandbox.inside.plain`).
        text: the test as the data set has it, for reports.
    """

    function: str
    args: tuple[Any, ...]
    expected: Any
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    weight: float = 1.0
    text: str = ""


@dataclass(frozen=True)
class ScriptTest:
    """Test code of the data set's own, to be run in a process that never holds the candidate's code.

    A call of one of `names` there is carried to the candidate's process as plain values, and its result back. Only if
    an argument is not plain, the script runs beside the candidate, and a pass is marked weaker.

    Attributes:
        code: statements; the test passes if they end without an exception and made at least one call.
        names: functions of the candidate that the code calls.
        setup: statements of the data set that run before `code`, and are no test themselves.
    """

    code: str
    names: tuple[str, ...]
    setup: str = ""
    weight: float = 1.0


Test = StdioTest | CallTest | ScriptTest


@dataclass(frozen=True)
class Limits:
    """What one test may use.

    Attributes:
        seconds: of CPU time; the wall clock allows twice as much, and a second for a busy machine.
        memory: bytes of address space of a process, and of resident memory of all its processes together.
        output: bytes of standard output; more is a failure.
        files: bytes of the private temporary folder.
        processes: processes and threads at once.
    """

    seconds: float = 4.0
    memory: int = 512 * 2**20
    output: int = 16 * 2**20
    files: int = 64 * 2**20
    processes: int = 32

    @property
    def wall(self) -> float:
        """Seconds on the wall clock."""
        return 2 * self.seconds + 1


@dataclass(frozen=True)
class Use:
    """What a test used: seconds on the wall clock, seconds of CPU, peak resident bytes of its main process."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    memory: int = 0


@dataclass(frozen=True)
class Run:
    """How a program run on a standard input ended.

    Attributes:
        ending: "pass" says only that it ended by itself with exit code 0.
        output: what it wrote to standard output, decoded, up to the limit.
        stderr: the tail of its standard error.
        detail: why it did not end well, in a line.
    """

    ending: Ending
    output: str = ""
    stderr: str = ""
    detail: str = ""
    use: Use = field(default_factory=Use)


@dataclass(frozen=True)
class Call:
    """How a function call, or a script, in the sandbox ended.

    Attributes:
        ending: "pass" says only that it came to its end: a value is there.
        value: the plain value it returned.
        plain: False if an argument of the script's is not plain.
        weak: the script ran beside the candidate.
        stderr, detail, use: as in `Run`.
    """

    ending: Ending
    value: Any = None
    plain: bool = True
    weak: bool = False
    stderr: str = ""
    detail: str = ""
    use: Use = field(default_factory=Use)


def text_of(value: Any) -> str:
    """A plain value as Python writes it, for reports."""
    try:
        return repr(value)
    except (ValueError, RecursionError):  # an integer of more digits than Python writes
        return f"a {type(value).__name__} that cannot be shown"
