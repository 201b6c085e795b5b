"""Asked to stop: Ctrl-C and SIGTERM once end a run after its step, with a checkpoint; Ctrl-C twice at once."""

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any, Self

from rich.console import Console

from reasonrl.errors import ReasonRLError

_SAME_PRESS = 0.5  # seconds; a launcher passes on the Ctrl-C that the terminal has given to us already
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class GivenUp(BaseException):
    """The main thread is to leave what it is in; no `except Exception`, as around a verifier, may take it for its own.

    Args:
        fault: what to tell the user.
    """

    def __init__(self, fault: ReasonRLError) -> None:
        super().__init__(fault)
        self.fault = fault


class Stop:
    """Turns the signals into a wish that the run asks for at the end of each step.

    Only the main thread of a program can do so; elsewhere nothing is caught.

    Args:
        console: where it is said that the step is being finished.

    Attributes:
        asked: the number of the signal, once one has come.
    """

    def __init__(self, console: Console) -> None:
        self.asked: int | None = None
        self._console = console
        self._since = 0.0
        self._fault: ReasonRLError | None = None
        self._former: dict[signal.Signals, Any] = {}

    @property
    def catches(self) -> bool:
        """Are signals caught?"""
        return bool(self._former)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._former = {one: signal.signal(one, self._caught) for one in _SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for one, handler in self._former.items():
            signal.signal(one, handler)
        self._former = {}

    def give_up(self, fault: ReasonRLError) -> None:
        """From another thread: raise `GivenUp` in the main one, whatever it waits for."""
        self._fault = fault
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGINT)  # to that thread: a signal to the process would not end its wait

    def _caught(self, number: int, frame: FrameType | None) -> None:
        if self._fault is not None:
            raise GivenUp(self._fault)
        now = time.monotonic()
        if self.asked is None:
            self.asked, self._since = number, now
            self._console.print("finishing the step, then a checkpoint; Ctrl-C (again) stops at once", soft_wrap=True)
        elif number == signal.SIGINT and now - self._since > _SAME_PRESS:
            raise KeyboardInterrupt
