"""Worker processes of our own: started on a socket pair, dying with us, killed with all their kin. Imports no torch."""

import ctypes
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1
_REAP_LIMIT = 10.0  # seconds until a killed process must be gone

logger = logging.getLogger(__name__)


def start(
    module: str, environment: Mapping[str, str], stderr: IO[bytes] | None = None
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Run `python -m MODULE FD PARENT` in a session of its own; the process, and our end of its socket pair.

    Ctrl-C in the terminal is then for us, and the process has a group to kill. Only the thread that starts it may end
    after it: on Linux it dies with that thread (see `die_with`).
    """
    ours, theirs = socket.socketpair()
    path = os.pathsep.join(importable())
    with theirs:
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": path, **environment},
            )
        except BaseException:
            ours.close()
            raise
    return process, ours


def kill(process: subprocess.Popen[bytes]) -> int | None:
    """SIGKILL a process, its group and its other descendants; its exit code, None if it will not die."""
    kin = _descendants(process.pid)
    # The group before the reaping: until then the number cannot belong to anybody else.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    for pid in kin:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    try:
        return process.wait(timeout=_REAP_LIMIT)
    except subprocess.TimeoutExpired:
        logger.warning("worker process %d does not die of SIGKILL", process.pid)
        return None


def die_with(parent: int) -> None:
    """In a worker on Linux: be killed as the parent dies, even in the middle of a call that never returns."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)


def importable() -> list[str]:
    """`sys.path` with "" spelt out, for the working directory may change."""
    return [os.path.abspath(entry) for entry in sys.path]


def _descendants(pid: int) -> list[int]:
    """Its children, theirs, and so on, whatever their process group or session. Empty where there is no /proc."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            parent = stat.read_text(errors="replace").rpartition(")")[2].split()[1]
            children.setdefault(int(parent), []).append(int(stat.parent.name))
    found = list(children.get(pid, []))
    for descendant in found:  # which grows meanwhile
        found += children.get(descendant, [])
    return found
