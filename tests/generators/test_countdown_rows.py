"""Countdown rows: every solution is evaluated by fractions and uses what was given."""

import ast
import operator
import re
from collections import Counter
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from reasonrl.generators.countdown import CountdownOptions, rows

OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def value(node: ast.expr) -> Fraction:
    """An independent evaluation: Python's own grammar, over fractions."""
    if isinstance(node, ast.Constant):
        assert isinstance(node.value, int)
        return Fraction(node.value)
    assert isinstance(node, ast.BinOp)
    result: Fraction = OPERATIONS[type(node.op)](value(node.left), value(node.right))
    assert result.denominator == 1, "no fraction on the way"
    assert result > 0
    return result


@given(
    st.integers(0, 10**6), st.integers(2, 6), st.integers(0, 4), st.sampled_from([12, 99]), st.sampled_from([50, 1000])
)
@settings(max_examples=40, deadline=None)
def test_every_solution_reaches_its_target_with_every_number(
    seed: int, fewest: int, more: int, largest: int, largest_target: int
) -> None:
    options = CountdownOptions(
        min_numbers=fewest,
        max_numbers=min(6, fewest + more),
        largest=largest,
        largest_target=largest_target,
        train_rows=10,
        eval_rows=5,
    )
    for row in rows("train", seed, options) + rows("eval", seed, options):
        assert set(row) == {"id", "nums", "target", "solution"}
        assert value(ast.parse(row["solution"], mode="eval").body) == row["target"]
        assert Counter(map(int, re.findall(r"\d+", row["solution"]))) == Counter(row["nums"])
        assert all(1 <= number <= largest for number in row["nums"])
        assert 1 <= row["target"] <= largest_target
        assert row["target"] not in row["nums"], "no number is a solution by itself"
        assert options.min_numbers <= len(row["nums"]) <= options.max_numbers


def test_the_same_numbers_are_on_one_side_with_whatever_target() -> None:
    options = CountdownOptions(largest=12, train_rows=1500, eval_rows=400)
    sides = [{tuple(sorted(row["nums"])) for row in rows(split, 0, options)} for split in ("train", "eval")]
    assert not sides[0] & sides[1]


def test_all_operations_and_parentheses_occur() -> None:
    solutions = [row["solution"] for row in rows("train", 0, CountdownOptions(train_rows=1000))]
    assert all(sum(sign in solution for solution in solutions) > 50 for sign in "+-*/(")
