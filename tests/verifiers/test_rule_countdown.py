"""countdown: what is read as the answer, what counts as an expression over the given numbers, and what does not."""

import re
import time
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reasonrl import Problem, Response, Verdict
from reasonrl.generators.countdown import CountdownOptions as Generated
from reasonrl.generators.countdown import rows
from reasonrl_rules import Countdown
from reasonrl_rules.countdown import CountdownOptions
from reasonrl_rules.countdown_search import find_expression


def problem(nums: Any = (3, 8, 5, 1), target: str | None = "24") -> Problem:
    return Problem("p", "", target, {"nums": list(nums) if isinstance(nums, tuple) else nums})


def verdict(text: str, nums: Any = (3, 8, 5, 1), target: str = "24", use_all: bool = False) -> Verdict:
    return Countdown(CountdownOptions(use_all=use_all)).verify(problem(nums, target), Response(text))


@pytest.mark.parametrize(
    "text",
    [
        "<answer>3 * 8</answer>",
        "<answer>8*3*1</answer>",
        "<answer>(5 + 1 - 3) * 8</answer>",
        "<answer>3 * 8 = 24</answer>",
        "<answer>\n$3 \\times 8 = 24$\n</answer>",
        "<answer>\\[ 3 \\cdot 8 \\]</answer>",
        "<answer>**3 × 8**</answer>",
        "<answer>`3 x 8`</answer>",
        "<answer>3*8/1</answer>",
        "<answer>\\frac{8}{1} * 3</answer>",
        "<answer>8 ÷ 1 × 3</answer>",
        "<answer>[8 * {3}]</answer>",
        "<answer>\\left(3\\right) * 8.0</answer>",
        "<answer>5*5</answer> no: <answer>3*8</answer>",
        "<think><answer>5*5</answer></think>\n<answer>3*8</answer>",
        r"So it is \boxed{3 \times 8}.",
        r"So it is \boxed{3 \times 8 = 24}.",
        "The answer is 3 * 8 = 24.",
        "**Answer:** 3 * 8",
        "Answer: 5 * 5\nNo. Answer: 3 * 8",
        "Let me see.\n3 * 8",
        "3 * 8 = 24",
        "<answer>3\\times8</answer>",
        r"So it is \boxed{3\times8\cdot1}.",
        r"So it is \boxed{3\cdot 8\div1=24}.",
        r"So it is \boxed{\displaystyle3\times\left(8\right)}.",
        "<answer>3 *\n 8</answer>",
        "<answer>3 * 8\r\n= 24</answer>",
        "So it is \\boxed{3\n\\times 8}.",
        "<answer>24 = 8 * 3</answer>",
        r"So it is \boxed{24=3\times8}.",
        "The answer is 24 = 3 * 8.",
        "Let me see.\n24 = 3 * 8",
    ],
)
def test_right(text: str) -> None:
    found = verdict(text)
    assert (found.reward, found.reason) == (1.0, "correct"), found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<answer>3 + 8</answer>", "wrong"),
        ("<answer>3 * 8 = 25</answer>", "wrong"),  # a false claim after a right expression
        ("<answer>3 + 8 = 24</answer>", "wrong"),
        ("<answer>8 / (5 - 5)</answer>", "wrong_numbers"),
        ("<answer>24</answer>", "wrong_numbers"),
        ("<answer>24 * 1</answer>", "wrong_numbers"),
        ("<answer>3 * 8 + 5 - 5</answer>", "wrong_numbers"),
        ("<answer>8 + 8 + 8</answer>", "wrong_numbers"),
        ("<answer>38 - 15 + 1</answer>", "wrong_numbers"),  # digits put together
        ("<answer>3 * 8 * 1.0 / 1</answer>", "wrong_numbers"),
        ("<answer>2.5 * 8 + 5 - 1</answer>", "wrong_numbers"),
        ("<answer>3 * 8 + 0</answer>", "wrong_numbers"),
        ("<answer>--3 * 8</answer>", "malformed"),  # a sign is no operation between two numbers
        ("<answer>-3 * (5 - 8 - 5)</answer>", "malformed"),
        ("<answer>3 * -(-8)</answer>", "malformed"),
        ("<answer>+3 * 8</answer>", "malformed"),
        ("<answer>3 8</answer>", "malformed"),
        ("<answer>3(8)</answer>", "malformed"),
        ("<answer>3 ** 8</answer>", "malformed"),
        ("<answer>5^1 * 3</answer>", "malformed"),
        ("<answer>8 // 1 * 3</answer>", "malformed"),
        ("<answer>8 % 5 * 8</answer>", "malformed"),
        ("<answer>4!</answer>", "malformed"),
        ("<answer>(8 * 3</answer>", "malformed"),
        ("<answer>8 * 3)</answer>", "malformed"),
        ("<answer>8 * </answer>", "wrong"),  # what is left, 8, is a number that was given
        ("<answer>8 * 3 = 24 = 24</answer>", "malformed"),
        ("<answer>8 * 3 = 5 + 19</answer>", "malformed"),
        ("<answer>25 = 8 * 3</answer>", "wrong"),  # a false claim before a right expression
        ("<answer>24 = 8 + 3</answer>", "wrong"),
        ("<answer>24 = 24</answer>", "wrong_numbers"),
        ("<answer>24 = 24 * 1</answer>", "wrong_numbers"),
        ("<answer>24 = 8 * 3 = 24</answer>", "malformed"),
        ("<answer>24 = x</answer>", "malformed"),
        ("<answer>24 = </answer>", "malformed"),
        ("<answer>24 = -(-3) * 8</answer>", "malformed"),
        ("<answer>3\n8</answer>", "malformed"),
        ("<answer>8 * 3\n5 + 1</answer>", "malformed"),
        ("<answer>3\\timess8</answer>", "malformed"),
        ("<answer>3 * 8 " + "$" * 190 + " = 25 $$</answer>", "malformed"),  # a claim beyond what is read
        ("<answer>8 * 3, 24</answer>", "malformed"),
        ("<answer>8 * 3 or 5 + 1</answer>", "malformed"),
        ("<answer>x = 8 * 3</answer>", "malformed"),
        ("<answer>sum([8, 8, 8])</answer>", "malformed"),
        ("<answer>__import__('os').abort()</answer>", "malformed"),
        ("<answer>８ * ３</answer>", "malformed"),  # full-width digits
        ("<answer>8 * 3 ≈ 24</answer>", "malformed"),
        ("<answer>impossible</answer>", "malformed"),
        ("<answer>3*8</answer> or <answer>5*5</answer>", "wrong_numbers"),  # the last one counts
        ("The answer is 3*8, I think", "malformed"),
        ("<answer></answer>", "no_answer"),
        (r"3*8 = \boxed{}", "no_answer"),
        (r"3*8 = \boxed{3*8", "no_answer"),
        ("3 * 8 works, I think", "no_answer"),
        ("3 * 8\nDone!", "no_answer"),
        ("<think><answer>3*8</answer>\n</think>", "no_answer"),
        ("", "no_answer"),
    ],
)
def test_not_right(text: str, reason: str) -> None:
    found = verdict(text)
    assert (found.reward, found.reason) == (0.0, reason), found


def test_a_division_by_zero_is_wrong_and_has_no_value() -> None:
    found = verdict("<answer>8 / (5 - 5)</answer>", (8, 5, 5))
    assert (found.reason, found.evidence["value"]) == ("wrong", None)


def test_fractions_within_fractions() -> None:
    assert verdict("<answer>\\dfrac{8 \\times 3}{\\frac{5}{5}}</answer>", (3, 8, 5, 5)).reward == 1
    assert verdict("<answer>\\tfrac{8}{3 - \\frac{8}{3}}</answer>", (3, 3, 8, 8)).reward == 1
    assert verdict("<answer>\\frac{8}{3 - 1} * 5 + 4</answer>", (3, 8, 5, 1, 4)).reward == 1


def test_a_number_given_twice_may_be_used_twice() -> None:
    assert verdict("<answer>12 + 12</answer>", (12, 12)).reward == 1
    assert verdict("<answer>12 + 12</answer>", (12, 6)).reason == "wrong_numbers"


def test_the_target_is_reached_exactly_through_fractions() -> None:
    assert verdict("<answer>8 / (3 - 8 / 3)</answer>", (3, 3, 8, 8)).reward == 1
    assert verdict("<answer>10 / 3 * 3</answer>", (10, 3, 3), "10").reward == 1
    assert verdict("<answer>10 / 3</answer>", (10, 3), "3.3333333333333335").reason == "wrong"


def test_all_numbers_where_all_are_demanded() -> None:
    assert verdict("<answer>3 * 8</answer>", use_all=True).reason == "wrong_numbers"
    assert verdict("<answer>3 * 8</answer>", (8, 3), use_all=True).reward == 1
    assert verdict("<answer>(5 + 1 - 3) * 8</answer>", use_all=True).reward == 1


def test_numbers_from_json_may_be_whole_floats() -> None:
    assert verdict("<answer>3 * 8</answer>", [3.0, 8.0], "24.0").reward == 1


def test_the_evidence_is_what_was_read() -> None:
    assert verdict("<answer>(5 + 1) / 8 = 0.75</answer>").evidence == {
        "expression": "(5 + 1) / 8 = 0.75",
        "value": "3/4",
        "used": ["5", "1", "8"],
    }


@pytest.mark.parametrize("nums", [None, [], "3 8", [3, "8"], [3, None], [True], [-3], [2.5], [float("nan")], 3])
def test_numbers_that_are_none_are_a_fault(nums: Any) -> None:
    assert "nums must be a list of whole numbers of at least 0" in str(Countdown().audit(problem(nums)))
    assert "nums must be" in str(Countdown().audit(Problem("p", "", "24")))
    with pytest.raises(ValueError, match="nums must be"):
        Countdown().verify(problem(nums), Response("<answer>3*8</answer>"))
    assert Countdown().right_response(problem(nums)) is None
    assert Countdown().wrong_response(problem(nums)) is None


@pytest.mark.parametrize("target", [None, "", "many", "3*8"])
def test_a_target_that_is_no_number_is_a_fault(target: str | None) -> None:
    assert "is not a number" in str(Countdown().audit(problem(target=target)))
    assert Countdown().right_response(problem(target=target)) is None


GENERATED = [row for size in (2, 3, 4) for row in rows("train", size, Generated(min_numbers=size, train_rows=150))]


@given(st.sampled_from(GENERATED), st.booleans(), st.integers(1, 9), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=300)
def test_a_generated_solution_is_right_and_no_longer_with_a_number_changed(
    row: dict[str, Any], use_all: bool, change: int, chance: Any
) -> None:
    nums, target, solution = row["nums"], str(row["target"]), row["solution"]
    assert verdict(f"<answer>{solution}</answer>", nums, target, use_all).reward == 1
    assert verdict(f"<answer>{solution} = {target}</answer>", nums, target, use_all).reward == 1
    assert verdict(f"<answer>{solution} = {row['target'] + 1}</answer>", nums, target, use_all).reason == "wrong"
    number = chance.choice(list(re.finditer(r"\d+", solution)))
    others = nums.copy()
    others.remove(int(number[0]))
    other = int(number[0]) + change
    replaced = f"{solution[: number.start()]}{other}{solution[number.end() :]}"
    if other not in others:
        assert verdict(f"<answer>{replaced}</answer>", nums, target, use_all).reason == "wrong_numbers"
    doubled = f"{solution} + {number[0]} - {number[0]}"
    assert verdict(f"<answer>{doubled}</answer>", nums, target, use_all).reason == "wrong_numbers"


@given(st.sampled_from(GENERATED), st.booleans())
@settings(deadline=None, max_examples=100)
def test_a_solution_is_found_for_what_can_be_solved(row: dict[str, Any], use_all: bool) -> None:
    verifier = Countdown(CountdownOptions(use_all=use_all))
    one = problem(row["nums"], str(row["target"]))
    right, wrong = verifier.right_response(one), verifier.wrong_response(one)
    assert right is not None
    assert wrong is not None
    assert verifier.verify(one, Response(right)).reason == "correct"
    assert verifier.verify(one, Response(wrong)).reason == "wrong"


@given(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.integers(0, 200), st.booleans())
@settings(deadline=None, max_examples=100)
def test_what_is_found_is_right_and_what_is_made_wrong_is_wrong(nums: list[int], target: int, use_all: bool) -> None:
    verifier, one = Countdown(CountdownOptions(use_all=use_all)), problem(nums, str(target))
    right, wrong = verifier.right_response(one), verifier.wrong_response(one)
    if right is not None:
        assert verifier.verify(one, Response(right)).reason == "correct"
    if wrong is not None:
        assert verifier.verify(one, Response(wrong)).reason == "wrong"


@pytest.mark.parametrize(
    ("nums", "target", "use_all", "found"),
    [
        ([3, 3, 8, 8], 24, True, True),  # needs a fraction: 8 / (3 - 8 / 3)
        ([1, 5, 5, 5], 24, True, True),  # (5 - 1 / 5) * 5
        ([1, 1, 1, 1], 24, False, False),
        ([24], 24, True, True),
        ([24, 7], 24, True, False),
        ([24, 7], 24, False, True),
        ([0, 0], 0, True, True),
        ([2, 3], -1, False, False),
        ([1, 2, 3, 4, 5, 6, 7], 28, True, False),  # more numbers than are searched
        ([1, 3, 7, 10, 25, 50], 765, False, True),  # (1 + 50) * (25 - 10)
    ],
)
def test_the_search_by_hand(nums: list[int], target: int, use_all: bool, found: bool) -> None:
    assert (find_expression(nums, Fraction(target), use_all) is not None) == found


def test_the_search_gives_up() -> None:
    start = time.monotonic()
    assert find_expression([1, 1, 2, 2, 4, 4], Fraction(999_983), True) is None
    assert time.monotonic() - start < 60  # seconds; a few are usual


@pytest.mark.parametrize(
    "text",
    [
        "<answer>" + "9*" * 50_000 + "9</answer>",
        "<answer>" + "(" * 100_000 + "</answer>",
        "<answer>" + "9" * 100_000 + "</answer>",
        "<answer>9**9**9**9</answer>",
        "<answer>" + "9*" * 99 + "9</answer>",
        "<answer>" + "\\frac{" * 20_000 + "</answer>",
        "<answer>" * 20_000,
        "\\boxed{" * 20_000,
        "answer is" * 20_000,
        "answer is " + " " * 100_000,
        "answer:" + "*" * 100_000 + "x",
        " " * 200_000 + "x",
        "1+" * 100_000 + "1",
    ],
)
def test_bombs_cost_little(text: str) -> None:
    start = time.monotonic()
    assert verdict(text).reward == 0
    assert time.monotonic() - start < 1


PIECES = st.sampled_from(
    [*"0123456789+-*/()[]{}=.,^!x×÷−$ \n", "\\frac", "\\times", "\\boxed{", "<answer>", "</answer>", "answer is ", "**"]
)


@given(st.lists(PIECES, max_size=60))
def test_any_text_is_judged(pieces: list[str]) -> None:
    found = verdict("".join(pieces))
    assert (found.reward == 1) == (found.reason == "correct")
    assert found.reason in {"correct", "wrong", "no_answer", "wrong_numbers", "malformed"}
