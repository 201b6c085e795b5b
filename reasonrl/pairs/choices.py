"""Which pairs of a problem are taken."""

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from reasonrl.errors import ReasonRLError
from reasonrl.pairs.candidates import Candidate, Source

Choice = Literal["random", "balanced", "hardest"]


@dataclass(frozen=True)
class Pair:
    """Two responses to one problem, the better one first."""

    chosen: Candidate
    rejected: Candidate

    @property
    def gap(self) -> int:
        """By how many tokens the chosen one is longer."""
        return self.chosen.tokens - self.rejected.tokens

    @property
    def lead(self) -> float:
        """By how much the chosen one was likelier when it was sampled, in nats a token; below 0 a pair is hard."""
        return self.chosen.logprob - self.rejected.logprob


def possible(candidates: Sequence[Candidate], margin: float | None) -> list[Pair]:
    """All pairs of a problem's responses: the chosen one right and the rejected one wrong, by the judge.

    With a margin, for graded rewards: the chosen one has at least so much more reward, and is not wrong where the
    rejected one is right. Responses of the same text are no pair.
    """
    if margin is None:
        both = [(c, r) for c in candidates if c.correct for r in candidates if not r.correct]
    else:
        both = [
            (c, r)
            for c in candidates
            for r in candidates
            if c.reward > r.reward and c.reward - r.reward >= margin and c.correct >= r.correct
        ]
    return [Pair(c, r) for c, r in both if c.text.strip() != r.text.strip() and c.text.strip() and r.text.strip()]


class Chooser:
    """Takes pairs of one problem after the other.

    Args:
        choice: "random"; "balanced", so that over all pairs taken the chosen ones are as long as the rejected ones;
            "hardest", those whose rejected response was likeliest beside the chosen one when they were sampled.
        most: of a problem.
        seed: of what is random, together with the problem's place.
    """

    def __init__(self, choice: Choice, most: int, seed: int | str) -> None:
        self._order = CHOICES[choice]
        self._most, self._seed = most, seed
        self._gap = 0  # of all pairs taken so far, in tokens

    def take(self, pairs: Sequence[Pair], problem: int) -> list[Pair]:
        """At most so many of a problem's pairs. A response is taken anew only where no others are left."""
        left = list(pairs)
        random.Random(f"{self._seed}/{problem}").shuffle(left)
        used: Counter[tuple[Source, str]] = Counter()
        taken: list[Pair] = []
        while left and len(taken) < self._most:
            times = [used[_name(p.chosen)] + used[_name(p.rejected)] for p in left]
            fresh = [at for at, often in enumerate(times) if often == min(times)]
            pair = left.pop(min(fresh, key=lambda at: self._order(left[at], self._gap)))
            taken.append(pair)
            used.update((_name(pair.chosen), _name(pair.rejected)))
            self._gap += pair.gap
        return taken


def _name(candidate: Candidate) -> tuple[Source, str]:
    return candidate.source, candidate.text


def _at_random(pair: Pair, gap: int) -> float:
    return 0.0  # the pairs are shuffled, and of equals the first is taken


def _balanced(pair: Pair, gap: int) -> float:
    return abs(gap + pair.gap)


def _hardest(pair: Pair, gap: int) -> float:
    return pair.lead


CHOICES: dict[str, Callable[[Pair, int], float]] = {"random": _at_random, "balanced": _balanced, "hardest": _hardest}


def check_logprobs(groups: Sequence[Sequence[Candidate]], choice: Choice) -> None:
    """Has every response the log-probabilities that a choice goes by?

    Raises:
        ReasonRLError: one has none.
    """
    if choice == "hardest" and any(math.isnan(one.logprob) for group in groups for one in group):
        raise ReasonRLError(
            "--choice hardest goes by the log-probabilities of the sampler, and some responses have none (greedy ones "
            "of another system, say); choose random or balanced"
        )


def length_bias(pairs: Sequence[Pair]) -> float:
    """By what share of the mean length the chosen responses are longer than the rejected ones, in the mean."""
    tokens = sum(p.chosen.tokens + p.rejected.tokens for p in pairs) / 2
    return sum(p.gap for p in pairs) / tokens if tokens else 0.0


def without_length_bias(pairs: Sequence[Pair], most: float) -> list[Pair]:
    """The pairs in their order without those of the widest gaps, until |`length_bias`| is at most so much.

    One so wide that without it the bias would be as large the other way stays, as what is left may then be biased.
    """
    gap = sum(p.gap for p in pairs)
    tokens = sum(p.chosen.tokens + p.rejected.tokens for p in pairs) / 2
    dropped: set[int] = set()
    for at in sorted(range(len(pairs)), key=lambda at: -abs(pairs[at].gap)):
        if abs(gap) <= most * tokens:
            break
        if abs(gap - pairs[at].gap) < abs(gap):
            dropped.add(at)
            gap -= pairs[at].gap
            tokens -= (pairs[at].chosen.tokens + pairs[at].rejected.tokens) / 2
    return [pair for at, pair in enumerate(pairs) if at not in dropped]
