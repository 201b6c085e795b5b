"""One worker process, seen from the parent: start it, talk to it without ever blocking, kill it with all its kin."""

import logging
import time
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from reasonrl.processes import kill, start
from reasonrl.scoring.wire import parse_line
from reasonrl.types import Response

_REPLY_LIMIT = 16 * 2**20  # bytes; a worker that sends more in one line is broken
_CHUNK = 2**16  # bytes
_WORKER = "reasonrl.scoring.worker"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Check:
    """One response × one verifier, or the audit of a problem: what a worker is asked at a time.

    Attributes:
        ticket: under which the verdict is handed back.
        verifier: the verifier's place in the task.
        problem: pickled once for all the checks of a group.
        response: what is to be verified; None for an audit of the problem.
    """

    ticket: Hashable
    verifier: int
    problem_id: str
    problem: bytes
    response: Response | None


class WorkerProcess:
    """A worker and where it stands. Only the thread that started it may use it: it dies with that thread.

    Args:
        setup: the pickle that `worker.main` expects first.
        startup_deadline: seconds until it must be ready.
        failures: how many workers in a row have failed to start in this one's place.
    """

    def __init__(self, setup: bytes, startup_deadline: float, failures: int) -> None:
        self.failures = failures
        self.ready = False
        self.stage = ""  # the verifier it is loading, until it is ready
        self.check: Check | None = None
        self.number = 0  # of the check in flight; the reply must repeat it
        self.expires: float | None = time.monotonic() + startup_deadline
        self.process, self.channel = start(_WORKER, {"OMP_NUM_THREADS": "1"})  # one core each: training has the rest
        self.channel.setblocking(False)
        self._incoming = bytearray()
        self._unsent = memoryview(b"")
        with suppress(OSError):  # it is dead already; the end of file will say so
            self.send(setup)

    @property
    def sending(self) -> bool:
        """Is part of the last message still to be sent? Then `flush` once the channel can be written."""
        return len(self._unsent) > 0

    def send(self, message: bytes) -> None:
        """Send a message, or as much as the channel takes now.

        Raises:
            OSError: the worker is gone.
        """
        self._unsent = memoryview(message)
        self.flush()

    def flush(self) -> None:
        """Send more of the last message.

        Raises:
            OSError: the worker is gone.
        """
        with suppress(BlockingIOError):
            while self._unsent:
                self._unsent = self._unsent[self.channel.send(self._unsent) :]

    def receive(self) -> list[Any]:
        """The JSON messages that have arrived whole.

        Raises:
            EOFError: the worker is gone.
            ValueError: what it sent is no JSON, or too long.
        """
        try:
            chunk = self.channel.recv(_CHUNK)
        except BlockingIOError:
            return []
        except OSError as error:
            raise EOFError from error
        if not chunk:
            raise EOFError
        self._incoming += chunk
        if b"\n" not in chunk:
            if len(self._incoming) > _REPLY_LIMIT:
                raise ValueError(f"a reply of more than {_REPLY_LIMIT} bytes")
            return []
        *lines, rest = self._incoming.split(b"\n")
        self._incoming = rest
        return [parse_line(line) for line in lines]

    def kill(self) -> int | None:
        """SIGKILL the worker, its process group and its other descendants; its exit code, None if it will not die."""
        exit_code = kill(self.process)
        self.channel.close()
        return exit_code
