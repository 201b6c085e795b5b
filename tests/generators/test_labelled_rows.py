"""Labelled chains: the first wrong step is where the label says, by a reader that follows the story's own chain."""

import re
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reasonrl.generators import chains
from reasonrl.generators.drawing import Row
from reasonrl.generators.labelled_chains import LabelledChainsOptions, rows

EQUATION = re.compile(r"(\d+) ([-+*/]) (\d+) = (\d+) ")
ALONE = re.compile(r"(?:is|has|makes|leaves) (\d+) ")


def computed(a: str | int, operation: str, b: str | int) -> Fraction:
    x, y = Fraction(a), Fraction(b)
    return {"+": x + y, "-": x - y, "*": x * y, "/": x / y}[operation]


def first_wrong_step(row: Row) -> tuple[int, int, int]:
    """The first step that does not do to the current number what the story does; final answer; right answer."""
    story = re.findall(r"([-+*/])(\d+)", re.match(r"\d+(\S*)", row["id"])[1])  # type: ignore[index]
    start = re.match(r"\d+", row["id"])[0]  # type: ignore[index]
    current, right, wrong = Fraction(start), Fraction(start), []
    for index, (line, (operation, operand)) in enumerate(zip(row["steps"], story, strict=False)):
        right = computed(str(right), operation, operand)
        found = EQUATION.search(line)
        if found is None:
            alone = ALONE.search(line)
            assert alone is not None, line
            assert int(alone[1]) == current, "a dropped operand leaves the number as it was"
            wrong.append(index)
            continue
        a, written, b, result = found.groups()
        assert Fraction(a) == current, "later steps go on with the number the step before arrived at"
        assert b == operand
        if (written, Fraction(result)) != (operation, computed(a, operation, b)):
            wrong.append(index)
        current = Fraction(result)
    assert len(row["steps"]) == len(story) + 1
    assert row["steps"][-1] == rf"The answer is \boxed{{{current}}}."
    return (wrong[0] if wrong else -1), int(current), int(right)


@given(st.integers(0, 10**6), st.integers(1, 5), st.sampled_from([15, 100, 5000]))
@settings(max_examples=40, deadline=None)
def test_the_label_is_the_first_wrong_step_and_the_final_answer_is_told_truly(
    seed: int, fewest: int, largest: int
) -> None:
    options = LabelledChainsOptions(
        min_steps=fewest, max_steps=fewest + 2, largest=largest, right=0.3, lucky=0.4, train_rows=40, eval_rows=5
    )
    for row in rows("train", seed, options) + rows("eval", seed, options):
        label, answer, right = first_wrong_step(row)
        assert row["label"] == label
        assert row["final_answer_correct"] == (answer == right)
        assert (row["slip"] == "none") == (label == -1)
        assert all(int(number) >= 0 for number in re.findall(r"-?\d+", row["steps"][-1]))


def test_the_fields_are_those_of_processbench() -> None:
    row = rows("eval", 0, LabelledChainsOptions(eval_rows=5))[0]
    assert {"id", "generator", "problem", "steps", "final_answer_correct", "label"} <= set(row)
    assert row["generator"] == "labelled_chains"


@pytest.mark.parametrize(("right", "lucky"), [(0.0, 0.0), (0.5, 0.0), (0.5, 1.0), (1.0, 0.1)])
def test_the_shares_are_those_asked_for(right: float, lucky: float) -> None:
    options = LabelledChainsOptions(min_steps=3, right=right, lucky=lucky, train_rows=1000)
    made = rows("train", 0, options)
    assert sum(row["label"] == -1 for row in made) / 1000 == pytest.approx(right, abs=0.05)
    by_luck = [row for row in made if row["label"] >= 0 and row["final_answer_correct"]]
    if lucky == 0 or right == 1:
        assert not by_luck
    else:  # a slip in the last step cannot be made good
        assert 0.25 < len(by_luck) / 1000 < 0.5


def test_every_slip_happens_at_every_step() -> None:
    made = rows("train", 0, LabelledChainsOptions(min_steps=4, max_steps=4, right=0, lucky=0, train_rows=1000))
    for slip in ("wrong_result", "dropped_operand", "wrong_operation"):
        at = [row["label"] for row in made if row["slip"] == slip]
        assert all(at.count(index) > 30 for index in range(4))


def test_a_problem_is_on_the_side_on_which_chains_has_it() -> None:
    labelled = {row["problem"] for row in rows("train", 0, LabelledChainsOptions(train_rows=300))}
    assert labelled == {row["question"] for row in chains.rows("train", 0, chains.ChainsOptions(train_rows=300))}
