"""What the bundled verifiers make as a right and a wrong response, judged by the verifiers themselves."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reasonrl import Problem, Response, Verifier
from reasonrl_math import Math
from reasonrl_math.near_miss import near_miss
from reasonrl_math.verifier import MathOptions
from reasonrl_rules import ArithmeticSteps, Choice, Exact, Format, Length, Pattern
from reasonrl_rules.arithmetic_steps import ArithmeticStepsOptions
from reasonrl_rules.choice import ChoiceOptions
from reasonrl_rules.exact import ExactOptions
from reasonrl_rules.format import FormatOptions
from reasonrl_rules.length import LengthOptions
from reasonrl_rules.pattern import PatternOptions


def check(verifier: Verifier, reference: str | None) -> None:
    """The right response earns 1, the wrong one less."""
    problem = Problem("p", "", reference)
    right, wrong = verifier.right_response(problem), verifier.wrong_response(problem)
    assert right is not None
    assert wrong is not None
    assert verifier.verify(problem, Response(right)).reward == 1, right
    verdict = verifier.verify(problem, Response(wrong))
    assert verdict.reward == 0, (wrong, verdict)


MATHEMATICS = [
    "0", "9", "-3", "033", "1,999", "2.50", "0.9", "2.0", r"\frac{1}{9}", r"\frac{10}{3}", r"\frac{0}{1}", "0/5",
    r"2\frac{1}{2}", "3 1/2", r"50\%", "$12.50", r"5\text{ cm}", r"9 \text{ cm}^2", r"30^\circ", "132_5",
    r"0.1\overline{6}", "2^{10}", "10^{1000}", r"\sqrt{2}", "3+2i", "6 - 5i", "3:2", r"\pi", r"$\pi$", "e", "x", "a+b",
    "p - q", r"\cot x", r"\frac{\pi}{2}", "x=5", "x_1 = 3", "x_0 = 3", "y = 2x + 1", "f(n)=n", "$f(x)=x,f(x)=-x$",
    r"(3, \frac{\pi}{2})", "(0,0)", "[0,1)", r"(-\infty, 2) \cup (3, \infty)", r"(-\infty, \infty)", r"\infty",
    r"\emptyset", r"\mathbb{R}", r"\{1, 2, 3\}", "1, 2", "1,1,2", "0, 1, -1", "x^2+y^2=1", "x > 5", r"x \in [1, 9]",
    r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\text{Evelyn}", "Yes", r"\text{even}", "neither", r"\text{not even}",
    r"\text{(C)}", "A", "B", "(D)",
]  # fmt: skip


@pytest.mark.parametrize("reference", MATHEMATICS)
def test_math(reference: str) -> None:
    check(Math(), reference)


@pytest.mark.parametrize("where", ["boxed", "phrases", "last_number"])
def test_math_wherever_the_answer_may_stand(where: str) -> None:
    check(Math(MathOptions.model_validate({"answer": where})), "12")


@given(st.integers(-(10**12), 10**12))
@settings(deadline=None)
def test_math_with_whole_numbers(number: int) -> None:
    check(Math(), str(number))


@given(st.fractions(-1000, 1000, max_denominator=1000))
@settings(deadline=None)
def test_math_with_fractions(fraction: Fraction) -> None:
    check(Math(), rf"\frac{{{fraction.numerator}}}{{{fraction.denominator}}}")


@pytest.mark.parametrize(
    ("reference", "other"),
    [
        ("19", "18"),
        (r"\frac{0}{1}", r"\frac{1}{1}"),
        ("0.5", "0.6"),
        ("x_1 = 3", "x_1 = 4"),
        ("\\frac{1}{9}", "\\frac{1}{8}"),  # a 0 might divide
        ("9 \\text{ cm}^2", "9 \\text{ cm}^3"),
        ("\\pi", "\\pi+1"),
        ("\\emptyset", "0"),
        ("\\text{(C)}", "A"),
        ("A", "B"),
        ("Yes", "\\text{not yes}"),
    ],
)
def test_near_misses_by_hand(reference: str, other: str) -> None:
    assert near_miss(reference) == other


@pytest.mark.parametrize("reference", ["Paris", "42", "  New \t York ", "a: b", "9", "x"])
@pytest.mark.parametrize("options", [{}, {"ignore_case": True}, {"answer": "####"}, {"answer": "Answer 1:"}])
def test_exact(reference: str, options: dict[str, object]) -> None:
    check(Exact(ExactOptions.model_validate(options)), reference)


WORDS = st.text(alphabet=st.characters(categories=["L", "N", "P"], exclude_characters="#"), min_size=1)


@given(WORDS, st.booleans())
def test_exact_with_any_word(reference: str, ignore_case: bool) -> None:
    check(Exact(ExactOptions(answer="####", ignore_case=ignore_case)), reference)
    check(Exact(ExactOptions(ignore_case=ignore_case)), reference)


@pytest.mark.parametrize("reference", ["136", "-3", "0", "2.50", "1,234", "1,234.5", "$12", "7.", "+5", "-0"])
@pytest.mark.parametrize("options", [{}, {"answer": ":"}, {"answer": "step 1:"}, {"thousands": False}])
def test_arithmetic_steps(reference: str, options: dict[str, object]) -> None:
    check(ArithmeticSteps(ArithmeticStepsOptions.model_validate(options)), reference)


@given(st.decimals(-(10**6), 10**6, places=3) | st.integers())
def test_arithmetic_steps_with_any_number(number: object) -> None:
    if len(str(number)) < 30:
        check(ArithmeticSteps(), str(number))


@given(st.sampled_from("ABCDEFGHIJ"), st.sampled_from(["{}", "({})", " {}. "]))
def test_choice(letter: str, form: str) -> None:
    check(Choice(), form.format(letter))
    check(Choice(ChoiceOptions(letters="ABCDEFGHIJ")), form.format(letter.lower()))


def test_choice_has_no_wrong_letter_where_there_is_only_one() -> None:
    one = Choice(ChoiceOptions(letters="A"))
    assert one.wrong_response(Problem("p", "", "A")) is None
    assert one.right_response(Problem("p", "", "B")) is None
    assert one.wrong_response(Problem("p", "", "B")) is None


@pytest.mark.parametrize("options", [{}, {"think_opened": True}, {"think": "plan", "answer": "final"}])
def test_format_needs_no_reference(options: dict[str, object]) -> None:
    check(Format(FormatOptions.model_validate(options)), None)


NO_REFERENCE = [Length(LengthOptions(max_tokens=16, buffer=4)), Pattern(PatternOptions(regex="a"))]


@pytest.mark.parametrize("verifier", NO_REFERENCE, ids=lambda one: one.name)
def test_length_and_pattern_make_none(verifier: Verifier) -> None:
    problem = Problem("p", "", "42")
    assert verifier.right_response(problem) is None
    assert verifier.wrong_response(problem) is None


@pytest.mark.parametrize("verifier", [Math(), Exact(), ArithmeticSteps(), Choice()], ids=lambda one: one.name)
@pytest.mark.parametrize("reference", [None, "", " "])
def test_without_a_reference_there_is_nothing_to_make(verifier: Verifier, reference: str | None) -> None:
    assert verifier.right_response(Problem("p", "", reference)) is None
    assert verifier.wrong_response(Problem("p", "", reference)) is None
