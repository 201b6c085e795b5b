"""A run that hangs: its stacks are written down, and it stops."""

import faulthandler
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from reasonrl.errors import ReasonRLError
from reasonrl.trainers.stop import GivenUp, Stop

_GRACE = 30.0  # seconds

logger = logging.getLogger(__name__)


class Watch:
    """Sees that something progresses: a response, a micro-batch, a step.

    If nothing does, an error is raised in the main thread. Where that does not help, since it is in a call that never
    returns, the process ends with exit code 2 after a time of grace; and with exit code 1 after twice that time, where
    the call does not let any other thread of Python run either.

    Args:
        minutes: so long nothing may progress; None for ever.
        stop: what ends the main thread's wait.
        grace: seconds.
    """

    def __init__(self, minutes: float | None, stop: Stop, grace: float = _GRACE) -> None:
        self._limit = None if minutes is None else 60 * minutes
        self._stop, self._grace = stop, grace
        self._file: TextIO | None = None
        self._last = self._armed = time.monotonic()
        self._over = threading.Event()

    def beat(self) -> None:
        """Something has progressed."""
        self._last = time.monotonic()
        if self._limit is not None and self._last - self._armed > self._limit / 4:  # each time starts a thread
            self._arm(self._limit)

    @contextmanager
    def watching(self, path: Path) -> Iterator[None]:
        """Watch while the block runs.

        Args:
            path: the file for the stacks of all threads; it is left only if there was cause for it.

        Raises:
            ReasonRLError: nothing has progressed for too long; the stacks are in the file.
        """
        if self._limit is None or not self._stop.catches:
            yield
            return
        thread = threading.Thread(target=self._run, args=(self._limit, path), name="watch", daemon=True)
        with path.open("w", encoding="utf-8") as self._file:
            self._arm(self._limit)
            self.beat()
            thread.start()
            try:
                yield
            except GivenUp as hung:
                raise hung.fault from None
            finally:
                self._over.set()
                thread.join()
                faulthandler.cancel_dump_traceback_later()
                self._file = None
        if not path.stat().st_size:
            path.unlink()

    def _arm(self, limit: float) -> None:
        """The last resort: a thread that is none of Python's, and waits for nobody."""
        if self._file is not None:
            self._armed = time.monotonic()
            faulthandler.dump_traceback_later(limit * 1.25 + 2 * self._grace, exit=True, file=self._file)

    def _run(self, limit: float, path: Path) -> None:
        while (left := self._last + limit - time.monotonic()) > 0:
            if self._over.wait(left):
                return
        assert self._file is not None
        faulthandler.dump_traceback(self._file)
        fault = ReasonRLError(
            f"nothing has progressed for {limit / 60:g} minutes (stall_minutes): where every thread stood is in "
            f"{path}. If a step may take so long, raise stall_minutes; else look for what it waited for"
        )
        self._stop.give_up(fault)
        if not self._over.wait(self._grace):
            logger.critical("%s", fault)
            os._exit(2)
