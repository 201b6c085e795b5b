"""Rows that are left out are counted, and the first is named; faults of a stream are borne while they are few."""

import json
from pathlib import Path
from typing import Any

import pytest

from reasonrl import Problem, ReasonRLError
from reasonrl.tasks import Mixture, MixtureConfig, Task, TaskConfig

PATH = Path("task.yaml")
GOOD: dict[str, Any] = {"q": "1", "a": "1"}
BAD: dict[str, Any] = {"q": "1", "a": None}


def task_of(folder: Path, rows: list[dict[str, Any]], name: str = "t", **dataset: Any) -> Task:
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = TaskConfig.model_validate({
        "name": name,
        "dataset": {"data_files": {"train": str(folder / f"{name}.jsonl")}} | dataset,
        "prompt": {"template": "{{ q }}"},
        "reference": {"column": "a"},
        "demonstration": "{{ q }}",
        "verifiers": [{"name": "exact"}],
    })  # fmt: skip
    return Task(config, PATH)


def test_what_skip_faulty_leaves_out_is_counted_at_each_reading(tmp_path: Path) -> None:
    task = task_of(tmp_path, [GOOD, BAD, GOOD, BAD, BAD], skip_faulty=True)
    assert task.left_out("train") == ()
    for _ in range(2):
        assert len(task.problems("train")) == 2
        (left_out,) = task.left_out("train")
        assert (left_out.rows, left_out.read) == (3, 5)
        assert left_out.line() == (
            "t: 3 of 5 rows left out of the train split (first: row 1: reference.column: column 'a' holds None, "
            "expected text or a number)"
        )
    task.problems("train", 2)
    assert [one.rows for one in task.left_out("train")] == [1]
    task.problems("train", 1)
    assert task.left_out("train") == ()
    assert task.left_out("eval") == ()


def test_a_mixture_counts_by_task(tmp_path: Path) -> None:
    rows = {"a": [GOOD, BAD], "b": [GOOD, GOOD], "c": [BAD, BAD, GOOD]}
    parts = [task_of(tmp_path, rows[name], name, skip_faulty=True) for name in rows]
    mixture = Mixture(MixtureConfig.model_validate({"name": "m", "mixture": [{"task": "x"}] * 3}), PATH, parts)
    mixture.problems("train")
    assert [(one.task, one.rows, one.read) for one in mixture.left_out("train")] == [("a", 1, 2), ("c", 2, 3)]


def test_a_stream_bears_a_few_faulty_demonstrations_and_then_no_more(tmp_path: Path) -> None:
    some = task_of(tmp_path, [GOOD, BAD] * 10, streaming=True)
    assert len(some.demonstrations()) == 10
    assert [one.faults for one in some.left_out("train")] == [10]
    with pytest.raises(ReasonRLError, match=r"t: 11 of the first 22 rows of the train split cannot be used; the first"):
        task_of(tmp_path, [GOOD, BAD] * 11, streaming=True).demonstrations()
    assert len(task_of(tmp_path, [GOOD, BAD] * 11, streaming=True, skip_faulty=True).demonstrations()) == 11
    with pytest.raises(ReasonRLError, match="row 1: reference"):
        task_of(tmp_path, [GOOD, BAD]).demonstrations()


def test_of_many_rows_a_tenth_may_be_faulty(tmp_path: Path) -> None:
    few = task_of(tmp_path, ([GOOD] * 9 + [BAD]) * 15, streaming=True)
    assert len(few.demonstrations()) == 135
    with pytest.raises(ReasonRLError, match=r"t: 16 of the first 152 rows"):
        task_of(tmp_path, ([GOOD] * 9 + [BAD]) * 15 + [GOOD, BAD], streaming=True).demonstrations()


def test_a_row_without_a_renamed_column_is_one_faulty_row(tmp_path: Path) -> None:
    rows = [{"q": "1", "r": {"gold": "1"}}, {"q": "1", "r": {}, "a": "2"}, {"q": "3", "r": {"gold": "3"}}]
    task = task_of(tmp_path, rows, streaming=True)
    renaming = Task(task.config.model_copy(update={"columns": {"a": "r.gold"}}), PATH)
    first, second, third = (made for _, made in renaming.attempts("train"))
    assert isinstance(first, Problem)
    assert first.reference == "1"
    assert isinstance(third, Problem)
    assert str(second).startswith("task.yaml: row 1: columns.a: ")
