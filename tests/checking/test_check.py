"""The check of a task: small tasks with each fault, found with its count and rows."""

import json
import time
from pathlib import Path
from typing import Any

import checking_verifiers
import pytest

from reasonrl import checking, tasks
from reasonrl.checking import CheckReport, Finding, Spread, Tried
from reasonrl.checking.report import to_json
from reasonrl.checking.split import CHEATED, CHUNK, Model
from reasonrl.models.tiny import character_tokenizer

TASK = """\
name: mine
dataset: {data_files: {train: TRAIN, eval: EVAL}}
prompt:
  template: "{{ question }}"
reference:
  column: answer
verifiers:
- name: exact
"""
HELD_OUT = [{"question": "What is 9 + 9?", "answer": "18"}]


def rows(count: int) -> list[dict[str, Any]]:
    """Rows without fault; the answer is twice the row number."""
    return [{"question": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(100, 100 + count)]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A task from its YAML text and rows, with the judges of checking_verifiers installed; and its check."""
    checking_verifiers.offer(monkeypatch)

    def write(name: str, data: list[dict[str, Any]]) -> str:
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in data))
        return str(tmp_path / name)

    def check(
        text: str = TASK,
        train: list[dict[str, Any]] | None = None,
        held_out: list[dict[str, Any]] = HELD_OUT,
        **options: Any,
    ) -> CheckReport:
        train = rows(3) if train is None else train
        text = text.replace("TRAIN", write("t.jsonl", train)).replace("EVAL", write("e.jsonl", held_out))
        (tmp_path / "mine.yaml").write_text(text)
        return checking.check(tasks.read(str(tmp_path / "mine.yaml")), **options)

    return check


def only(findings: tuple[Finding, ...]) -> Finding:
    assert len(findings) == 1, findings
    return findings[0]


def places(finding: Finding) -> tuple[str | None, str, int, list[int | None]]:
    """Split, kind, count and the rows of the examples."""
    return finding.split, finding.kind, finding.count, [example.row for example in finding.examples]


def judge(name: str) -> str:
    return TASK.replace("exact", name)


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


# Verifiers


def test_a_verifier_that_is_not_installed_is_a_fault_and_the_rest_is_checked(made: Any) -> None:
    report = made(TASK + "- name: nosuch\n", train=[*rows(3), rows(1)[0]])
    fault = only(report.faults)
    assert places(fault) == (None, "missing", 1, [None])
    assert "no verifier is named 'nosuch'" in fault.examples[0].text
    assert only(report.warnings).kind == "duplicates"
    assert report.splits[0].right == Tried(4, 4)


def test_without_its_judge_nothing_is_tried_but_the_others_audit(made: Any) -> None:
    text = judge("nosuch") + "- name: counting\nmetadata: [level]\n"
    report = made(text, [row | {"level": level} for row, level in zip(rows(3), (1, 13, 2), strict=True)], [
        HELD_OUT[0] | {"level": 1}
    ])  # fmt: skip
    assert [fault.kind for fault in report.faults] == ["missing", "reference"]
    assert places(report.faults[1]) == ("train", "reference", 1, [1])
    assert (report.splits[0].audited, report.splits[0].usable, report.splits[0].right) == (3, 2, Tried())


def test_references_that_no_verifier_can_use_are_a_fault(made: Any) -> None:
    data = rows(4)
    data[1]["answer"] = "\\frac{1}{"
    report = made(judge("math"), data)
    fault = only(report.faults)
    assert places(fault) == ("train", "reference", 1, [1])
    assert "reference '\\\\frac{1}{': the reference '\\\\frac{1}{' cannot be parsed" in fault.examples[0].text
    train = report.splits[0]
    assert (train.audited, train.usable, train.right, train.wrong) == (4, 3, Tried(3, 3), Tried(3, 3))


def test_problems_without_what_a_verifier_reads_are_a_fault(made: Any) -> None:
    report = made(TASK.replace("reference:\n  column: answer\n", ""))
    assert [places(fault) for fault in report.faults] == [
        ("train", "needs", 3, [0, 1, 2]), ("eval", "needs", 1, [0])
    ]  # fmt: skip
    assert "verifier 'exact' compares with a reference" in report.faults[0].examples[0].text
    assert report.splits[0].audited == 0


def test_only_the_judge_is_shown_made_responses(made: Any) -> None:
    data = [row | {"level": 1} for row in rows(2)]
    assert made(TASK + "- name: counting\nmetadata: [level]\n", data, [HELD_OUT[0] | {"level": 1}]).passed


def test_right_responses_that_the_judge_refuses_are_a_fault(made: Any) -> None:
    data = [{"question": f"q{n}", "answer": str(n)} for n in range(1, 8)]
    report = made(judge("refusing"), data, [{"question": "p", "answer": "1"}])
    fault = only(report.faults)
    assert places(fault) == ("train", "right", 2, [2, 5])
    assert fault.examples[0].text == "made right, '3': looked; the reference is '3'"
    assert report.splits[0].right == Tried(7, 5)
    assert report.splits[0].wrong == Tried(0, 0, 0, 7)


def test_wrong_responses_that_the_judge_accepts_are_a_fault(made: Any) -> None:
    data = [{"question": f"q{n}", "answer": str(n)} for n in range(3)]
    report = made(judge("lenient"), data, [{"question": "p", "answer": "strict"}])
    assert [places(fault) for fault in report.faults] == [("train", "wrong", 3, [0, 1, 2]), ("eval", "right", 1, [0])]
    assert "made wrong, '1': correct" in report.faults[0].examples[0].text
    assert report.splits[0].wrong == Tried(3, 0)


def test_responses_that_cannot_be_judged_or_made_are_faults(made: Any) -> None:
    report = made(judge("breaking"), split="train")
    assert [places(fault) for fault in report.faults] == [
        ("train", "unjudged", 3, [0, 1, 2]), ("train", "making", 3, [0, 1, 2])
    ]  # fmt: skip
    assert "gave_up" in report.faults[0].examples[0].text
    assert report.faults[1].examples[0].text == "wrong_response: KeyError: 'no idea'"
    assert report.splits[0].right == Tried(3, 0, 3, 0)
    assert report.splits[0].wrong == Tried(0, 0, 0, 3)


def test_cheats_that_the_judge_rewards_are_a_fault_and_are_tried_on_the_first_problems_only(made: Any) -> None:
    report = made(judge("cheated"), rows(CHUNK + CHEATED))
    assert [places(fault) for fault in report.faults] == [
        ("train", "cheat", CHEATED, [0, 1, 2, 3, 4]), ("eval", "cheat", 1, [0])
    ]  # fmt: skip
    assert report.faults[0].examples[0].text == "cheat 2, 'bribe': reward 0.25"
    assert report.splits[0].cheats == Tried(2 * CHEATED, CHEATED)
    assert report.splits[0].right == Tried(CHUNK + CHEATED, CHUNK + CHEATED)


def test_a_judge_that_breaks_making_cheats_is_a_fault(made: Any) -> None:
    report = made(judge("cheated"), [{"question": "q", "answer": "broken"}], split="train")
    assert places(only(report.faults)) == ("train", "making", 1, [0])
    assert report.faults[0].examples[0].text == "cheats: KeyError: 'no idea'"
    assert report.splits[0].cheats == Tried()


def test_a_verifier_that_hangs_costs_its_deadline_and_not_the_check(made: Any) -> None:
    data = rows(40)
    data[7]["answer"] = "hang"
    start = time.monotonic()
    report = made(judge("slow"), data, deadline=0.5)
    assert time.monotonic() - start < 30
    fault = only(report.faults)
    assert places(fault) == ("train", "reference", 1, [7])
    assert "the audit ended with timeout" in fault.examples[0].text
    assert report.splits[0].right == report.splits[0].wrong == Tried(39, 39)


def test_a_verifier_that_cannot_start_is_a_fault_and_the_rest_is_checked(made: Any) -> None:
    report = made(judge("unready"), [*rows(2), rows(1)[0]], workers=1)
    fault = only(report.faults)
    assert places(fault) == (None, "start", 1, [None])
    assert "its server is down" in fault.examples[0].text
    assert report.splits[0].duplicates == 1
    assert report.splits[0].audited == 0


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
