"""arithmetic_steps: equations found, checked exactly and located; the final answer as an exact number."""

import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reasonrl import Problem, Response, StepReward
from reasonrl_rules import ArithmeticSteps
from reasonrl_rules.arithmetic_steps import ArithmeticStepsOptions
from reasonrl_rules.equations import find_equations
from reasonrl_rules.expressions import read_number


def found(text: str, thousands: bool = True) -> list[tuple[str, bool]]:
    return [(text[e.start : e.end], e.holds) for e in find_equations(text, thousands)]


@pytest.mark.parametrize(
    ("text", "equations"),
    [
        ("5+3=8", [("5+3=8", True)]),
        ("so 5 + 3 = 9.", [("5 + 3 = 9", False)]),
        ("2+3*4=14", [("2+3*4=14", True)]),
        ("2+3*4=20", [("2+3*4=20", False)]),
        ("(2+3)*4=20", [("(2+3)*4=20", True)]),
        ("10-4-3=3", [("10-4-3=3", True)]),
        ("48÷2÷2=12, 6×7=42", [("48÷2÷2=12", True), ("6×7=42", True)]),
        ("6·7=42, 9−4=5", [("6·7=42", True), ("9−4=5", True)]),
        (r"\(2 \times 3 = 6\)", [(r"2 \times 3 = 6", True)]),
        (r"2\times3\cdot4\div2=12", [(r"2\times3\cdot4\div2=12", True)]),
        ("2 x 3 + 4 = 10", [("2 x 3 + 4 = 10", True)]),
        ("0.1+0.2=0.3", [("0.1+0.2=0.3", True)]),
        ("10/3=3.33", [("10/3=3.33", False)]),
        ("-5 + 3 = -2", [("-5 + 3 = -2", True)]),
        ("1,000 + 1 = 1,001", [("1,000 + 1 = 1,001", True)]),
        ("5/0=0, 5/(2-2)=5", [("5/0=0", False), ("5/(2-2)=5", False)]),
        ("$5 + $3 = $8", [("5 + $3 = $8", True)]),
        ("half: 48/2 = <<48/2=24>>24 clips", [("48/2=24", True)]),
        ("<<48/2=23>><<1+1=2>>", [("48/2=23", False), ("1+1=2", True)]),
        ("x = 2*3 = 6 = 7", [("2*3 = 6", True), ("6 = 7", False)]),
        ("1 + 2 = 3 + 4 = 7", [("1 + 2 = 3 + 4", False), ("3 + 4 = 7", True)]),
        ("He has them all (2+2=4).", [("2+2=4", True)]),
        ("- 5 + 3 = 8\n* 2*3=6\n1) 1+1=2", [("5 + 3 = 8", True), ("2*3=6", True), ("1+1=2", True)]),
        ("**5 + 3 = 8** apples", [("5 + 3 = 8", True)]),
        ("3*4=12cm", [("3*4=12", True)]),
        ("7+9+0=16,4+8+1=13", [("7+9+0=16", True), ("4+8+1=13", True)]),
    ],
)
def test_equations(text: str, equations: list[tuple[str, bool]]) -> None:
    assert found(text) == equations


@pytest.mark.parametrize(
    "text",
    [
        "", "=", "x = 3", "8 = 5+3", "5 + 3", "5 + = 8", "5 + 3 =", "5\n+3=8",
        "2x + 3 = 7", "x - 5 + 3 = 4", "x -5+3=4", "2^3+1=9", "2**3+1=9", "f(3+1)=16", "2(3+4)=14", "3*4=2x",
        "10% of 50 + 3 = 8", "50 * 20% = 10", "1/5 = 20%", "5 apples + 3*2 = 11", "half of 10 + 3 = 8",
        "8 x 1 1/2 = 12", "2 - 1/2 = 1 1/2", "4 / 3 = 1 and 1/3", "80 000 x 2 = 160 000", "2.50 - 2.24 = 26 cents",
        r"2\timesx=6", r"2\cdots+3=6",
        r"\frac{1}{2}*4=2", "√9+1=4", "1.2.3+1=2", "9" * 41 + "+1=2", "(" * 40 + "1+1" + ")" * 40 + "=2",
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_no_equation(text: str) -> None:
    assert found(text) == []


def test_commas_are_thousands_only_if_asked() -> None:
    assert found("5+4=9,100+2=102", thousands=False) == [("5+4=9", True), ("100+2=102", True)]
    assert found("5+4=9,100+2=102")[0] == ("5+4=9,100+2", False)


DIGITWISE = "7+9+0=16,4+8+1=13:136"


def test_steps_and_outcome_of_digitwise_addition() -> None:
    verifier = ArithmeticSteps(ArithmeticStepsOptions(answer=":", thousands=False))
    verdict = verifier.verify(Problem("p", "47+89=", "136"), Response(DIGITWISE))
    assert (verdict.reward, verdict.reason) == (1.0, "correct")
    assert verdict.steps == (StepReward(0, 8, 1.0), StepReward(9, 17, 1.0))
    assert verdict.evidence == {"answer": "136", "false_equations": []}


def test_a_false_step_and_a_wrong_answer() -> None:
    verdict = ArithmeticSteps().verify(Problem("p", "", "8"), Response("5+3=9\nso 9-0=9\n#### 9\n1+1=3"))
    assert (verdict.reward, verdict.reason) == (0.0, "wrong")
    assert verdict.steps == (StepReward(0, 5, 0.0), StepReward(9, 14, 1.0))  # nothing after the marker is a step
    assert verdict.evidence == {"answer": "9", "false_equations": ["5+3=9"]}


@pytest.mark.parametrize(
    ("response", "reference", "reason"),
    [
        ("#### 1,234", "1234", "correct"),
        ("#### $12.50.", "12.5", "correct"),
        ("#### -3", "-3", "correct"),
        ("#### 3", "-3", "wrong"),
        ("#### 12*12", "144", "wrong"),
        ("#### 7 #### 8", "8", "correct"),
        ("#### 8 #### 7", "8", "wrong"),
        ("#### none", "8", "no_answer"),
        ("####", "8", "no_answer"),
        ("8", "8", "no_answer"),
        ("<think>#### 8</think> hm", "8", "no_answer"),
        ("#### " + "9" * 5000, "9", "wrong"),
    ],
)
def test_the_final_answer(response: str, reference: str, reason: str) -> None:
    verdict = ArithmeticSteps().verify(Problem("p", "", reference), Response(response))
    assert (verdict.reason, verdict.reward) == (reason, float(reason == "correct"))


@pytest.mark.parametrize("reference", [None, "", "five", "1/2", "#### 5"])
def test_a_reference_that_is_no_number_is_not_judged(reference: str | None) -> None:
    problem = Problem("p", "", reference)
    assert "is not a number" in str(ArithmeticSteps().audit(problem))
    with pytest.raises(ValueError, match="is not a number"):
        ArithmeticSteps().verify(problem, Response("#### 5"))


def test_the_evidence_is_capped() -> None:
    verdict = ArithmeticSteps().verify(Problem("p", "", "1"), Response("1+1=3;" * 100 + "#### 1"))
    assert len(verdict.steps) == 100
    assert verdict.evidence["false_equations"] == ["1+1=3"] * 5


@given(st.text(alphabet="0123456789+-*/×÷·−()=.,x$%<> \n", max_size=80))
@settings(deadline=None)
def test_any_text_is_read_without_an_error(text: str) -> None:
    verdict = ArithmeticSteps().verify(Problem("p", "", "1"), Response(text))
    assert all(0 <= step.start < step.end <= len(text) and step.reward in (0.0, 1.0) for step in verdict.steps)


NUMBERS = st.integers(0, 10**6) | st.decimals(0, 1000, places=2)
TERMS = st.lists(st.tuples(st.sampled_from("+-*"), NUMBERS), min_size=1, max_size=4)


@given(NUMBERS, TERMS, st.sampled_from(["", " "]))
@settings(deadline=None)
def test_true_equations_hold_and_perturbed_ones_do_not(first: object, rest: list[tuple[str, object]], gap: str) -> None:
    products, total = [Fraction(str(first))], Fraction(0)
    for operator, number in rest:
        if operator == "*":
            products[-1] *= Fraction(str(number))
        else:
            products.append(Fraction(str(number)) * (1 if operator == "+" else -1))
    total = sum(products, Fraction(0))
    left = gap.join([str(first), *(f"{operator}{gap}{number}" for operator, number in rest)])
    right = f"{total.numerator}/{total.denominator}"
    assert found(f"{left}{gap}={gap}{right}") == [(f"{left}{gap}={gap}{right}", True)]
    wrong = f"{left}{gap}={gap}{total.numerator + 1}/{total.denominator}"
    assert found(wrong) == [(wrong, False)]


@given(st.integers(-(10**30), 10**30))
def test_numbers_with_and_without_commas_are_read_back(number: int) -> None:
    assert read_number(str(number)) == read_number(f"{number:,}") == number


@pytest.mark.parametrize(
    "text",
    [
        "1,234," * 20000, "(" * 100000, "1+" * 50000 + "1=3", "9" * 100000, "x " * 50000, "- " * 50000, "**" * 50000,
        "=" * 100000, "9" * 40 + ("*" + "9" * 40) * 190 + "=1", "1-" + "-" * 100000 + "1=0", ".1" * 50000,
        "1" + " " * 100000 + "+1=2",
    ],
)  # fmt: skip
def test_bombs_cost_little(text: str) -> None:
    start = time.process_time()
    find_equations(text)
    assert time.process_time() - start < 20  # seconds of CPU; a quadratic reader needs minutes
