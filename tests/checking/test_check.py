"""The check of a task: small tasks with each fault, found with its count and rows."""

import json
from pathlib import Path
from typing import Any

import pytest
from checked_tasks import HELD_OUT, TASK, only, places, rows

from reasonrl.checking import CheckReport, Spread, Tried
from reasonrl.checking.report import to_json
from reasonrl.checking.split import CHUNK, Model
from reasonrl.models.tiny import character_tokenizer


def test_a_task_without_fault_passes_with_its_figures(made: Any) -> None:
    report = made(train=rows(CHUNK + 3))
    assert report.passed
    assert report.faults == report.warnings == ()
    train, held_out = report.splits
    assert (train.task, train.split, train.rows, train.problems) == ("mine", "train", CHUNK + 3, CHUNK + 3)
    assert (train.audited, train.usable) == (CHUNK + 3, CHUNK + 3)
    assert train.right == train.wrong == Tried(CHUNK + 3, CHUNK + 3)
    assert train.characters == Spread(18, 18, 18, 18)
    assert (train.tokens, train.beyond_context, train.duplicates, train.in_training) == (None, None, 0, None)
    assert (held_out.split, held_out.rows, held_out.characters, held_out.in_training) == (
        "eval",
        1,
        Spread(*[14] * 4),
        0,
    )


# Rows


def test_rows_that_cannot_become_a_problem_are_counted_and_named_and_the_others_checked(made: Any) -> None:
    data = rows(80)
    for faulty in (3, 10, 20, 30, 66, 70, 79):
        data[faulty]["answer"] = " "
    report = made(train=data)
    fault = only(report.faults)
    assert places(fault) == ("train", "row", 7, [3, 10, 20, 30, 66])
    assert fault.examples[0].text == "reference.column: column 'answer' holds ' ', expected text or a number"
    assert (report.splits[0].rows, report.splits[0].problems, report.splits[0].right.as_expected) == (80, 73, 73)


def test_rows_that_the_data_set_skips_are_a_warning_unless_all_are(made: Any) -> None:
    text = TASK.replace("dataset: {", "dataset: {skip_faulty: true, ")
    data = [*rows(2), {"question": "", "answer": "1"}]
    report = made(text, train=data)
    assert report.passed
    assert places(only(report.warnings)) == ("train", "skipped", 1, [2])
    report = made(text, train=data[2:])
    assert places(only(report.faults)) == ("train", "empty", 1, [None])


@pytest.mark.parametrize(
    ("old", "new", "kind", "expected"),
    [
        ("{{ question }}", "{{ text }}", "row", "prompt.template: 'text' is undefined (the data has: answer, q"),
        ("column: answer", "column: solution", "row", "reference.column: no column 'solution'; the data has: answer, "),
        ("name: mine", "name: mine\nid: key", "row", "id: no column 'key'; the data has: answer, question"),
        ("name: mine", "name: mine\nmetadata: [level]", "row", "metadata: no column 'level'; the data has: answer, "),
        ("name: mine", "name: mine\ncolumns: {a: b}", "row", "columns.a: no column 'b'; the data has: answer, q"),
        ("dataset: {", "dataset: {where: {level: 3}, ", "data", "dataset.where: no column 'level'; the data has: "),
    ],
)  # fmt: skip
def test_a_column_that_is_not_there_is_named_with_those_there_are(
    made: Any, old: str, new: str, kind: str, expected: str
) -> None:
    report = made(TASK.replace(old, new))
    found = [fault for fault in report.faults if fault.kind == kind]
    assert [fault.split for fault in found] == ["train", "eval"]
    assert all(expected in example.text for fault in found for example in fault.examples)
    assert found[0].count == (3 if kind == "row" else 1)


def test_a_split_that_cannot_be_had_is_a_fault_and_the_other_is_checked(made: Any, tmp_path: Path) -> None:
    report = made(TASK.replace("TRAIN", "nowhere.jsonl"))
    fault = only(report.faults)
    assert places(fault) == ("train", "data", 1, [None])
    assert "data_files.train: there is no file nowhere.jsonl" in fault.examples[0].text
    assert [split.rows for split in report.splits] == [0, 1]
    assert only(made(TASK.replace(", eval: EVAL", ""), split="eval").faults).kind == "data"


def test_no_rows_are_a_fault(made: Any) -> None:
    assert places(only(made(train=[]).faults)) == ("train", "empty", 1, [None])


def test_ids_that_come_again_are_a_fault(made: Any) -> None:
    data = [row | {"key": key} for row, key in zip(rows(5), "abaca", strict=True)]
    fault = only(made(TASK + "id: key\n", data, [HELD_OUT[0] | {"key": "a"}]).faults)
    assert places(fault) == ("train", "ids", 2, [2, 4])
    assert [example.text for example in fault.examples] == ["as row 0", "as row 0"]


def test_so_many_rows_are_checked_as_asked(made: Any) -> None:
    report = made(train=[*rows(2), {"question": "", "answer": ""}], rows=2)
    assert report.passed
    assert [split.rows for split in report.splits] == [2, 1]


# Duplicates


def test_problems_that_come_again_in_other_clothes_are_a_warning(made: Any) -> None:
    data = [
        {"question": text, "answer": "1"} for text in ("The cat, or dogs?", "Any bird?", "the  CAT or dogs", "any bird")
    ]
    report = made(train=data)
    assert report.passed
    warning = only(report.warnings)
    assert places(warning) == ("train", "duplicates", 2, [2, 3])
    assert [example.text for example in warning.examples] == ["as row 0", "as row 1"]
    assert report.splits[0].duplicates == 2


def test_held_out_problems_that_are_trained_on_are_a_fault(made: Any) -> None:
    train = rows(9)
    held_out = [*HELD_OUT, {"question": "what is 107+107", "answer": "214"}, train[2]]
    report = made(train=train, held_out=held_out)
    fault = only(report.faults)
    assert places(fault) == ("eval", "overlap", 2, [1, 2])
    assert [example.text for example in fault.examples] == [
        "as row 7 of the training split", "as row 2 of the training split"
    ]  # fmt: skip
    assert [split.in_training for split in report.splits] == [None, 2]


def test_system_prompt_and_examples_are_not_what_is_compared(made: Any) -> None:
    few_shot = "prompt:\n  few_shot: {rows: 1, response: '{{ answer }}'}\n"
    report = made(TASK.replace("prompt:\n", few_shot), train=rows(9))
    assert report.passed
    assert report.warnings == ()
    assert report.splits[0].rows == 8  # the ninth is the example
    report = made(TASK.replace("prompt:\n", "prompt:\n  chat: true\n  system: hello\n"), [rows(1)[0], rows(1)[0]])
    assert report.splits[0].duplicates == 1
    assert report.splits[0].characters == Spread(23, 23, 23, 23)


# Tokens


def test_prompts_are_counted_in_tokens_and_those_beyond_the_context_are_a_warning(made: Any) -> None:
    model = Model("m", character_tokenizer("0123456789+="), 20)
    text = TASK + "sampling: {max_tokens: 10}\n"
    data = [{"question": "1" * n, "answer": "1"} for n in (2, 3, 10, 11, 12)]
    report = made(text, data, model=model, split="train")
    assert report.passed
    assert (report.model, report.max_positions, report.max_tokens) == ("m", 20, 10)
    assert report.splits[0].tokens == Spread(2, 10, 12, 12)
    warning = only(report.warnings)
    assert places(warning) == ("train", "context", 2, [3, 4])
    assert warning.examples[0].text == "11 tokens and sampling.max_tokens 10 are more than 20"
    assert report.splits[0].beyond_context == 2


def test_prompts_that_the_tokenizer_does_not_take_are_a_fault(made: Any) -> None:
    tokenizer = character_tokenizer("0123456789+=")
    text = TASK.replace("prompt:\n", "prompt:\n  chat: true\n  system: 's'\n")
    fault = only(made(text, model=Model("m", tokenizer, None), split="train").faults)
    assert places(fault) == ("train", "tokens", 3, [0, 1, 2])
    assert "the tokenizer has no chat template" in fault.examples[0].text
    tokenizer.chat_template = "{{ raise_exception('no system message, please') }}"
    report = made(text, model=Model("m", tokenizer, None), split="train")
    assert only(report.faults).examples[0].text == "no system message, please"
    assert (report.splits[0].tokens, report.splits[0].beyond_context) == (None, None)


# Kinds of tasks


def test_a_stream_is_checked_chunk_by_chunk_and_never_held(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    data = [*rows(3 * CHUNK), rows(1)[0]]
    read: list[tuple[str, int, int | None]] = []
    text = TASK.replace("dataset: {", "dataset: {streaming: true, ")
    report = made(text, data, split="train", progress=lambda what, done, total: read.append((what, done, total)))
    assert read == [
        ("mine, train: reading", 0, None),
        *(("mine, train: checked", done, None) for done in (CHUNK, 2 * CHUNK, 3 * CHUNK, 3 * CHUNK + 1)),
    ]
    assert places(only(report.warnings)) == ("train", "duplicates", 1, [3 * CHUNK])
    assert report.splits[0].right == Tried(3 * CHUNK + 1, 3 * CHUNK + 1)


def test_each_part_of_a_mixture_is_checked_and_compared_with_the_others(made: Any, tmp_path: Path) -> None:
    def part(name: str, train: list[dict[str, Any]], verifier: str) -> None:
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in train))
        files = f"train: {tmp_path}/{name}.jsonl, eval: EVAL"
        text = TASK.replace("mine", name).replace("train: TRAIN, eval: EVAL", files).replace("exact", verifier)
        (tmp_path / f"{name}.yaml").write_text(text.replace("EVAL", str(tmp_path / "e.jsonl")))

    part("a", rows(2), "exact")
    part("b", [*HELD_OUT, {"question": "x", "answer": ""}], "lenient")
    report = made("name: both\nmixture: [{task: a.yaml}, {task: b.yaml}]\n")
    assert report.task == "both"
    assert [(one.task, one.split, one.rows, one.in_training) for one in report.splits] == [
        ("a", "train", 2, None), ("a", "eval", 1, 1), ("b", "train", 2, None), ("b", "eval", 1, 1)
    ]  # fmt: skip
    assert [(fault.task, *places(fault)) for fault in report.faults] == [
        ("a", "eval", "overlap", 1, [0]),
        ("b", "train", "row", 1, [1]),
        ("b", "train", "wrong", 1, [0]),
        ("b", "eval", "wrong", 1, [0]),
        ("b", "eval", "overlap", 1, [0]),
    ]
    assert report.faults[0].examples[0].text == "as row 0 of the training split of b"
    assert report.splits[0].right == report.splits[0].wrong == Tried(2, 2)


def test_the_json_says_all_that_the_report_does(made: Any) -> None:
    report = made(train=[*rows(2), {"question": "", "answer": "\u2713"}, rows(1)[0]])
    data = json.loads(to_json(report))
    assert data["passed"] is False
    assert data["splits"][0]["right"] == {"tried": 3, "as_expected": 3, "unjudged": 0, "not_tried": 0}
    assert data["faults"][0]["examples"] == [{"row": 2, "text": "prompt.template: renders to nothing"}]
    assert set(data) == set(CheckReport.__dataclass_fields__)
    assert data["warnings"][0]["kind"] == "duplicates"
