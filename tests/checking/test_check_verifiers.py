"""The check of a task: what its verifiers make of references and of made responses, and verifiers that break."""

import time
from typing import Any

from checked_tasks import HELD_OUT, TASK, judge, only, places, rows

from reasonrl.checking import Tried
from reasonrl.checking.split import CHEATED, CHUNK


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
