"""One-line functions: their Python evaluated, the tutor's mistakes by hand, and held-out functions held out."""

import random
from typing import Any

import pytest
from pydantic import ValidationError

from reasonrl.errors import ReasonRLError
from reasonrl.generators.one_liners import INPUTS, Function, OneLinersOptions, rows, written

PLUS_TIMES = Function((("+", 3), ("*", 2), ("-", 4), ("*", 5)))


def evaluated(source: str, x: int) -> int:
    return int(eval("(lambda x: " + source.removeprefix("def f(x): return ") + ")(x)", {"x": x}))  # our own text


@pytest.mark.parametrize(
    ("steps", "words", "source", "line"),
    [
        ((("+", 3), ("*", 2)), "x plus 3, times 2", "(x+3)*2", "factor 2, summand 6"),
        ((("*", 2), ("+", 3)), "x times 2, plus 3", "x*2+3", "factor 2, summand 3"),
        ((("*", 2), ("*", 3)), "x times 2, times 3", "x*2*3", "factor 6, summand 0"),
        ((("-", 4), ("+", 9)), "x minus 4, plus 9", "x-4+9", "factor 1, summand 5"),
        (PLUS_TIMES.steps, "x plus 3, times 2, minus 4, times 5", "((x+3)*2-4)*5", "factor 10, summand 10"),
    ],
)
def test_functions_by_hand(steps: Any, words: str, source: str, line: str) -> None:
    function = Function(steps)
    assert (function.words, function.line) == (words, line)
    assert written(function) == f"def f(x): return {source}"
    assert [function.value(x) for x in (0, 3, -7)] == [evaluated(source, x) for x in (0, 3, -7)]


class Scripted(random.Random):
    """Draws in the order given, so that the tutor's mistakes are known."""

    def __init__(self, draws: list[float], choices: list[str]) -> None:
        self._draws, self._choices = iter(draws), iter(choices)

    def random(self) -> float:
        return next(self._draws)

    def choice(self, options: Any) -> Any:
        choice = next(self._choices)
        assert choice in options
        return choice


@pytest.mark.parametrize(
    ("draws", "choices", "source"),
    [
        # of each step: a slip if below 0.15; and, where parentheses are needed, forgotten if below 0.5
        ([0.9, 0.9, 0.9, 0.9, 0.9, 0.9], [], "((x+3)*2-4)*5"),
        ([0.9, 0.9, 0.1, 0.9, 0.9, 0.9], [], "(x+3*2-4)*5"),
        ([0.9, 0.9, 0.9, 0.9, 0.9, 0.1], [], "(x+3)*2-4*5"),
        ([0.1, 0.9, 0.9, 0.9, 0.9], ["*"], "(x*3*2-4)*5"),
        ([0.9, 0.1, 0.9, 0.9, 0.9], ["-"], "(x+3-2-4)*5"),
    ],
)
def test_the_tutors_mistakes_by_hand(draws: list[float], choices: list[str], source: str) -> None:
    assert written(PLUS_TIMES, OneLinersOptions(), Scripted(draws, choices)) == f"def f(x): return {source}"


def test_the_rows_hold_what_their_functions_return() -> None:
    options = OneLinersOptions(train_rows=300, eval_rows=50, demonstrations=100, forget=0.7, slip=0.2)
    train, held_out = rows("train", 0, options), rows("eval", 0, options)
    assert (len(train), len(held_out)) == (300, 50)
    for row in train + held_out:
        assert row["question"] == f"f(x) is {row['id']}"
        assert [test["args"] for test in row["tests"]] == [[x] for x in INPUTS]
        assert [test["expected"] for test in row["tests"]] == [evaluated(row["solution"], x) for x in INPUTS]
    shown = [row for row in train if row["demonstration"]]
    assert shown == train[:100]
    right = sum(
        all(evaluated(row["demonstration"], x) == evaluated(row["solution"], x) for x in INPUTS) for row in shown
    )
    assert 20 < right < 70
    assert all(row["demonstration"] is None for row in held_out)


def test_no_function_is_on_both_sides_in_whatever_words() -> None:
    options = OneLinersOptions(train_rows=1000, eval_rows=200)
    sides = [
        {tuple(t["expected"] for t in row["tests"]) for row in rows(split, 0, options)} for split in ("train", "eval")
    ]
    assert not sides[0] & sides[1]


def test_impossible_options() -> None:
    with pytest.raises(ValidationError, match="min_steps 3 is more than max_steps 2"):
        OneLinersOptions(min_steps=3, max_steps=2)
    with pytest.raises(ReasonRLError, match="different problems"):
        rows("eval", 0, OneLinersOptions(min_steps=1, max_steps=1, largest=3))
