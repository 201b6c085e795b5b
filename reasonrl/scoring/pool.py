"""Worker processes and the thread that hands them checks, one at a time each, and replaces those that hang or die.

Why not what the standard library has: a hung future of a `ProcessPoolExecutor` cannot be cancelled, so hung workers
eat the pool; `multiprocessing` imports the user's `__main__` again; `signal.alarm` cannot break into C-level work.

All workers are started, spoken to and killed by the dispatcher thread alone. They die with the thread that started
them (PR_SET_PDEATHSIG follows the thread, not the process), so that thread lives as long as the pool.
"""

import itertools
import logging
import os
import pickle
import selectors
import socket
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from typing import Any

from reasonrl.errors import ReasonRLError
from reasonrl.scoring.process import Check, WorkerProcess
from reasonrl.scoring.records import WeightedVerifier
from reasonrl.scoring.setup import check_seconds, setup_message
from reasonrl.scoring.wire import decode_verdict
from reasonrl.verifier import Verdict

_STARTS = 2  # failures to start in a row that end the run

logger = logging.getLogger(__name__)


class Pool:
    """Verdicts of process-isolated verifiers.

    Args:
        verifiers: by their place in the task.
        workers: how many processes.
        deadline: seconds for one check, from when a worker begins it; more where `Verifier.check_seconds` says so.
        startup_deadline: seconds for a worker to load and warm up all verifiers.
        on_verdict: called for each verdict, in a thread of the pool.

    Raises:
        ReasonRLError: a verifier's class or options cannot be sent to a worker.
    """

    def __init__(
        self,
        verifiers: Mapping[int, WeightedVerifier],
        workers: int,
        deadline: float,
        startup_deadline: float,
        on_verdict: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_verdict = on_verdict
        self._names = {index: weighted.name for index, weighted in verifiers.items()}
        self._setup = setup_message(verifiers)
        self._deadlines = {index: max(deadline, check_seconds(weighted)) for index, weighted in verifiers.items()}
        self._size, self._startup_deadline = workers, startup_deadline
        self._pid = os.getpid()
        self._numbers = itertools.count(1)
        self._selector = selectors.DefaultSelector()
        self._waker, self._woken = socket.socketpair()
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._workers: list[WorkerProcess] = []
        self._changed = threading.Condition()  # guards the five below; notified when a wait may be over
        self._queue: deque[Check] = deque()
        self._open = 0  # checks submitted and without a verdict yet
        self._verdicts: dict[Hashable, Verdict] = {}
        self._failure: str | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="reasonrl-scoring", daemon=True)
        self._thread.start()

    def submit(self, check: Check) -> None:
        """Queue a check; never blocks.

        Raises:
            ReasonRLError: the workers cannot start, or the pool is closed.
        """
        with self._changed:
            self._raise_failure()
            self._open += 1
            self._queue.append(check)
            if len(self._queue) == 1:  # else the dispatcher has been woken, or every worker is busy
                self._wake()

    def take(self) -> dict[Hashable, Verdict]:
        """Wait until all that was submitted has a verdict; return the verdicts by ticket, and forget them.

        The wait is bounded by the deadlines: each check ends, each start succeeds or fails.

        Raises:
            ReasonRLError: the workers cannot start, or the pool is closed.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._open == 0 or self._failure is not None)
            self._raise_failure()
            verdicts, self._verdicts = self._verdicts, {}
            return verdicts

    def close(self) -> None:
        """Kill the workers and end the thread; once closed, do nothing."""
        if os.getpid() != self._pid:
            return  # in a fork of the process: the workers are not ours
        with self._changed:
            self._closing = True
            self._failure = self._failure or "the scorer is closed"
            self._changed.notify_all()
            self._wake()
        if threading.current_thread() is not self._thread:  # the garbage collector may call from anywhere
            self._thread.join()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise ReasonRLError(self._failure)

    def _wake(self) -> None:
        with suppress(OSError):  # a full pipe wakes as well as one more byte; a closed one has nobody to wake
            self._waker.send(b"\0")

    # From here on: the dispatcher thread.

    def _run(self) -> None:
        try:
            for _ in range(self._size):
                self._start(failures=0)
            while not self._closing:
                self._hand_out()
                for key, events in self._selector.select(self._patience()):
                    if key.data is None:
                        with suppress(BlockingIOError):
                            self._woken.recv(4096)
                    elif key.data in self._workers:  # not replaced a moment ago
                        self._attend(key.data, events)
                self._expire()
        except ReasonRLError as error:
            self._fail(str(error))
        except Exception:  # noqa: BLE001  whoever waits in `take` must hear of it, or would wait for ever
            self._fail(f"the dispatcher of the scoring workers broke:\n{traceback.format_exc()}")
        finally:
            for worker in self._workers:
                worker.kill()
            self._selector.close()
            self._waker.close()
            self._woken.close()

    def _fail(self, message: str) -> None:
        with self._changed:
            self._failure = self._failure or message
            self._changed.notify_all()

    def _start(self, failures: int) -> None:
        worker = WorkerProcess(self._setup, self._startup_deadline, failures)
        self._workers.append(worker)
        self._selector.register(worker.channel, _events(worker), worker)

    def _replace(self, worker: WorkerProcess, failures: int = 0) -> int | None:
        """Kill it and start another in its place; returns the exit code of the old one."""
        self._selector.unregister(worker.channel)
        self._workers.remove(worker)
        exit_code = worker.kill()
        if not self._closing and failures < _STARTS:
            self._start(failures)
        return exit_code

    def _hand_out(self) -> None:
        for worker in list(self._workers):
            if not worker.ready or worker.check is not None:
                continue
            with self._changed:
                if not self._queue:
                    return
                check = self._queue.popleft()
            number = next(self._numbers)
            try:
                worker.send(pickle.dumps((number, check.verifier, check.problem, check.response)))
            except OSError:  # it died while idle: the check never reached it
                self._queue.appendleft(check)
                self._lost(worker)
                continue
            worker.check, worker.number = check, number
            worker.expires = time.monotonic() + self._deadlines[check.verifier]
            if worker.sending:
                self._selector.modify(worker.channel, _events(worker), worker)

    def _attend(self, worker: WorkerProcess, events: int) -> None:
        """Send and receive what can be, and act on it."""
        try:
            if events & selectors.EVENT_WRITE:
                self._flush(worker)
            messages = worker.receive() if events & selectors.EVENT_READ else []
        except (EOFError, OSError):
            self._lost(worker)
        except ValueError as error:
            self._lost(worker, f"malformed reply: {error}")
        else:
            for message in messages:
                if worker in self._workers:  # not replaced for the message before
                    self._heard(worker, message)

    def _flush(self, worker: WorkerProcess) -> None:
        worker.flush()
        if not worker.sending:
            self._selector.modify(worker.channel, _events(worker), worker)
            if worker.check is not None:  # only now can the worker begin
                worker.expires = time.monotonic() + self._deadlines[worker.check.verifier]

    def _heard(self, worker: WorkerProcess, message: Any) -> None:
        match message:
            case ["verdict", int(number), fields] if worker.check is not None and number == worker.number:
                try:
                    verdict = decode_verdict(fields)
                except ValueError as error:
                    self._lost(worker, f"malformed reply: {error}")
                    return
                check, worker.check, worker.expires = worker.check, None, None
                self._deliver(check, verdict)
            case ["starting", str(name)] if not worker.ready:
                worker.stage = name
            case ["failed", str(error)] if not worker.ready:
                self._start_failed(worker, error)
            case ["ready"] if not worker.ready:
                worker.ready, worker.failures, worker.expires = True, 0, None
            case _:
                self._lost(worker, "malformed reply: not what was asked")

    def _lost(self, worker: WorkerProcess, error: str | None = None) -> None:
        """It is dead, or broke the protocol: only the check in flight is affected."""
        if not worker.ready:
            self._start_failed(worker, error)
            return
        exit_code = self._replace(worker)
        logger.warning("a scoring worker died (%s), %s", error or f"exit code {exit_code}", self._during(worker.check))
        if worker.check is not None:
            evidence = {"exit_code": exit_code} if error is None else {"error": error}
            self._deliver(worker.check, Verdict(None, "worker_died", evidence=evidence))

    def _start_failed(self, worker: WorkerProcess, error: str | None) -> None:
        failures = worker.failures + 1
        exit_code = self._replace(worker, failures)
        error = error or f"its process died with exit code {exit_code}; what it printed is on standard error"
        during = f"verifier {worker.stage!r} failed to load" if worker.stage else "it never came to load a verifier"
        if failures >= _STARTS:
            raise ReasonRLError(f"a scoring worker failed to start {failures} times in a row: {during}:\n{error}")
        logger.warning("a scoring worker failed to start, trying again: %s: %s", during, error.splitlines()[-1])

    def _expire(self) -> None:
        now = time.monotonic()
        for worker in list(self._workers):
            if worker.expires is None or now < worker.expires:
                continue
            if worker.check is None:
                self._start_failed(worker, f"it was not ready after {self._startup_deadline:g} s")
                continue
            deadline = self._deadlines[worker.check.verifier]
            logger.warning("no verdict after %g s, %s; killed", deadline, self._during(worker.check))
            self._replace(worker)
            self._deliver(worker.check, Verdict(None, "timeout", evidence={"deadline": deadline}))

    def _patience(self) -> float | None:
        """Seconds until the next deadline."""
        pending = [worker.expires for worker in self._workers if worker.expires is not None]
        return max(0.0, min(pending) - time.monotonic()) if pending else None

    def _deliver(self, check: Check, verdict: Verdict) -> None:
        self._on_verdict()
        with self._changed:
            self._verdicts[check.ticket] = verdict
            self._open -= 1
            if self._open == 0:
                self._changed.notify_all()

    def _during(self, check: Check | None) -> str:
        if check is None:
            return "no check in flight"
        return f"verifier {self._names[check.verifier]!r} on problem {check.problem_id!r}"


def _events(worker: WorkerProcess) -> int:
    return selectors.EVENT_READ | (selectors.EVENT_WRITE if worker.sending else 0)
