"""Labelled steps from files, in the forms of those who publish them."""

import json
from pathlib import Path
from typing import Any

import pytest

from reasonrl import ReasonRLError
from reasonrl.steplabels.read import Solution, read_solutions, solution_of

PRM800K = {
    "question": {"problem": "1+2+3?"},
    "label": {"steps": [
        {"completions": [{"text": "1+2=4", "rating": -1}, {"text": "1+2=3", "rating": 1}], "chosen_completion": 1},
        {"completions": [{"text": "hm", "rating": -1}], "chosen_completion": None, "human_completion": {"text": "so,"}},
        {"completions": [{"text": "3+3=5", "rating": -1}], "chosen_completion": None, "human_completion": None},
    ], "finish_reason": "found_error"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            {"problem": "q", "steps": ["a ", "b", "c"], "label": 1, "final_answer_correct": False},
            Solution("q", ("a", "b", "c"), (1.0, 0.0, None)),
        ),
        ({"problem": "q", "steps": ["a", "b"], "label": -1}, Solution("q", ("a", "b"), (1.0, 1.0))),
        (
            {"prompt": "q", "completions": ["a", " ", "b"], "labels": [True, True, False]},
            Solution("q", ("a", "b"), (1.0, 0.0)),
        ),
        ({"prompt": "q", "completions": ["a", "b"], "labels": [0.25, None]}, Solution("q", ("a", "b"), (0.25, None))),
        (
            {"prompt": [{"role": "user", "content": "q"}], "completions": ["a"], "labels": [1]},
            Solution("q", ("a",), (1.0,)),
        ),
        (
            {
                "input": "How many? Step 1: 2+2 = 5 ки\nStep 2: so 5 - 1. The answer is: 4 ки",
                "label": "How many? Step 1: 2+2 = 5 -\nStep 2: so 5 - 1. The answer is: 4 +",
                "task": "GSM8K",
            },
            Solution("How many?", ("Step 1: 2+2 = 5", "Step 2: so 5 - 1. The answer is: 4"), (0.0, 1.0)),
        ),
        (PRM800K, Solution("1+2+3?", ("1+2=3", "so,", "3+3=5"), (1.0, 1.0, 0.0))),
    ],
)
def test_a_form_is_read(row: dict[str, Any], expected: Solution) -> None:
    assert solution_of(row) == expected


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ({"text": "a"}, "the data has text; expected one of these: prompt and completions and labels; "),
        ({"problem": "q", "steps": ["a"], "label": 1}, "expected a step from 0 to 0, or -1"),
        ({"problem": "q", "steps": "a", "label": 0}, "expected a list of texts"),
        ({"prompt": "q", "completions": ["a"], "labels": [True, False]}, "expected 1, one for each"),
        ({"prompt": "q", "completions": ["a"], "labels": [2]}, "a number from 0 to 1"),
        ({"prompt": " ", "completions": ["a"], "labels": [1]}, "the question is empty"),
        ({"input": "Step 1: a ки", "label": "Step 1: b +"}, "label is not input with"),
        ({"input": "no steps", "label": "no steps"}, "has no 'Step 1:'"),
    ],
)
def test_what_is_no_form_is_refused(row: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        solution_of(row)


def test_a_file_is_read_and_what_has_no_label_is_counted(tmp_path: Path) -> None:
    rows = [{"prompt": "q", "completions": ["a"], "labels": [label]} for label in (True, None, False)]
    (tmp_path / "steps.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = read_solutions([tmp_path / "steps.jsonl"])
    assert [one.labels for one in found.solutions] == [(1.0,), (0.0,)]
    assert found.line() == "1 of 3 solutions are left out: no step has a label (1)"


def test_a_fault_has_its_place(tmp_path: Path) -> None:
    (tmp_path / "steps.jsonl").write_text('{"problem": "q", "steps": ["a"], "label": -1}\n{"problem": "q"}\n')
    with pytest.raises(ReasonRLError, match=r"steps.jsonl: line 2: steps holds None, expected a list of texts"):
        read_solutions([tmp_path / "steps.jsonl"])
