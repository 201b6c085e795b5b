"""pass@k, counts and lengths of an evaluation: a record, a JSON file and a table."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from rich.markup import escape
from rich.table import Table

from reasonrl import files
from reasonrl.evaluation.breakdown import Breakdown, breakdowns
from reasonrl.evaluation.counting import Scores, interval, scores
from reasonrl.evaluation.evaluate import Evaluation

_UNKNOWN = "–"


@dataclass(frozen=True)
class Coverage:
    """How many problems a file has responses to, and of how many."""

    answered: int
    problems: int


@dataclass(frozen=True)
class Report:
    """An evaluation in numbers, with what is needed to repeat it.

    Attributes:
        task, model: as they were named; the file, where the responses came from one.
        seed: of the samples and of the bootstrap.
        samples: sampled responses per problem; None if problems have different numbers of them.
        sampling: how they were sampled; of a file, what it says of it.
        greedy, sampled: what was found; None if there are no responses of that kind.
        by: pass@k by column and value of it, see `breakdowns`.
        coverage: of a file of responses; problems it does not answer are in no other number.
        left_out: rows of the data that could not become problems and were left out, as the task allows.
    """

    task: str
    model: str
    seed: int
    samples: int | None
    sampling: dict[str, Any]
    greedy: Scores | None
    sampled: Scores | None
    by: dict[str, dict[str, Breakdown]] = field(default_factory=dict)
    coverage: Coverage | None = None
    left_out: int = 0

    @property
    def kinds(self) -> tuple[Scores, ...]:
        """Greedy and sampled, or the one there is."""
        return tuple(one for one in (self.greedy, self.sampled) if one is not None)


def report(evaluation: Evaluation, *, task: str, model: str, seed: int, k: Sequence[int], left_out: int = 0) -> Report:
    """Count an evaluation. What could not be judged is left out and counted, it never costs the report."""
    return Report(
        task=task,
        model=model,
        seed=seed,
        samples=evaluation.samples,
        sampling=asdict(evaluation.sampling) | {"stop": list(evaluation.sampling.stop)},
        greedy=scores(evaluation.greedy, (1,), seed),
        sampled=scores(evaluation.sampled, k, seed),
        by=breakdowns(evaluation.greedy, evaluation.sampled, k[0], seed),
        left_out=left_out,
    )


def to_json(report: Report) -> str:
    """A report as JSON, with a line break at its end."""
    data = asdict(report)
    if report.coverage is None:  # only a file of responses can leave problems out
        del data["coverage"]
    if not report.left_out:
        del data["left_out"]
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def save(report: Report, path: Path) -> None:
    """Write a report as JSON; the file appears whole or not at all."""
    files.write_text(path, to_json(report))


def read(path: Path) -> Report:
    """The report that `save` wrote, also an earlier version of it."""
    return TypeAdapter(Report).validate_json(path.read_bytes())


def table(reports: Mapping[str, Report], title: str) -> Table:
    """Reports side by side: a column each, pass@k with its 95 % interval, then counts and lengths.

    Args:
        reports: by the heading of their column; with the same k.
        title: above the table.
    """
    every = list(reports.values())
    shown = Table(title=title, title_justify="left", caption=escape(_legend(every)), caption_justify="left")
    shown.add_column("")
    for name in reports:
        shown.add_column(escape(name), justify="right", overflow="fold")
    if any(r.greedy for r in every):
        shown.add_row("greedy pass@1", *(_interval(r.greedy, 0) for r in every))
    first = next((r for r in every if r.sampled), None)
    if first is not None and first.sampled is not None:
        for index, one in enumerate(first.sampled.pass_at_k):
            label = f"sampled pass@{one.k}{_how_sampled(first)}"
            shown.add_row(label, *(_interval(r.sampled, index) for r in every))
    shown.add_section()
    shown.add_row("problems", *(_problems(r) for r in every))
    shown.add_row("judged / unjudged", *(_judged(r) for r in every))
    shown.add_row("truncated", *(_of_each(r, lambda s: _shown(s.truncated, ".1%")) for r in every))
    shown.add_row("mean length, tokens", *(_of_each(r, lambda s: _shown(s.mean_length, ".1f")) for r in every))
    return shown


def _legend(reports: Sequence[Report]) -> str:
    legend = "[95 % interval]"
    if any(len(r.kinds) == 2 for r in reports):
        legend += "; truncated and length: greedy / sampled"
    if any(one.left_out for r in reports for kind in r.kinds for one in kind.pass_at_k):
        legend += "; left out: problems with fewer than k judged responses"
    return legend


def _how_sampled(report: Report) -> str:
    temperature = report.sampling.get("temperature")
    known = [] if report.samples is None else [f"n={report.samples}"]
    known += [] if temperature is None else [f"T={temperature:g}"]
    return f" ({', '.join(known)})" if known else ""


def _interval(kind: Scores | None, index: int) -> str:
    return _UNKNOWN if kind is None else interval(kind.pass_at_k[index])


def _of_each(report: Report, show: Callable[[Scores], str]) -> str:
    return " / ".join(show(kind) for kind in report.kinds)


def _shown(value: float | None, form: str) -> str:
    return _UNKNOWN if value is None else format(value, form)


def _problems(report: Report) -> str:
    """How many have responses, and of how many, where a file leaves some out."""
    if report.coverage is None:
        first = report.kinds[0].pass_at_k[0]
        return str(first.problems + first.left_out)
    answered, problems = report.coverage.answered, report.coverage.problems
    return str(answered) if answered == problems else f"{answered} of {problems}"


def _judged(report: Report) -> str:
    return f"{sum(kind.judged for kind in report.kinds)} / {sum(kind.unjudged for kind in report.kinds)}"
