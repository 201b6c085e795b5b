"""From responses by problem to the pairs, or the demonstrations, that are written."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from reasonrl.pairs.candidates import Candidate, Problems
from reasonrl.pairs.choices import Choice, Chooser, Pair, check_logprobs, possible, without_length_bias
from reasonrl.pairs.duplicates import without_near_duplicates
from reasonrl.pairs.steps import step_pairs
from reasonrl.pairs.summary import Summary

Taken = TypeVar("Taken")


@dataclass(frozen=True)
class Controls:
    """What is taken of what there is.

    Attributes:
        choice: which pairs of a problem, or responses to it (`choices.CHOICES`).
        per_problem, limit: at most so many of a problem, and in all (None: no limit).
        margin: rewards of a pair differ by at least so much; None: right and wrong by the judge.
        similarity: responses at least so alike to one that is kept are left out (`duplicates`).
        truncated: take responses cut at the token limit, too.
        length_bias: drop the pairs of the widest gaps until the chosen responses are in the mean longer, or shorter, by
            at most this share; None: drop none.
        steps: pairs that part at the first wrong step.
        seed: of what is random.
    """

    choice: Choice = "random"
    per_problem: int = 4
    limit: int | None = None
    margin: float | None = None
    similarity: float = 0.9
    truncated: bool = False
    length_bias: float | None = None
    steps: bool = False
    seed: int = 0


def build_pairs(problems: Problems, controls: Controls) -> tuple[list[Pair], Summary]:
    """The pairs, problem by problem, and a summary. The same responses and controls give the same pairs.

    Raises:
        ReasonRLError: the choice goes by log-probabilities, and there are none.
    """
    check_logprobs(problems.groups, controls.choice)
    summary = Summary.of(problems)
    chooser = Chooser(controls.choice, controls.per_problem, controls.seed)
    taken: list[list[Pair]] = []
    for number, group in enumerate(problems.groups):
        kept = usable(group, controls, summary)
        pairs = [Pair(*both) for both in step_pairs(kept)] if controls.steps else possible(kept, controls.margin)
        taken.append(chooser.take(pairs, number))
    found = limited(taken, controls.limit, controls.seed)
    if controls.length_bias is not None:
        found = without_length_bias(found, controls.length_bias)
    summary.of_pairs(found)
    return found, summary


def build_demonstrations(problems: Problems, controls: Controls) -> tuple[list[Candidate], Summary]:
    """The right responses (rejection sampling), problem by problem, and a summary.

    With the choice "hardest" they are those that were least likely when they were sampled; with "balanced" those whose
    length is nearest to the mean length of the problem's responses. With a margin they need only earn that much.

    Raises:
        ReasonRLError: the choice goes by log-probabilities, and there are none.
    """
    check_logprobs(problems.groups, controls.choice)
    summary = Summary.of(problems)
    taken: list[list[Candidate]] = []
    for number, group in enumerate(problems.groups):
        kept = [one for one in usable(group, controls, summary) if worth_showing(one, controls.margin)]
        random.Random(f"{controls.seed}/{number}").shuffle(kept)
        taken.append(_ordered(kept, controls.choice, group)[: controls.per_problem])
    found = limited(taken, controls.limit, controls.seed)
    summary.of_demonstrations(found)
    return found, summary


def usable(group: Sequence[Candidate], controls: Controls, summary: Summary) -> list[Candidate]:
    """Those responses to a problem that are not cut at the limit, without text, or nearly the same; counts them."""
    whole = [one for one in group if controls.truncated or not one.truncated]
    written = [one for one in whole if one.text.strip()]
    kept = without_near_duplicates(written, controls.similarity)
    summary.truncated += len(group) - len(whole)
    summary.empty += len(whole) - len(written)
    summary.duplicates += len(written) - len(kept)
    return kept


def worth_showing(candidate: Candidate, margin: float | None) -> bool:
    """Is it right, or does it earn at least the margin, where there is one?"""
    return candidate.correct if margin is None else candidate.reward >= margin


def _ordered(candidates: list[Candidate], choice: Choice, group: Sequence[Candidate]) -> list[Candidate]:
    if choice == "hardest":
        return sorted(candidates, key=lambda one: one.logprob)
    if choice == "balanced":
        middle = sum(one.tokens for one in group) / len(group)
        return sorted(candidates, key=lambda one: abs(one.tokens - middle))
    return candidates


def limited(taken: Sequence[Sequence[Taken]], limit: int | None, seed: int) -> list[Taken]:
    """All that was taken, in order; of more than the limit the first of each problem, then the second ones, and so on.

    Which of those that rank alike, is drawn.
    """
    places = [(rank, number) for number, of_problem in enumerate(taken) for rank in range(len(of_problem))]
    if limit is not None and len(places) > limit:
        random.Random(f"{seed}/limit").shuffle(places)
        places = sorted(places, key=lambda place: place[0])[:limit]
    return [taken[number][rank] for rank, number in sorted(places, key=lambda place: (place[1], place[0]))]
