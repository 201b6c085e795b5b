"""Held-out problems that were seen in training, or that prompts show with their solution."""

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from reasonrl import checking, tasks
from reasonrl.checking import CheckReport, Finding
from reasonrl.checking.report import table

Rows = list[dict[str, str]]
TASK = """\
name: NAME
dataset: {data_files: {train: TRAIN, eval: EVAL}}
prompt:
  template: "{{ q }}"
reference: {column: a}
verifiers: [{name: exact}]
"""


def rows(*numbers: int) -> Rows:
    return [{"q": f"What is {n} + {n}?", "a": str(2 * n)} for n in numbers]


class Made:
    """Tasks written into a folder, and their checks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def task(self, name: str, train: Rows | None, held_out: Rows, more: str = "") -> str:
        """The path of a task; without training data, its file is not there."""
        for split, some in (("train", train), ("eval", held_out)):
            if some is not None:
                text = "".join(json.dumps(row) + "\n" for row in some)
                (self.folder / f"{name}-{split}.jsonl").write_text(text)
        text = TASK.replace("NAME", name).replace("  template", f"{more}  template")
        for split in ("train", "eval"):
            text = text.replace(split.upper(), str(self.folder / f"{name}-{split}.jsonl"))
        (self.folder / f"{name}.yaml").write_text(text)
        return str(self.folder / f"{name}.yaml")

    def mixture(self, *paths: str) -> CheckReport:
        parts = ", ".join(f"{{task: {path}}}" for path in paths)
        (self.folder / "mix.yaml").write_text(f"name: mix\nmixture: [{parts}]\n")
        return check(str(self.folder / "mix.yaml"))


def check(path: str, **options: Any) -> CheckReport:
    return checking.check(tasks.read(path), workers=1, **options)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def found(report: CheckReport) -> list[tuple[Any, ...]]:
    return [(one.task, one.split, one.kind, one.count, texts(one)) for one in report.faults]


def texts(finding: Finding) -> list[str]:
    return [f"{example.row}: {example.text}" for example in finding.examples]


def shown(report: CheckReport, at: int) -> list[str]:
    console = Console(width=80)
    with console.capture() as captured:
        console.print(table(report.splits[at]))
    return [" ".join(line.replace("│", " ").split()) for line in captured.get().splitlines()]


def test_a_problem_that_two_tasks_train_on_counts_once(made: Made) -> None:
    one = made.task("one", rows(1, 2, 3), rows(3, 2, 9))
    two = made.task("two", rows(2, 3, 4), rows(8, 4))
    report = made.mixture(one, two)
    assert [split.in_training for split in report.splits] == [None, 2, None, 1]
    assert found(report) == [
        ("one", "eval", "overlap", 2, ["0: as row 2 of the training split", "1: as row 1 of the training split"]),
        ("two", "eval", "overlap", 1, ["1: as row 2 of the training split"]),
    ]
    assert "in the training split, too 2" in shown(report, 1)


def test_what_only_a_second_task_trains_on_counts_too(made: Made) -> None:
    report = made.mixture(made.task("one", rows(1, 3), rows(3, 4)), made.task("two", rows(3, 4), rows(8)))
    assert found(report) == [
        ("one", "eval", "overlap", 2, ["0: as row 1 of the training split", "1: as row 1 of the training split of two"])
    ]


@pytest.mark.parametrize("train", [None, [], [{"q": "", "a": ""}]])
def test_without_training_data_it_is_not_known(made: Made, train: Rows | None) -> None:
    report = check(made.task("one", train, rows(1)))
    assert report.splits[1].in_training is None
    assert "in the training split, too not known" in shown(report, 1)
    assert not any("in the training split" in line for line in shown(report, 0))
    report = made.mixture(made.task("two", rows(1, 2), rows(2, 3)), made.task("one", train, rows(1)))
    assert [split.in_training for split in report.splits] == [None] * 4
    assert [fault.count for fault in report.faults if fault.kind == "overlap"] == [1, 1], "what was found is told"


def test_of_one_split_alone_it_is_not_known(made: Made) -> None:
    report = check(made.task("one", rows(1), rows(1)), split="eval")
    assert report.splits[0].in_training is None
    assert "in the training split, too not known" in shown(report, 0)


def test_an_example_drawn_from_the_data_that_is_held_out_too(made: Made) -> None:
    """It is no training problem, and so is found as an example alone."""
    few_shot = "  few_shot: {rows: 1, response: '{{ a }}'}\n"
    data = rows(5, 5, 5)
    report = check(made.task("one", data, [*rows(6), *rows(5)], few_shot), split="eval")
    (fault,) = report.faults
    assert (fault.kind, fault.count) == ("shown", 1)
    assert [example.row for example in fault.examples] == [1]
    assert fault.examples[0].text.startswith("as the example of one, row ")
    report = check(made.task("one", rows(5, 7), [*rows(6), *rows(5), *rows(7)], few_shot))
    assert [(one.kind, one.count) for one in report.faults] == [("overlap", 1), ("shown", 1)]


def test_an_example_given_in_place_that_is_held_out(made: Made) -> None:
    given = "  few_shot:\n    response: '{{ a }}'\n    examples: [{q: 'A?', a: 1}, {q: 'what is 6 + 6', a: 12}]\n"
    report = check(made.task("one", rows(1), rows(6, 7), given))
    assert found(report) == [
        ("one", "eval", "shown", 1, ["0: as the example of one, prompt.few_shot.examples.1"]),
    ]
    assert "few-shot examples" in report.faults[0].what
    other = made.task("two", rows(2), rows(6, 7))
    report = made.mixture(made.task("one", rows(1), rows(9), given), other)
    assert [one[:4] for one in found(report)] == [("two", "eval", "shown", 1)]


def test_examples_that_cannot_be_made_are_told_once(made: Made) -> None:
    broken = "  few_shot: {examples: [{question: x}], response: y}\n"
    report = check(made.task("one", rows(1), rows(2), broken))
    assert {one.kind for one in report.faults} == {"row", "empty"}
