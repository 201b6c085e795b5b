"""Stored evaluations against one another on the problems they share: is one better, and how sure is that?"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist

import torch
from rich.markup import escape
from rich.table import Table
from torch import Tensor

from reasonrl.algorithms.comparison import ability_covariance, sign_flip
from reasonrl.algorithms.pass_at_k import bootstrap_interval
from reasonrl.algorithms.preference import bradley_terry_abilities
from reasonrl.errors import ReasonRLError
from reasonrl.evaluation.counting import PassAtK, interval, over_problems
from reasonrl.evaluation.stored import StoredEvaluation, read_evaluation

PRIOR = 0.5  # wins both ways between all pairs: else who wins or loses everywhere would be infinitely able
_QUANTILE = NormalDist().inv_cdf(0.975)
_SHOWN = 3  # ids in a message


@dataclass(frozen=True)
class Ability:
    """How able a run is beside the others, in Bradley and Terry's model.

    Attributes:
        value: log θ, of mean 0 over the runs. e to the difference of two is the odds that one solves a problem and the
            other does not, rather than the other way round.
        low, high: 95 % interval, by the sandwich covariance over problems.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Compared:
    """One run on the problems that all have.

    Attributes:
        name, file: as it was named, and what was read.
        evaluated: problems it was evaluated on.
        pass_at_1: on the common ones, with its 95 % interval.
        ability: beside the others; None where two are compared.
    """

    name: str
    file: str
    evaluated: int
    pass_at_1: PassAtK
    ability: Ability | None


@dataclass(frozen=True)
class Difference:
    """pass@1 of the second run less that of the first, problem by problem.

    Attributes:
        value: the mean over problems.
        low, high: 95 % bootstrap interval, problems being drawn.
        p_value: two-sided, of the sign-flip test over problems; 1 if no problem differs.
        exact: were all signs counted, or drawn?
        better, equal, worse: on how many problems the second run is that.
    """

    value: float
    low: float
    high: float
    p_value: float
    exact: bool
    better: int
    equal: int
    worse: int


@dataclass(frozen=True)
class Comparison:
    """What was found.

    Attributes:
        responses: "sampled" or "greedy".
        problems: that all runs have, with a judged response of each.
        unjudged: further ones that all have, without a judged response of some run.
        prompts_differ: on how many of these problems runs were asked in different words.
        runs: in the order they were named.
        difference: of two runs; None if there are more.
    """

    responses: str
    problems: int
    unjudged: int
    prompts_differ: int
    runs: tuple[Compared, ...]
    difference: Difference | None


def compare(runs: Sequence[Path], *, greedy: bool = False, seed: int = 0) -> Comparison:
    """Compare stored evaluations; see `read_evaluation` for what a run may be.

    Args:
        runs: at least two.
        greedy: compare the greedy responses, in place of the sampled ones.
        seed: of the bootstrap, and of the test where signs are drawn.

    Raises:
        ReasonRLError: a run cannot be read, there are fewer than two, or they have no judged problem in common.
    """
    if len(runs) < 2:
        raise ReasonRLError("comparing takes two runs or more")
    stored = [read_evaluation(run, greedy=greedy) for run in runs]
    shared = common_problems(stored)
    judged = [problem for problem in shared if all(one.counts[problem][0] for one in stored)]
    if not judged:
        raise ReasonRLError(f"none of the {len(shared)} problems in common has a judged response of every run")
    abilities = None if len(stored) == 2 else _abilities(stored, judged)
    return Comparison(
        responses="greedy" if greedy else "sampled",
        problems=len(judged),
        unjudged=len(shared) - len(judged),
        prompts_differ=sum(len({one.asked[problem].prompt for one in stored}) > 1 for problem in judged),
        runs=tuple(
            Compared(
                name=one.name,
                file=str(one.file),
                evaluated=len(one.counts),
                pass_at_1=over_problems([one.counts[problem] for problem in judged], 1, seed),
                ability=None if abilities is None else abilities[index],
            )
            for index, one in enumerate(stored)
        ),
        difference=_difference(stored[0], stored[1], judged, seed) if len(stored) == 2 else None,
    )


def common_problems(stored: Sequence[StoredEvaluation]) -> list[str]:
    """The ids that all have, in the order of the first.

    Raises:
        ReasonRLError: there are none, or one id stands for different problems.
    """
    shared = [problem for problem in stored[0].counts if all(problem in one.counts for one in stored[1:])]
    if not shared:
        ids = "; ".join(f"{one.name} has {', '.join(list(one.counts)[:_SHOWN])} …" for one in stored)
        raise ReasonRLError(f"these evaluations have no problem in common: {ids}")
    for problem in shared:
        for one in stored[1:]:
            first, other = stored[0].asked[problem].reference, one.asked[problem].reference
            if first != other:
                raise ReasonRLError(
                    f"problem {problem!r} is not the same one: its reference is {first!r} in {stored[0].name} and "
                    f"{other!r} in {one.name}; compare evaluations on the same data"
                )
    return shared


def _difference(first: StoredEvaluation, second: StoredEvaluation, problems: Sequence[str], seed: int) -> Difference:
    each = [_share(second, problem) - _share(first, problem) for problem in problems]
    low, high = bootstrap_interval([float(one) for one in each], seed)
    p_value, exact = sign_flip(each, seed)
    better, worse = sum(one > 0 for one in each), sum(one < 0 for one in each)
    return Difference(
        value=float(sum(each) / len(each)),
        low=low,
        high=high,
        p_value=p_value,
        exact=exact,
        better=better,
        equal=len(each) - better - worse,
        worse=worse,
    )


def _abilities(stored: Sequence[StoredEvaluation], problems: Sequence[str]) -> list[Ability]:
    """A run beats another on a problem by the chance that a response of the one is right and one of the other wrong."""
    shares = torch.tensor(
        [[float(_share(one, problem)) for one in stored] for problem in problems], dtype=torch.float64
    )
    wins: Tensor = shares.unsqueeze(2) * (1 - shares).unsqueeze(1)
    wins.diagonal(dim1=1, dim2=2).zero_()
    abilities = bradley_terry_abilities(wins.sum(0), prior=PRIOR)
    spread = ability_covariance(wins, abilities, prior=PRIOR).diagonal().sqrt() * _QUANTILE
    return [Ability(v, v - s, v + s) for v, s in zip(abilities.log().tolist(), spread.tolist(), strict=True)]


def _share(one: StoredEvaluation, problem: str) -> Fraction:
    n, c = one.counts[problem]
    return Fraction(c, n)


def to_json(found: Comparison) -> str:
    """A comparison as JSON, with a line break at its end."""
    return json.dumps(asdict(found), indent=2, ensure_ascii=False) + "\n"


def table(found: Comparison) -> Table:
    """A row for each run."""
    title = f"{found.problems} problems in common, {found.responses} responses"
    shown = Table(title=title, title_justify="left", caption=escape(_legend(found)), caption_justify="left")
    shown.add_column("run", overflow="fold")
    shown.add_column("evaluated", justify="right")
    shown.add_column("pass@1", justify="right")
    if found.difference is None:
        shown.add_column("ability", justify="right")
    for one in found.runs:
        cells = [escape(one.name), str(one.evaluated), interval(one.pass_at_1)]
        if one.ability is not None:
            cells.append(f"{one.ability.value:+.2f} [{one.ability.low:+.2f}, {one.ability.high:+.2f}]")
        shown.add_row(*cells)
    return shown


def lines(found: Comparison) -> list[str]:
    """What is to be said below the table."""
    said = []
    if (one := found.difference) is not None:
        first, second = (run.name for run in found.runs)
        how = "exact" if one.exact else "drawn"
        said = [
            f"{second} less {first}: {one.value:+.1%} [{one.low:+.1%}, {one.high:+.1%}], p = {one.p_value:.3g} "
            f"({how} sign-flip test, paired by problem)",
            f"better on {one.better}, equal on {one.equal}, worse on {one.worse}",
        ]
    if found.unjudged:
        said.append(f"{found.unjudged} further problems in common have no judged response of some run")
    if found.prompts_differ:
        said.append(f"on {found.prompts_differ} problems the runs were asked in different words")
    return said


def _legend(found: Comparison) -> str:
    if found.difference is not None:
        return "[95 % interval]"
    return "[95 % interval]; ability: log θ of Bradley and Terry, mean 0"
