"""One process at a time writes to a run's folder."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reasonrl.errors import ReasonRLError


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder; a process that dies, however, lets go of it.

    Raises:
        ReasonRLError: another process holds it.
    """
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ReasonRLError(f"{folder}: another process is at this run; wait for its end, or end it") from None
        yield
