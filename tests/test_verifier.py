"""The verifier interface: verdicts that must be finite, and the responses a verifier makes by default."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasonrl import Problem, Response, StepReward, Verdict, Verifier
from reasonrl.verifier import perturbed


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("47", "48"),
        ("9", "0"),
        ("-3", "-4"),
        ("007", "008"),
        ("099", "090"),
        ("1/2", "2/2"),
        ("0.5 of 7", "1.5 of 7"),
        ("#### 12", "#### 13"),
        ("Paris", "Parisx"),
        ("", "x"),
        ("½", "½x"),  # no digit of ASCII
        ("٣", "٣x"),
    ],
)
def test_perturbed_by_hand(text: str, other: str) -> None:
    assert perturbed(text) == other


@given(st.text())
def test_perturbed_is_never_the_same(text: str) -> None:
    assert perturbed(text) != text


@given(st.integers(min_value=0), st.text(alphabet="abc \n.,#"), st.text())
def test_perturbed_changes_the_first_whole_number(number: int, before: str, after: str) -> None:
    changed = perturbed(f"{before}{number} {after}")
    assert changed == f"{before}{str(number)[:-1]}{(number + 1) % 10} {after}"


class Same(Verifier):
    """Reward 1 for the reference, letter by letter."""

    name = "same"

    def verify(self, problem: Problem, response: Response) -> Verdict:
        return Verdict(float(response.text == problem.reference), "judged")


@given(st.text(min_size=1))
def test_by_default_the_reference_is_right_and_something_else_is_wrong(reference: str) -> None:
    problem = Problem("p", "", reference)
    right, wrong = Same().right_response(problem), Same().wrong_response(problem)
    assert right == reference
    assert wrong is not None
    assert Same().verify(problem, Response(right)).reward == 1
    assert Same().verify(problem, Response(wrong)).reward == 0


def test_without_a_reference_there_is_nothing_to_make() -> None:
    assert Same().right_response(Problem("p", "")) is None
    assert Same().wrong_response(Problem("p", "")) is None


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_a_reward_is_a_finite_number_or_none(reward: float) -> None:
    with pytest.raises(ValueError, match="a reward must be finite or None"):
        Verdict(reward, "odd")
    with pytest.raises(ValueError, match="a step reward must be finite"):
        StepReward(0, 1, reward)
    assert Verdict(None, "timeout").reward is None


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (3, 2)])
def test_a_step_covers_characters_in_order(start: int, end: int) -> None:
    with pytest.raises(ValueError, match=re.escape(f"not [{start}, {end})")):
        StepReward(start, end, 1.0)


def test_a_verdict_gives_its_reason() -> None:
    with pytest.raises(ValueError, match="needs a reason"):
        Verdict(1.0, "")
