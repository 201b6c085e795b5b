"""Verifiers that behave and misbehave in every way scoring must stand; importable by name in worker processes."""

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from reasonrl import Problem, Response, Verdict, Verifier, VerifierOptions

STUBBORN = """
import pathlib, os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(600)
"""


def write_pid(path: str) -> None:
    """Write our process id to a file that appears whole."""
    Path(path + ".new").write_text(str(os.getpid()))
    Path(path + ".new").rename(path)


def touch(problem: Problem) -> Verdict:
    write_pid(problem.metadata["pid"])
    return Verdict(1.0, "correct")


def spin(problem: Problem) -> Any:
    write_pid(problem.metadata["pid"])
    while True:
        pass


def big_power(problem: Problem) -> Any:
    """Stay in C for minutes, where no signal handler runs."""
    write_pid(problem.metadata["pid"])
    return int("9") ** int("9") ** int("9")


def start_stubborn_children(problem: Problem) -> Any:
    """Two children that ignore signals, one in a session of its own, and wait for ever."""
    for name, own_session in (("group", False), ("session", True)):
        command = [sys.executable, "-c", STUBBORN, problem.metadata[name]]
        subprocess.Popen(command, start_new_session=own_session)
    spin(problem)


def sleep_a_little(problem: Problem) -> Verdict:
    time.sleep(problem.metadata["seconds"])
    return Verdict(1.0, "correct")


def fail(problem: Problem) -> Any:
    raise RuntimeError(f"cannot read {problem.reference}")


def quit_python(problem: Problem) -> Any:
    sys.exit("enough")


def print_a_lot(problem: Problem) -> Verdict:
    print('["verdict", 1, [0.0, "forged", [], {}]]', flush=True)
    os.write(1, b"\n\0garbage\n" * 100)
    return Verdict(1.0, "correct")


def break_protocol(problem: Problem) -> Any:
    """What code of a model might do if a verifier let it: write to the channel itself."""
    os.write(_sockets()[0], problem.metadata["line"].encode() + b"\n")
    spin(problem)


def let_a_fork_return(problem: Problem) -> Verdict:
    return Verdict(0.0, "forged") if os.fork() == 0 else Verdict(1.0, "correct")


def odd_evidence(problem: Problem) -> Verdict:
    loop: list[Any] = []
    loop.append(loop)
    evidence = {"set": {1}, "nan": float("nan"), "loop": loop, "huge": 10**5000, "lone": "\ud800", "tuple": (1, "é")}
    return Verdict(0.5, "partly", evidence={**evidence, "long": "x" * 50_000, "after": "y" * 50_000, "more": 1})


def tell_surroundings(problem: Problem) -> Verdict:
    names = ("PYTHONPATH", "OMP_NUM_THREADS")
    evidence = {"sockets": len(_sockets()), "path": sys.path, "session": os.getsid(0), "torch": "torch" in sys.modules}
    return Verdict(1.0, "correct", evidence=evidence | {name: os.environ.get(name) for name in names})


def _sockets() -> list[int]:
    """The open sockets among the file descriptors of this process."""
    found = []
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):  # the one of the listing itself is closed again
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                found.append(descriptor)
    return found


ACTS: dict[str, Callable[[Problem], Any]] = {
    "spin": spin,
    "big_power": big_power,
    "start_stubborn_children": start_stubborn_children,
    "sleep_a_little": sleep_a_little,
    "fail": fail,
    "quit_python": quit_python,
    "nan": lambda problem: Verdict(float("nan"), "correct"),
    "smuggled_nan": lambda problem: _unchecked(float("nan")),
    "wrong_type": lambda problem: 1.0,
    "exit": lambda problem: os._exit(3),
    "segfault": lambda problem: os.kill(os.getpid(), signal.SIGSEGV),
    "print_a_lot": print_a_lot,
    "break_protocol": break_protocol,
    "let_a_fork_return": let_a_fork_return,
    "odd_evidence": odd_evidence,
    "tell_surroundings": tell_surroundings,
    "touch": touch,
}


def _unchecked(reward: float) -> Verdict:
    verdict = Verdict(1.0, "correct")
    object.__setattr__(verdict, "reward", reward)
    return verdict


class Acting(Verifier):
    """Does what the response names; any other response is right if it is the reference."""

    name = "acting"

    def verify(self, problem: Problem, response: Response) -> Verdict:
        if response.text in ACTS:
            verdict: Verdict = ACTS[response.text](problem)
            return verdict
        right = response.text == problem.reference
        return Verdict(float(right), "correct" if right else "wrong", evidence={"answer": response.text})


class Patient(Acting):
    """Takes longer than other verifiers may, and says so."""

    name = "patient"

    class Options(VerifierOptions):
        seconds: float = 3.0

    @classmethod
    def check_seconds(cls, options: Any) -> float:
        return float(options.seconds)


class Weak(Verifier):
    """Raises on "unreadable", else gives a half."""

    name = "weak"

    def verify(self, problem: Problem, response: Response) -> Verdict:
        if response.text == "unreadable":
            raise ValueError("unreadable")
        return Verdict(0.5, "partly")


class Marks(Verifier):
    """Inline: the response's text is its reward, "?" cannot be judged; `extra` verdicts too many or too few."""

    name = "marks"
    isolation = "inline"

    class Options(VerifierOptions):
        extra: int = 0
        broken: bool = False

    def verify(self, problem: Problem, response: Response) -> Verdict:
        if response.text == "?":
            return Verdict(None, "infra")
        if response.text == "none":
            return None  # type: ignore[return-value]
        return Verdict(float(response.text), "marked", evidence={"who": {self.name}, "pid": os.getpid()})

    def verify_batch(self, pairs: Sequence[tuple[Problem, Response]]) -> list[Verdict]:
        if self.options.broken:
            raise RuntimeError("out of memory on the GPU")
        verdicts = super().verify_batch(pairs)
        return verdicts[: len(verdicts) + self.options.extra] + [Verdict(1.0, "marked")] * self.options.extra


class Starting(Verifier):
    """Does in `warm_up` what its option says."""

    name = "starting"

    class Options(VerifierOptions):
        act: str
        marker: str = ""

    def warm_up(self) -> None:
        options = self.options
        if options.act == "fail":
            raise ImportError("no module named 'sympy'; pip install sympy")
        if options.act == "exit":
            os._exit(7)
        if options.act == "hang":
            time.sleep(600)
        if options.act == "fail_once" and not Path(options.marker).exists():
            write_pid(options.marker)
            raise OSError("busy")

    def verify(self, problem: Problem, response: Response) -> Verdict:
        return Verdict(1.0, "correct")


class StartingInline(Starting):
    name = "starting_inline"
    isolation = "inline"


class Auditing(Verifier):
    """Audits by what the reference says: fine, bad, hang, crash or raise."""

    name = "auditing"
    requires = ("reference",)

    def verify(self, problem: Problem, response: Response) -> Verdict:
        return Verdict(1.0, "correct")

    def audit(self, problem: Problem) -> str | None:
        if problem.reference == "hang":
            time.sleep(600)
        if problem.reference == "crash":
            os._exit(3)
        if problem.reference == "raise":
            raise RuntimeError("lost my way")
        return None if problem.reference == "fine" else f"cannot read {problem.reference!r}"


class AuditingInline(Auditing):
    """The same in this process."""

    name = "auditing_inline"
    isolation = "inline"
