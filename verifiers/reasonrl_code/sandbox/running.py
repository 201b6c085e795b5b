"""One process in the sandbox, seen from outside: feed it, drain it, keep the time, end it. Believes nothing it says."""

import json
import os
import selectors
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from reasonrl import ReasonRLError
from reasonrl_code.records import Ending, Limits, Use
from reasonrl_code.sandbox.launch import Server

_CHUNK = 2**16
_TAIL = 4096  # bytes of standard error that are kept
_REPLY = 16 * 2**20  # bytes of a reply
_TICK = 0.05  # seconds between two looks at the memory
_STUCK = 30.0  # seconds until a killed test must be gone
_SERVER = 64 * 2**20  # resident bytes of bubblewrap and the server, which do not count
_PAGE = os.sysconf("SC_PAGE_SIZE")


class SandboxError(Exception):
    """The sandbox itself broke; nothing is known of the program."""


class Running:
    """A test in progress. Leaving the context kills whatever is left of it.

    Args:
        server: runs it.
        limits: of the test.
        job: the first line it reads.
        stdin: its standard input.
        patience: seconds on the wall clock, if not the limits'.

    Raises:
        ReasonRLError: the server is gone.
    """

    def __init__(
        self, server: Server, limits: Limits, job: bytes, stdin: bytes = b"", patience: float | None = None
    ) -> None:
        self.output = bytearray()
        self.fault: tuple[Ending, str] | None = None  # why we ended it, if we did
        self._server, self._limits = server, limits
        self._tail: deque[int] = deque(maxlen=_TAIL)
        self._incoming = bytearray()
        self._replies: deque[bytes] = deque()
        self._report = bytearray()
        self._selector = selectors.DefaultSelector()
        self._unsent: dict[int, memoryview] = {}
        self._begun = self._looked = time.monotonic()
        self._expires = self._begun + (limits.wall if patience is None else patience)
        pipes = [os.pipe() for _ in range(7)]
        inside = [pipe[0] if index in (0, 3, 6) else pipe[1] for index, pipe in enumerate(pipes)]
        ours = [pipe[1] if index in (0, 3, 6) else pipe[0] for index, pipe in enumerate(pipes)]
        self._stdin, self._stdout, self._stderr, self._job, self._answers, self._status, self._lifeline = ours
        self._open = set(ours)
        try:
            server.hand(limits, inside)
        except ReasonRLError:
            self.close()
            raise
        finally:
            for descriptor in inside:
                os.close(descriptor)
        for descriptor in (self._stdout, self._stderr, self._answers, self._status):
            os.set_blocking(descriptor, False)
            self._selector.register(descriptor, selectors.EVENT_READ)
        self._send(self._job, job)
        self._send(self._stdin, stdin)

    def ask(self, line: bytes) -> None:
        """Send it a further line."""
        self._send(self._job, line)

    def reply(self) -> bytes | None:
        """Its next line of reply; None if it ended, or was ended, without one."""
        while not self._replies and self._status in self._open and self.fault is None:
            self._pump()
        return self._replies.popleft() if self._replies else None

    def finish(self) -> None:
        """Wait until it has ended by itself, or a limit ended it, and all it wrote is read."""
        while self.fault is None and self._open & {self._status, self._stdout, self._stderr, self._answers}:
            self._pump()
        self.kill()

    def kill(self) -> None:
        """End it now, if it has not ended, and wait for the server's last report.

        Raises:
            SandboxError: it does not die.
        """
        self._close(self._lifeline)
        expires = time.monotonic() + _STUCK
        while self._status in self._open:
            if time.monotonic() > expires:
                raise SandboxError("a killed program does not end")
            self._wait(_TICK)

    @property
    def use(self) -> Use:
        """What it used; known once it has ended."""
        report = self._reported()
        seconds = time.monotonic() - self._begun
        return Use(seconds, float(report.get("cpu", 0.0)), int(report.get("memory", 0)))

    @property
    def stderr(self) -> str:
        """The tail of its standard error."""
        return bytes(self._tail).decode(errors="replace")

    def ending(self) -> tuple[Ending, str]:
        """How it ended, and why in a line; known once it has ended."""
        if self.fault is not None:
            return self.fault
        report = self._reported()
        code = report.get("code")
        if code is None:
            return "infra", str(report.get("broken", "the server ended without a report"))
        cause = self.stderr.rstrip().rpartition("\n")[2][:500]
        if code == 0:
            return "pass", ""
        if code < 0:
            return self._killed(-code, float(report["cpu"]))
        if cause.startswith("MemoryError"):
            return "memory", cause
        if cause.startswith("PermissionError"):
            return "blocked", cause
        return "error", cause or f"exit code {code}"

    def _killed(self, number: int, cpu: float) -> tuple[Ending, str]:
        if number == 24 or (number == 9 and cpu >= self._limits.seconds):  # SIGXCPU, or SIGKILL a second later
            return "timeout", f"more than {self._limits.seconds:g} s of CPU"
        return "error", f"killed by signal {number}"

    def close(self) -> None:
        """Give up all that is held; what runs is killed by the lifeline."""
        for descriptor in list(self._open):
            self._close(descriptor)
        self._selector.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _reported(self) -> dict[str, Any]:
        """The guard's report: trusted, for the program cannot reach its descriptor."""
        return dict(json.loads(self._report)) if self._report else {}

    def _send(self, descriptor: int, data: bytes) -> None:
        if descriptor not in self._open:
            return
        os.set_blocking(descriptor, False)
        if descriptor in self._unsent:
            self._unsent[descriptor] = memoryview(bytes(self._unsent[descriptor]) + data)
        else:
            self._unsent[descriptor] = memoryview(data)
            self._selector.register(descriptor, selectors.EVENT_WRITE)
        self._write(descriptor)

    def _pump(self) -> None:
        """Move what can be moved, for a tick at most, and look at the limits."""
        now = time.monotonic()
        if now >= self._expires:
            self.fault = ("timeout", f"more than {self._expires - self._begun:g} s")
            return
        quiet = self._wait(min(_TICK, self._expires - now))
        if len(self.output) > self._limits.output:
            self.fault = ("fail", f"more than {self._limits.output} bytes of output")
        elif len(self._incoming) > _REPLY:
            self.fault = ("fail", f"a reply of more than {_REPLY} bytes")
        elif quiet or now - self._begun > _TICK:
            self._look_at_memory(now)

    def _wait(self, seconds: float) -> bool:
        """True if nothing came."""
        events = self._selector.select(seconds)
        for key, mask in events:
            if mask & selectors.EVENT_WRITE:
                self._write(key.fd)
            else:
                self._read(key.fd)
        return not events

    def _look_at_memory(self, now: float) -> None:
        """The sum over all processes, which no limit of the kernel bounds."""
        if now < self._looked + _TICK:
            return
        self._looked = now
        members = family(self._server.pid)
        allowed = self._limits.memory + _SERVER
        if sum(map(_resident, members)) > allowed and (used := sum(map(_proportional, members))) > allowed:
            self.fault = ("memory", f"{used} bytes in all its processes")

    def _read(self, descriptor: int) -> None:
        chunk = b""
        with suppress(BlockingIOError):
            chunk = os.read(descriptor, _CHUNK)
        if not chunk:
            self._close(descriptor)
        elif descriptor == self._stdout:
            self.output += chunk
        elif descriptor == self._stderr:
            self._tail.extend(chunk[-_TAIL:])
        elif descriptor == self._status:
            self._report += chunk
        else:
            self._incoming += chunk
            if b"\n" in chunk:
                *lines, rest = self._incoming.split(b"\n")
                self._incoming = rest
                self._replies.extend(bytes(line) for line in lines)

    def _write(self, descriptor: int) -> None:
        unsent = self._unsent[descriptor]
        try:
            while unsent:
                unsent = unsent[os.write(descriptor, unsent[:_CHUNK]) :]
        except BlockingIOError:
            self._unsent[descriptor] = unsent
        except BrokenPipeError:  # it does not read on: its right
            self._close(descriptor)
        else:
            del self._unsent[descriptor]
            self._selector.unregister(descriptor)
            if descriptor == self._stdin:
                self._close(descriptor)

    def _close(self, descriptor: int) -> None:
        if descriptor not in self._open:
            return
        self._open.discard(descriptor)
        self._unsent.pop(descriptor, None)
        with suppress(KeyError):
            self._selector.unregister(descriptor)
        os.close(descriptor)


def family(pid: int) -> list[int]:
    """The pids of a process and its descendants; fewer, where the kernel lists no children or one has just ended."""
    family = [pid]
    for member in family:  # which grows meanwhile
        with suppress(OSError):
            for task in os.listdir(f"/proc/{member}/task"):
                family += map(int, Path(f"/proc/{member}/task/{task}/children").read_text().split())
    return family


def _resident(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    return 0


def _proportional(pid: int) -> int:
    """Its resident bytes, those it shares with others divided among them; dearer to ask than `_resident`."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("Pss:")).split()[1])
    return _resident(pid)
