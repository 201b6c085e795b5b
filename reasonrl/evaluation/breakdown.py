"""pass@k by groups of problems: by the tasks of a mixture, by the values of a metadata column."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.markup import escape
from rich.table import Table

from reasonrl.evaluation.counting import Countable, PassAtK, interval, over_problems, tally
from reasonrl.types import Problem

_MOST_GROUPS = 20
_LONGEST_LABEL = 60  # characters; what is longer (a test, a program) names no group


@dataclass(frozen=True)
class Breakdown:
    """One group of problems.

    Attributes:
        problems: how many.
        greedy: pass@1 of the greedy responses; None without any kind of greedy response.
        sampled: pass@k of the sampled ones, for the first k of the report; None likewise.
    """

    problems: int
    greedy: PassAtK | None
    sampled: PassAtK | None


def breakdowns(
    greedy: Sequence[Countable], sampled: Sequence[Countable], k: int, seed: int
) -> dict[str, dict[str, Breakdown]]:
    """By column, by value: the problems that have this value.

    The columns are `task`, in a mixture, and those of the problems' metadata that name groups: texts of a line, numbers
    or truth values, 2 to 20 different ones, and fewer than there are problems. Values are in natural order (2 before
    10). A problem of a mixture whose task lacks the column counts as "(none)", so that the groups are all problems.
    """
    problems = list({one.problem.id: one.problem for one in (*greedy, *sampled)}.values())
    counts = tally(greedy), tally(sampled)
    found: dict[str, dict[str, Breakdown]] = {}
    for column, labels in _groupings(problems).items():
        groups: dict[str, list[str]] = {}
        for problem in problems:
            groups.setdefault(labels[problem.id], []).append(problem.id)
        found[column] = {label: _breakdown(groups[label], *counts, k, seed) for label in sorted(groups, key=_natural)}
    return found


def breakdown_tables(by: Mapping[str, Mapping[str, Breakdown]]) -> list[Table]:
    """A table for each column."""
    return [_table(column, groups) for column, groups in by.items()]


def _breakdown(
    ids: Sequence[str],
    greedy: Mapping[str, tuple[int, int]],
    sampled: Mapping[str, tuple[int, int]],
    k: int,
    seed: int,
) -> Breakdown:
    def of(counts: Mapping[str, tuple[int, int]], k: int) -> PassAtK | None:
        return over_problems([counts[one] for one in ids if one in counts], k, seed) if counts else None

    return Breakdown(len(ids), of(greedy, 1), of(sampled, k))


def _groupings(problems: Sequence[Problem]) -> dict[str, dict[str, str]]:
    """By column, by problem id: the label of its group."""
    found: dict[str, dict[str, str]] = {}
    if any(problem.task for problem in problems):
        found["task"] = {problem.id: problem.task for problem in problems}
    for column in dict.fromkeys(column for problem in problems for column in problem.metadata):
        values = [problem.metadata[column] for problem in problems if column in problem.metadata]
        if column not in found and _names_groups(values):
            found[column] = {problem.id: _label(problem.metadata.get(column)) for problem in problems}
    return found


def _names_groups(values: Sequence[Any]) -> bool:
    if not all(_is_label(value) for value in values):
        return False
    different = len(set(map(_label, values)))
    return 2 <= different <= _MOST_GROUPS and different < len(values)  # else each problem would be its own group


def _is_label(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST_LABEL and "\n" not in value
    return value is None or isinstance(value, bool | int | float)


def _label(value: Any) -> str:
    match value:
        case None:
            return "(none)"
        case bool():
            return str(value).lower()
        case float() if value.is_integer():  # a whole number, however the data types it
            return str(int(value))
    return str(value) or "(empty)"


def _natural(label: str) -> tuple[int, float, list[str | int]]:
    """Numbers by size, before texts, in which runs of digits are numbers, too; what has no value comes last."""
    if re.fullmatch(r"-?\d+(\.\d+)?", label):
        return 0, float(label), []
    # The pieces of any two texts alternate alike, so that numbers only ever meet numbers.
    pieces = [int(piece) if index % 2 else piece for index, piece in enumerate(re.split(r"([0-9]+)", label))]
    return (2 if label == "(none)" else 1), 0.0, pieces


def _table(column: str, groups: Mapping[str, Breakdown]) -> Table:
    first = next(iter(groups.values()))
    shown = Table(title=f"by {escape(column)}", title_justify="left")
    shown.add_column("", overflow="fold")
    shown.add_column("problems", justify="right")
    if first.greedy is not None:
        shown.add_column("greedy pass@1", justify="right")
    if first.sampled is not None:
        shown.add_column(f"sampled pass@{first.sampled.k}", justify="right")
    for label, group in groups.items():
        cells = (interval(one) for one in (group.greedy, group.sampled) if one is not None)
        shown.add_row(escape(label), str(group.problems), *cells)
    return shown
