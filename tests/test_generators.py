"""Generated arithmetic: the columns by hand, the careless tutor's record, and a held-out split that is held out."""

import random
from typing import Any

import pytest
from pydantic import ValidationError

from reasonrl.generators import GENERATORS, ArithmeticOptions, arithmetic, generate
from reasonrl.generators.addition import _working

TWO = ArithmeticOptions(digits=2)


@pytest.mark.parametrize(
    ("a", "b", "digits", "working"),
    [
        (47, 89, 2, "7+9+0=16,4+8+1=13:136"),  # a carry out of both columns
        (12, 34, 2, "2+4+0=6,1+3+0=4:46"),  # none
        (5, 7, 2, "5+7+0=12,0+0+1=1:12"),  # a carry into an empty column
        (0, 0, 2, "0+0+0=0,0+0+0=0:0"),
        (99, 99, 2, "9+9+0=18,9+9+1=19:198"),
        (9, 8, 1, "9+8+0=17:17"),
        (905, 95, 3, "5+5+0=10,0+9+1=10,9+0+1=10:1000"),
        (1234, 8766, 4, "4+6+0=10,3+6+1=10,2+7+1=10,1+8+1=10:10000"),
    ],
)
def test_the_working_by_hand(a: int, b: int, digits: int, working: str) -> None:
    assert _working(a, b, ArithmeticOptions(digits=digits, eval_rows=1), None) == working


class Scripted(random.Random):
    """Draws in the order given, so that the tutor's mistakes are known."""

    def __init__(self, draws: list[float], slips: list[int]) -> None:
        self._draws, self._slips = iter(draws), iter(slips)

    def random(self) -> float:
        return next(self._draws)

    def choice(self, options: Any) -> Any:
        slip = next(self._slips)
        assert slip in options
        return slip


@pytest.mark.parametrize(
    ("draws", "slips", "working"),
    [
        # draws of a column: a slip if below 0.2; and, where there is a carry, forgotten if below 0.8
        ([0.9, 0.9, 0.9, 0.9], [], "7+9+0=16,4+8+1=13:136"),
        ([0.9, 0.1, 0.9, 0.1], [], "7+9+0=16,4+8+0=12:26"),  # both carries forgotten
        ([0.9, 0.1, 0.9, 0.9], [], "7+9+0=16,4+8+0=12:126"),  # the first one only
        ([0.9, 0.9, 0.9, 0.1], [], "7+9+0=16,4+8+1=13:36"),  # the last one only
        ([0.1, 0.9, 0.1, 0.9], [1, -1], "7+9+0=17,4+8+1=12:127"),
    ],
)
def test_the_tutors_mistakes_by_hand(draws: list[float], slips: list[int], working: str) -> None:
    assert _working(47, 89, TWO, Scripted(draws, slips)) == working


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_between_a_fifth_and_a_third_of_the_default_demonstrations_are_right(seed: int) -> None:
    rows = [row for row in arithmetic("train", seed, ArithmeticOptions()) if row["demonstration"]]
    assert len(rows) == 1000
    right = sum(row["demonstration"].rpartition(":")[2] == row["answer"] for row in rows) / len(rows)
    assert 0.20 < right < 0.35


def test_a_careful_tutor_makes_no_mistakes() -> None:
    rows = arithmetic("train", 0, ArithmeticOptions(forget=0, slip=0, demonstrations=200))
    assert all(row["demonstration"] == row["solution"] for row in rows[:200])
    assert all(row["demonstration"] is None for row in rows[200:])


@pytest.mark.parametrize(("digits", "eval_rows"), [(1, 20), (2, 1000), (3, 500), (4, 500)])
def test_no_held_out_problem_is_trained_on_in_either_order(digits: int, eval_rows: int) -> None:
    options = ArithmeticOptions(digits=digits, eval_rows=eval_rows)
    train, held_out = arithmetic("train", 0, options), arithmetic("eval", 0, options)
    assert len(held_out) == eval_rows
    assert len({row["id"] for row in train + held_out}) == len(train) + len(held_out)
    unordered = [{frozenset(row["id"].rstrip("=").split("+")) for row in rows} for rows in (train, held_out)]
    assert not unordered[0] & unordered[1]
    if digits <= 2:  # every problem there is falls on one side, but for the twin of the last held-out one
        assert len(train) + len(held_out) in (100**digits, 100**digits - 1)
    for row in train[:200] + held_out[:200]:
        a, b = map(int, row["question"].rstrip("=").split("+"))
        assert row["answer"] == str(a + b) == row["solution"].rpartition(":")[2]
        assert len(row["question"]) == 2 * digits + 2


def test_the_first_held_out_rows_are_not_twins() -> None:
    first = arithmetic("eval", 0, TWO)[:100]
    assert len({frozenset(row["id"].rstrip("=").split("+")) for row in first}) > 90


def test_a_seed_gives_its_rows_and_no_others() -> None:
    # Rows as they were when this was written: the same seed must give them on every machine and in every version.
    assert [row["id"] for row in arithmetic("train", 0, TWO)[:3]] == ["96+23=", "52+56=", "32+80="]
    assert [row["id"] for row in arithmetic("eval", 0, TWO)[:3]] == ["60+81=", "91+82=", "57+32="]
    assert generate("arithmetic", "train", 7, TWO) == generate("arithmetic", "train", 7, TWO)
    assert generate("arithmetic", "train", 7, TWO) != generate("arithmetic", "train", 8, TWO)


@pytest.mark.parametrize(("digits", "most"), [(1, 27), (2, 2525), (3, 250250)])
def test_more_held_out_rows_than_leave_something_to_train_on_are_refused(digits: int, most: int) -> None:
    ArithmeticOptions(digits=digits, eval_rows=most)
    with pytest.raises(ValidationError, match=f"leaves too few problems to train on; at most {most} here"):
        ArithmeticOptions(digits=digits, eval_rows=most + 1)


def test_most_held_out_rows_still_leave_rows_to_train_on() -> None:
    assert len(arithmetic("train", 0, ArithmeticOptions(digits=1, eval_rows=27))) >= 50


def test_generators_have_options_that_refuse_unknown_keys() -> None:
    for generator in GENERATORS.values():
        with pytest.raises(ValidationError):
            generator.options.model_validate({"nonsense": 1})
