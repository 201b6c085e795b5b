"""Breakdowns: which columns name groups, in which order, and that the groups of a column add up to the whole."""

import io
import random
from collections.abc import Mapping
from typing import Any

import pytest
from rich.console import Console
from small_runs import RULE

from reasonrl import Verdict
from reasonrl.evaluation.breakdown import Breakdown, breakdown_tables, breakdowns
from reasonrl.evaluation.counting import PassAtK, scores
from reasonrl.evaluation.evaluate import Judged
from reasonrl.scoring.records import weigh
from reasonrl.types import Problem, Rollout


def problem(name: int | str, metadata: Mapping[str, Any] | None = None, task: str = "") -> Problem:
    return Problem(f"p{name}", "q", "r", metadata or {}, task)


def judged(problem: Problem, *marks: int | None) -> list[Judged]:
    verdicts = [Verdict(None, "timeout") if mark is None else Verdict(float(mark), "given") for mark in marks]
    return [
        Judged(problem, Rollout(problem.id, j, (1,), (2,), (0.0,), "x", "stop", 0, 0), weigh([RULE], [verdict]))
        for j, verdict in enumerate(verdicts)
    ]


def of_metadata(*rows: Mapping[str, Any]) -> dict[str, dict[str, Breakdown]]:
    return breakdowns([one for n, row in enumerate(rows) for one in judged(problem(n, row), 1)], [], 1, seed=0)


def of_column(*values: Any) -> list[str] | None:
    """The groups of a column with these values; None if it names none."""
    found = of_metadata(*({"column": value} for value in values))
    return list(found["column"]) if found else None


def value(one: PassAtK | None) -> float:
    assert one is not None
    assert one.value is not None
    return one.value


def test_groups_by_hand() -> None:
    rows: list[tuple[str, int | None, list[int | None]]] = [
        ("easy", 1, [1, 1, 0, 0]),  # pass@2 1 − 1/6 = 5/6
        ("hard", 0, [0, 0, 0, 0]),
        ("easy", 0, [0, 0, 0, 1]),  # 1 − 3/6 = 1/2
        ("hard", None, [1, None, None, None]),  # left out, of both
    ]
    problems = [problem(n, {"level": level}) for n, (level, _, _) in enumerate(rows)]
    greedy = [one for p, (_, mark, _) in zip(problems, rows, strict=True) for one in judged(p, mark)]
    sampled = [one for p, (_, _, marks) in zip(problems, rows, strict=True) for one in judged(p, *marks)]
    found = breakdowns(greedy, sampled, 2, seed=0)
    assert list(found) == ["level"]
    easy, hard = found["level"]["easy"], found["level"]["hard"]
    assert (easy.problems, hard.problems) == (2, 2)
    assert value(easy.greedy) == 0.5
    assert value(easy.sampled) == pytest.approx((5 / 6 + 1 / 2) / 2)
    assert (value(hard.greedy), value(hard.sampled)) == (0.0, 0.0)
    assert hard.greedy is not None
    assert hard.sampled is not None
    assert (hard.greedy.problems, hard.greedy.left_out) == (1, 1)
    assert (hard.sampled.k, hard.sampled.problems, hard.sampled.left_out) == (2, 1, 1)


@pytest.mark.parametrize("k", [1, 3])
def test_the_groups_of_each_column_are_a_partition_of_the_whole(k: int) -> None:
    draw = random.Random(k)
    greedy, sampled = [], []
    for n in range(120):
        columns = {"level": draw.randrange(5), "kind": draw.choice(["a", "b", None]), "rare": n == 7}
        one = problem(n, columns if n % 3 else {"level": 1}, task="first" if n % 3 else "second")
        greedy += judged(one, draw.choice([0, 1, None]))
        sampled += judged(one, *(draw.choice([0, 0, 1, None]) for _ in range(4)))
    found = breakdowns(greedy, sampled, k, seed=0)
    assert list(found) == ["task", "level", "kind", "rare"]
    whole = [scores(greedy, (1,), 0).pass_at_k[0], scores(sampled, (k,), 0).pass_at_k[0]]
    for groups in found.values():
        assert sum(group.problems for group in groups.values()) == 120
        for kind, total in zip(("greedy", "sampled"), whole, strict=True):
            parts: list[PassAtK] = [getattr(group, kind) for group in groups.values()]
            assert sum(part.problems for part in parts) == total.problems
            assert sum(part.left_out for part in parts) == total.left_out
            weighted = sum(part.problems * part.value for part in parts if part.value is not None)
            assert weighted / total.problems == pytest.approx(value(total), abs=1e-12)


def test_values_are_in_natural_order_numbers_by_size() -> None:
    assert of_column(10, 9, 2, 2, 0.5, -1) == ["-1", "0.5", "2", "9", "10"]
    assert of_column("Level 10", "Level 2", "Level 2") == ["Level 2", "Level 10"]
    assert of_column("b", None, "a", None, "") == ["(empty)", "a", "b", "(none)"]
    assert of_column(True, False, True) == ["false", "true"]
    assert of_column(1.0, 2.0, 1) == ["1", "2"]  # as CSV has whole numbers in a column with gaps


@pytest.mark.parametrize(
    "values",
    [
        ["one"] * 5,
        [str(n) for n in range(21)] * 2,
        ["a", "b", "c"],  # each a group of its own
        [["a"], ["b"], ["a"]],
        [{"a": 1}, None, None],
        ["assert f(1) == 2\n", "assert f(2) == 3\n"] * 2,
        ["x" * 61, "y", "y"],
    ],
    ids=["one value", "21 values", "ids", "lists", "nested", "programs", "long texts"],
)
def test_a_column_that_names_no_groups_is_left_out(values: list[Any]) -> None:
    assert of_column(*values) is None


def test_twenty_values_are_not_too_many() -> None:
    assert of_column(*[n % 20 for n in range(40)]) == [str(n) for n in range(20)]


def test_a_problem_whose_task_lacks_the_column_has_no_value() -> None:
    found = of_metadata({"level": 1}, {"level": 2}, {"level": 1}, {})
    assert {label: group.problems for label, group in found["level"].items()} == {"1": 2, "2": 1, "(none)": 1}


def test_the_tasks_of_a_mixture_are_groups_and_win_over_a_column_of_that_name() -> None:
    rows = [("b", "x"), ("b", "y"), ("a", "x"), ("a", "x")]
    problems = [problem(n, {"task": column}, task) for n, (task, column) in enumerate(rows)]
    found = breakdowns([one for p in problems for one in judged(p, 1)], [], 1, seed=0)
    assert {label: group.problems for label, group in found["task"].items()} == {"a": 2, "b": 2}


def test_the_table_shows_each_group_and_a_value_is_no_markup() -> None:
    problems = [problem(n, {"[b]kind": "[red]" if n else "b"}) for n in range(3)]
    sampled = [one for p in problems for one in judged(p, 1, 0)]
    output = io.StringIO()
    for table in breakdown_tables(breakdowns([], sampled, 1, seed=0)):
        Console(file=output, width=80).print(table)
    assert "by [b]kind" in output.getvalue()
    assert "greedy" not in output.getvalue()
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in output.getvalue().splitlines() if "│" in line]
    assert rows == [["[red]", "2", "50.0% [50.0%, 50.0%]"], ["b", "1", "50.0% [50.0%, 50.0%]"]]
