"""The scorer: submit each response as it arrives, collect the verdicts of the batch."""

import logging
import pickle
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import TracebackType
from typing import Self

from reasonrl.errors import ReasonRLError
from reasonrl.scoring.pool import Pool
from reasonrl.scoring.process import Check
from reasonrl.scoring.records import Scored, WeightedVerifier, weigh
from reasonrl.scoring.wire import (
    audit_verdict,
    current_error,
    decode_verdict,
    encode_verdict,
    error_verdict,
    parse_line,
)
from reasonrl.types import Problem, Response
from reasonrl.verifier import Verdict, Verifier

logger = logging.getLogger(__name__)


class Scorer:
    """Verifies responses while others are still being generated.

    Verifiers with `isolation = "process"` run in worker processes that are killed when a check exceeds its deadline;
    those with `isolation = "inline"` run in this process, on the whole batch, in `collect`. What cannot be judged
    (timeout, worker_died, error) gets a verdict without a reward, never a reward of 0.

    Args:
        verifiers: of the task, in its order; the first is the judge of correctness. In a mixture, those of all its
            tasks: a problem is judged by those of its own.
        workers: how many worker processes; none are started if no verifier needs one.
        deadline: seconds for one check (one response × one verifier), from when a worker begins it; a verifier whose
            checks rightly take longer has its own (`Verifier.check_seconds`).
        startup_deadline: seconds for a worker to import and warm up the verifiers.
        on_verdict: called for each verdict of a worker, in a thread of our own.

    Raises:
        ValueError: there is no verifier, or a number is not positive.
        ReasonRLError: a verifier cannot be sent to a worker process, or an inline one fails to start.
    """

    def __init__(
        self,
        verifiers: Sequence[WeightedVerifier],
        *,
        workers: int = 2,
        deadline: float = 10.0,
        startup_deadline: float = 120.0,
        on_verdict: Callable[[], None] = lambda: None,
    ) -> None:
        if not verifiers:
            raise ValueError("scoring needs at least one verifier")
        if workers < 1 or deadline <= 0 or startup_deadline <= 0:
            raise ValueError("workers, deadline and startup_deadline must be positive")
        self._verifiers = tuple(verifiers)
        self._submitted: dict[Hashable, tuple[Problem, Response]] = {}
        self._pickled: dict[int, bytes] = {}  # by id of a problem in _submitted: groups share it
        self._inline = {i: _start_inline(v) for i, v in enumerate(verifiers) if v.verifier.isolation == "inline"}
        isolated = {i: v for i, v in enumerate(verifiers) if i not in self._inline}
        self._isolated = tuple(isolated)
        self._pool = Pool(isolated, workers, deadline, startup_deadline, on_verdict) if isolated else None
        if self._pool is not None:
            weakref.finalize(self, self._pool.close)  # also at exit, for those who forget

    def submit(self, key: Hashable, problem: Problem, response: Response) -> None:
        """Have a response verified; returns at once, while verification starts.

        Raises:
            ValueError: the key has been submitted since the last `collect`.
            ReasonRLError: workers cannot start, the scorer is closed, or the problem cannot be sent to a worker.
        """
        if key in self._submitted:
            raise ValueError(f"{key!r} was submitted twice before collect")
        if self._pool is not None:
            pickled = self._pickled.get(id(problem)) or _pickle(problem)
            for index in filter(lambda index: self._judges(index, problem), self._isolated):
                self._pool.submit(Check((key, index), index, problem.id, pickled, response))
            self._pickled[id(problem)] = pickled
        self._submitted[key] = (problem, response)

    def collect(self) -> dict[Hashable, Scored]:
        """Wait for all that was submitted since the last `collect`; return it in order of submission, and forget it.

        Raises:
            ReasonRLError: workers cannot start (the message names the verifier and its error), or the scorer is closed.
        """
        verdicts: dict[Hashable, Verdict] = {}
        for index, verifier in self._inline.items():
            own = {key: pair for key, pair in self._submitted.items() if self._judges(index, pair[0])}
            judged = _verify_inline(verifier, list(own.values()))
            verdicts.update(((key, index), verdict) for key, verdict in zip(own, judged, strict=True))
        if self._pool is not None:
            verdicts.update(self._pool.take())
        scored = {key: self._weighed(key, problem, verdicts) for key, (problem, _) in self._submitted.items()}
        self._submitted.clear()
        self._pickled.clear()
        return scored

    def _judges(self, index: int, problem: Problem) -> bool:
        return self._verifiers[index].task == problem.task

    def _weighed(self, key: Hashable, problem: Problem, verdicts: Mapping[Hashable, Verdict]) -> Scored:
        own = [index for index in range(len(self._verifiers)) if self._judges(index, problem)]
        return weigh([self._verifiers[i] for i in own], [verdicts[key, i] for i in own])

    def audit(self, problems: Sequence[Problem]) -> list[tuple[Problem, str]]:
        """The problems whose reference (or whatever else a verifier reads of them) is unusable, each with its fault.

        Audits run where the checks do: one that hangs or crashes is a fault, too.

        Raises:
            ValueError: responses were submitted and not yet collected.
            ReasonRLError: workers cannot start, or the scorer is closed.
        """
        if self._submitted:
            raise ValueError("collect what was submitted before an audit")
        verdicts: dict[Hashable, Verdict] = {}
        asked = [
            (at, i) for at, one in enumerate(problems) for i in range(len(self._verifiers)) if self._judges(i, one)
        ]
        for at, index in asked:
            problem = problems[at]
            if index in self._inline:
                verdicts[at, index] = _audit_inline(self._inline[index], problem)
            elif self._pool is not None:
                self._pool.submit(Check((at, index), index, problem.id, _pickle(problem), None))
        if self._pool is not None:
            verdicts.update(self._pool.take())
        faults = {at: verdicts[at, index] for at, index in reversed(asked) if verdicts[at, index].reward is None}
        return [(problems[at], _fault(faults[at])) for at in sorted(faults)]

    def close(self) -> None:
        """Kill the workers. May be called again; `submit` and `collect` may not, if there were workers."""
        if self._pool is not None:
            self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _start_inline(weighted: WeightedVerifier) -> Verifier:
    try:
        verifier = weighted.verifier(weighted.options)
        verifier.warm_up()
    except ReasonRLError:
        raise
    except Exception as error:
        raise ReasonRLError(f"verifier {weighted.name!r} failed to start:\n{current_error()}") from error
    return verifier


def _verify_inline(verifier: Verifier, pairs: list[tuple[Problem, Response]]) -> list[Verdict]:
    """One verdict for each pair; a broken batch is unjudged as a whole, a broken verdict by itself."""
    if not pairs:
        return []
    try:
        verdicts = verifier.verify_batch(pairs)
        if not isinstance(verdicts, list) or len(verdicts) != len(pairs):
            what = f"{len(verdicts)} verdicts" if isinstance(verdicts, list) else type(verdicts).__name__
            raise TypeError(f"verify_batch must return a list of {len(pairs)} verdicts, not {what}")
    except Exception:  # noqa: BLE001  an exception of a verifier means "could not be judged"
        error = current_error()
        logger.warning("verifier %r broke on a batch of %d: %s", verifier.name, len(pairs), error.splitlines()[-1])
        return [error_verdict(error)] * len(pairs)
    return [_checked(verdict) for verdict in verdicts]


def _checked(verdict: object) -> Verdict:
    """The verdict as it would come back from a worker: valid, and with evidence that is JSON."""
    try:
        return decode_verdict(parse_line(encode_verdict(verdict)))
    except Exception:  # noqa: BLE001  as above
        return error_verdict(current_error())


def _audit_inline(verifier: Verifier, problem: Problem) -> Verdict:
    try:
        return audit_verdict(verifier, problem)
    except Exception:  # noqa: BLE001  a verifier that breaks on a problem could not judge it either
        return error_verdict(current_error())


def _fault(verdict: Verdict) -> str:
    """What an audit found, or why it came to no end."""
    details = "; ".join(f"{name}: {value}" for name, value in verdict.evidence.items())
    return str(verdict.evidence.get("fault") or f"the audit ended with {verdict.reason} ({details})")


def _pickle(problem: Problem) -> bytes:
    try:
        return pickle.dumps(problem)
    except Exception as error:
        raise ReasonRLError(f"problem {problem.id!r} cannot be sent to a worker process: {error}") from error
