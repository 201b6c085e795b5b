"""pass@k, counts and lengths of judged responses, wherever they come from."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from reasonrl.algorithms.pass_at_k import bootstrap_interval, mean_pass_at_k, pass_at_k
from reasonrl.scoring import Scored
from reasonrl.types import Problem


class Countable(Protocol):
    """A response with its verdicts, as far as counting it goes."""

    @property
    def problem(self) -> Problem:
        """What was asked."""

    @property
    def scored(self) -> Scored:
        """What the verifiers say."""

    @property
    def tokens(self) -> int | None:
        """Its length; None if that is not known."""

    @property
    def truncated(self) -> bool | None:
        """Was it cut at the token limit? None if that is not known."""


@dataclass(frozen=True)
class PassAtK:
    """pass@k over the problems that have k judged samples.

    Attributes:
        value: the mean of the unbiased estimate (Chen et al. 2021, arXiv 2107.03374, eq. 1) over problems.
        low, high: 95 % bootstrap interval, clustered by problem.
        problems: over how many problems. If none has k judged samples, value, low and high are None.
        left_out: how many problems have fewer than k judged samples.
    """

    k: int
    value: float | None
    low: float | None
    high: float | None
    problems: int
    left_out: int


@dataclass(frozen=True)
class Scores:
    """What was found, for greedy or for sampled responses.

    Attributes:
        pass_at_k: one entry for every k asked for.
        judged, unjudged: responses; the unjudged are in no pass@k.
        truncated: share of responses cut at the token limit, of those of which it is known; None if of none.
        mean_length: tokens, of the responses whose length is known; None if there are none.
        reasons: how often each reason was given.
    """

    pass_at_k: tuple[PassAtK, ...]
    judged: int
    unjudged: int
    truncated: float | None
    mean_length: float | None
    reasons: dict[str, int]


def scores(judged: Sequence[Countable], k: Sequence[int], seed: int) -> Scores:
    """Count the responses of one kind; `seed` draws the bootstrap."""
    counts = tally(judged)
    unjudged = sum(one.scored.correct is None for one in judged)
    return Scores(
        pass_at_k=tuple(over_problems(list(counts.values()), one_k, seed) for one_k in k),
        judged=len(judged) - unjudged,
        unjudged=unjudged,
        truncated=_mean(one.truncated for one in judged),
        mean_length=_mean(one.tokens for one in judged),
        reasons=dict(Counter(one.scored.reason for one in judged).most_common()),
    )


def tally(judged: Iterable[Countable]) -> dict[str, tuple[int, int]]:
    """Of each problem, how many responses were judged and how many of these are right; also of those without any."""
    counts: dict[str, tuple[int, int]] = {}
    for one in judged:
        n, c = counts.get(one.problem.id, (0, 0))
        correct = one.scored.correct
        counts[one.problem.id] = (n, c) if correct is None else (n + 1, c + correct)
    return counts


def over_problems(counts: Sequence[tuple[int, int]], k: int, seed: int) -> PassAtK:
    """pass@k of problems, each given as (judged samples, right ones); `seed` draws the bootstrap."""
    usable = [(n, c) for n, c in counts if n >= k]
    left_out = len(counts) - len(usable)
    if not usable:
        return PassAtK(k=k, value=None, low=None, high=None, problems=0, left_out=left_out)
    low, high = bootstrap_interval([pass_at_k(n, c, k) for n, c in usable], seed)
    return PassAtK(k, mean_pass_at_k(usable, k), low, high, problems=len(usable), left_out=left_out)


def interval(one: PassAtK) -> str:
    """pass@k as a cell of a table, with its interval and how many problems were left out."""
    if one.value is None or one.low is None or one.high is None:
        return f"none ({one.left_out} left out)"
    left_out = f"\n({one.left_out} left out)" if one.left_out else ""
    return f"{one.value:.1%} [{one.low:.1%}, {one.high:.1%}]{left_out}"


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
