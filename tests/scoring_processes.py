"""What tests of scoring share: asking a scorer, and seeing which processes there are."""

import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from reasonrl import Problem, Response, Verdict, Verifier
from reasonrl.scoring import Scored, Scorer, WeightedVerifier

T = TypeVar("T")
DEADLINE = 1.0


def weighted(verifier: type[Verifier], weight: float = 1.0, **options: Any) -> WeightedVerifier:
    return WeightedVerifier(verifier, verifier.Options(**options), weight, "1.0")


def problem(**metadata: Any) -> Problem:
    return Problem("p7", "1 + 1 = ?", "2", metadata)


def ask(scorer: Scorer, text: str, **metadata: Any) -> Scored:
    """Score one response by itself."""
    scorer.submit("one", problem(**metadata), Response(text))
    return scorer.collect()["one"]


def until(condition: Callable[[], T], seconds: float = 20.0) -> T:
    """Poll until the condition holds; fail if it does not in time."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
    return value


def read_pid(path: Path) -> int:
    return until(lambda: int((path.exists() and path.read_text()) or 0))


def alive(pid: int) -> bool:
    """Does the process run? A zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def workers_of(parent: int) -> set[int]:
    """The process ids of scoring workers that this process started."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if b"reasonrl.scoring.worker" in arguments and str(parent).encode() in arguments and alive(int(process.name)):
            found.add(int(process.name))
    return found


@contextmanager
def nothing_left_behind() -> Iterator[None]:
    """Fail if a worker or a file descriptor remains."""
    descriptors = os.listdir("/proc/self/fd")
    yield
    gc.collect()
    assert workers_of(os.getpid()) == set()
    assert len(os.listdir("/proc/self/fd")) == len(descriptors)


def still_works(scorer: Scorer) -> bool:
    return ask(scorer, "2").verdicts == (Verdict(1.0, "correct", evidence={"answer": "2"}),)
