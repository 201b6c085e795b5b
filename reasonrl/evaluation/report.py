"""pass@k, counts and lengths of an evaluation: a record, a JSON file and a table."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from rich.markup import escape
from rich.table import Table

from reasonrl.algorithms.pass_at_k import bootstrap_interval, mean_pass_at_k, pass_at_k
from reasonrl.evaluation.evaluate import Evaluation, Judged


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
    """What an evaluation found, for greedy or for sampled responses.

    Attributes:
        pass_at_k: one entry for every k asked for.
        judged, unjudged: responses; the unjudged are in no pass@k.
        truncated: share of responses cut at the token limit.
        mean_length: tokens.
        reasons: how often each reason was given.
    """

    pass_at_k: tuple[PassAtK, ...]
    judged: int
    unjudged: int
    truncated: float
    mean_length: float
    reasons: dict[str, int]


@dataclass(frozen=True)
class Report:
    """An evaluation in numbers, with what is needed to repeat it."""

    task: str
    model: str
    seed: int
    samples: int
    sampling: dict[str, Any]
    greedy: Scores
    sampled: Scores


def report(evaluation: Evaluation, *, task: str, model: str, seed: int, k: Sequence[int]) -> Report:
    """Count an evaluation. What could not be judged is left out and counted, it never costs the report."""
    return Report(
        task=task,
        model=model,
        seed=seed,
        samples=evaluation.samples,
        sampling=asdict(evaluation.sampling) | {"stop": list(evaluation.sampling.stop)},
        greedy=scores(evaluation.greedy, (1,), seed),
        sampled=scores(evaluation.sampled, k, seed),
    )


def scores(judged: Sequence[Judged], k: Sequence[int], seed: int) -> Scores:
    """Count the responses of one kind; `seed` draws the bootstrap."""
    counts: dict[str, tuple[int, int]] = {}
    for one in judged:
        n, c = counts.get(one.problem.id, (0, 0))
        correct = one.scored.correct
        counts[one.problem.id] = (n, c) if correct is None else (n + 1, c + correct)
    unjudged = sum(one.scored.correct is None for one in judged)
    return Scores(
        pass_at_k=tuple(_pass_at_k(list(counts.values()), one_k, seed) for one_k in k),
        judged=len(judged) - unjudged,
        unjudged=unjudged,
        truncated=sum(one.rollout.finish_reason == "length" for one in judged) / len(judged),
        mean_length=sum(len(one.rollout.response_ids) for one in judged) / len(judged),
        reasons=dict(Counter(one.scored.reason for one in judged).most_common()),
    )


def _pass_at_k(counts: Sequence[tuple[int, int]], k: int, seed: int) -> PassAtK:
    usable = [(n, c) for n, c in counts if n >= k]
    left_out = len(counts) - len(usable)
    if not usable:
        return PassAtK(k=k, value=None, low=None, high=None, problems=0, left_out=left_out)
    low, high = bootstrap_interval([pass_at_k(n, c, k) for n, c in usable], seed)
    return PassAtK(k, mean_pass_at_k(usable, k), low, high, problems=len(usable), left_out=left_out)


def save(report: Report, path: Path) -> None:
    """Write a report as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(report), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read(path: Path) -> Report:
    """The report that `save` wrote."""
    return TypeAdapter(Report).validate_json(path.read_bytes())


def table(reports: Mapping[str, Report], title: str) -> Table:
    """Reports side by side: a column each, pass@k with its 95 % interval, then counts and lengths.

    Args:
        reports: by the heading of their column; with the same k.
        title: above the table.
    """
    legend = "[95 % interval]; truncated and length: greedy / sampled"
    if any(one.left_out for r in reports.values() for one in (*r.greedy.pass_at_k, *r.sampled.pass_at_k)):
        legend += "; left out: problems with fewer than k judged responses"
    shown = Table(title=title, title_justify="left", caption=escape(legend), caption_justify="left")
    shown.add_column("")
    for name in reports:
        shown.add_column(escape(name), justify="right", overflow="fold")
    every = list(reports.values())
    first = every[0]
    shown.add_row("greedy pass@1", *(_interval(r.greedy.pass_at_k[0]) for r in every))
    for index, one in enumerate(first.sampled.pass_at_k):
        label = f"sampled pass@{one.k} (n={first.samples}, T={first.sampling['temperature']:g})"
        shown.add_row(label, *(_interval(r.sampled.pass_at_k[index]) for r in every))
    shown.add_section()
    shown.add_row("problems", *(str(_problems(r)) for r in every))
    shown.add_row("judged / unjudged", *(f"{_judged(r)} / {_unjudged(r)}" for r in every))
    shown.add_row("truncated", *(_both(r, lambda s: f"{s.truncated:.1%}") for r in every))
    shown.add_row("mean length, tokens", *(_both(r, lambda s: f"{s.mean_length:.1f}") for r in every))
    return shown


def _interval(one: PassAtK) -> str:
    if one.value is None or one.low is None or one.high is None:
        return f"none ({one.left_out} left out)"
    left_out = f"\n({one.left_out} left out)" if one.left_out else ""
    return f"{one.value:.1%} [{one.low:.1%}, {one.high:.1%}]{left_out}"


def _both(report: Report, show: Callable[[Scores], str]) -> str:
    return f"{show(report.greedy)} / {show(report.sampled)}"


def _problems(report: Report) -> int:
    return report.greedy.pass_at_k[0].problems + report.greedy.pass_at_k[0].left_out


def _judged(report: Report) -> int:
    return report.greedy.judged + report.sampled.judged


def _unjudged(report: Report) -> int:
    return report.greedy.unjudged + report.sampled.unjudged
