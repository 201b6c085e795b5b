"""choice: a letter is read where it is stated and never picked out of prose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasonrl import Problem, Response
from reasonrl_rules import Choice
from reasonrl_rules.choice import ChoiceOptions, chosen_letter

ALL = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("C", "C"),
        ("(C)", "C"),
        ("c", "C"),
        ("C.", "C"),
        ("**C**", "C"),
        ("(C) 12 apples", "C"),
        ("C: it doubles every hour", "C"),
        (r"\boxed{C}", "C"),
        (r"so \boxed{\textbf{(C)}}.", "C"),
        (r"\boxed{\text{C) } 5}", "C"),
        (r"\boxed{D: it doubles every hour}", "D"),
        (r"first \boxed{A}, but no: \boxed{B}", "B"),
        ("The answer is (C).", "C"),
        ("the answer is C because water boils", "C"),
        ("The correct option is **C**.", "C"),
        ("Answer: B", "B"),
        ("**Answer:** (B) 12", "B"),
        ("The answer is A. Wait, the answer is B.", "B"),
        ("The answer is (B). (A) is wrong because it is cold.", "B"),
        ("Let us see.\nIt must be\n\nD", "D"),
        ("The answer is A.\nNo:\n(D)", "D"),
        ("<answer>(B)</answer>", "B"),
        ("Answer:\nC", "C"),
    ],
)
def test_named(text: str, letter: str) -> None:
    assert chosen_letter(text, ALL) == letter


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I cannot determine the answer.",
        "The answer is I cannot determine it.",
        "I, for one, do not know",
        "The answer is a triangle.",
        "The answer is A triangle.",
        "A cat sat on a mat",
        "Both B and C look right.",
        "The answer is B or C.",
        "The answer is (A), (B) or (C).",
        r"\boxed{A, B, C}",
        r"\boxed{(A) or (B)}",
        r"The answer is C, so \boxed{}",
        r"The answer is C, so \boxed{12}",
        "The answer is C, so \\boxed{C",
        "The answer is, e.g. this",
        "The answer is: e.g. this",
        "(A) is wrong.\n(B) is wrong too, I think.",
        "The answer is not C",
    ],
)
def test_nothing_named(text: str) -> None:
    assert chosen_letter(text, ALL) is None


def test_reasons_and_evidence() -> None:
    problem = Problem("p", "", "(c)")
    right, wrong, none = (Choice().verify(problem, Response(text)) for text in ("C", "B", "hm"))
    assert (right.reward, right.reason, right.evidence) == (1.0, "correct", {"answer": "C"})
    assert (wrong.reward, wrong.reason, wrong.evidence) == (0.0, "wrong", {"answer": "B"})
    assert (none.reward, none.reason) == (0.0, "no_answer")


def test_thinking_is_not_the_answer() -> None:
    problem = Problem("p", "", "C")
    assert Choice().verify(problem, Response(r"<think>\boxed{C}</think> I do not know")).reason == "no_answer"
    assert Choice().verify(problem, Response("<think>The answer is B</think>The answer is C")).reason == "correct"


def test_a_letter_that_does_not_exist_is_no_answer() -> None:
    verifier = Choice(ChoiceOptions(letters="ABCD"))
    assert verifier.verify(Problem("p", "", "A"), Response("(E)")).reason == "no_answer"


@pytest.mark.parametrize("reference", [None, "", "12", "AB", "E"])
def test_a_reference_that_is_no_letter_is_a_fault(reference: str | None) -> None:
    verifier, problem = Choice(ChoiceOptions(letters="ABCD")), Problem("p", "", reference)
    assert "is not one of the letters ABCD" in str(verifier.audit(problem))
    with pytest.raises(ValueError, match="is not one of the letters ABCD"):
        verifier.verify(problem, Response("A"))


PIECES = st.sampled_from([*"AIaz .,:()\\{}$*\n", r"\boxed{", "answer is ", "<answer>", "</answer>"])


@given(st.lists(PIECES, max_size=60))
def test_any_text_gives_a_known_letter_or_none(pieces: list[str]) -> None:
    assert chosen_letter("".join(pieces), "ABCD") in {*"ABCD", None}
