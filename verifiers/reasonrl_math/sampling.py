"""Expressions with free symbols: compared by their values at random rational points.

Two different analytic expressions agree at a random point with probability 0, and to 60 digits in practice never; so
agreement at all points is taken for equality and no simplification is needed. Where floors, factorials, binomials or
sums occur the points are whole numbers.
"""

import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from reasonrl_math.numbers import ROUGH, Numeric, same_value
from reasonrl_math.tree import Apply, Node, NoValue, Num, symbols

SEED = 20250101
POINTS = 14
ENOUGH = 5  # points at which both are defined
WHOLE = frozenset({"floor", "ceil", "factorial", "factorial2", "binom", "sum", "prod"})
Point = dict[str, Fraction]


def whole(node: Node) -> bool:
    """Whether an expression is meant for whole numbers."""
    if not isinstance(node, Apply):
        return False
    if node.op == "^" and isinstance(node.args[0], Num) and node.args[0].value < 0:
        return True
    return node.op in WHOLE or any(map(whole, node.args))


def points(names: frozenset[str], only_whole: bool) -> Iterator[Point]:
    """Random points, the same each time; positive ones first, then negative, mixed and larger ones."""
    chance = random.Random(SEED)
    for number in range(POINTS):
        point = {}
        for name in sorted(names):
            if only_whole:
                point[name] = Fraction(chance.randint(1, 9 + 4 * number))
                continue
            size = Fraction(chance.randint(2**20, 2**24), 2**23) * (1 if number < 10 else 37)
            negative = number % 3 == 1 or (number % 3 == 2 and chance.random() < 0.5)
            point[name] = -size if negative else size
        yield point


def same_expression(one: Node, other: Node) -> bool:
    """Whether two expressions are equal wherever both, and all their parts, are real; where they seldom are, also as
    complex numbers.

    Raises:
        Unreadable: a collection within an expression.
        NoValue: a number that is undefined.
    """
    names = symbols(one) | symbols(other)
    if not names:
        return same_value(one, other)
    if one == other:
        return True
    real = complex_same = complex_different = 0
    for point in points(names, whole(one) or whole(other)):
        numeric = Numeric(point, ROUGH)
        try:
            left, right = numeric(one), numeric(other)
            if not (numeric.mp.isfinite(left) and numeric.mp.isfinite(right)):
                continue
            same = same_value(one, other, point)
        except NoValue:
            continue
        if not (numeric.imaginary or _imaginary(numeric, left) or _imaginary(numeric, right)):
            if not same:
                return False
            real += 1
        else:
            complex_same += same
            complex_different += not same
        if real >= ENOUGH:
            return True
    return not complex_different and real + complex_same >= 3


def _imaginary(numeric: Numeric, value: Any) -> bool:
    return bool(abs(numeric.mp.im(value)) > abs(value) * numeric.mp.mpf(10) ** (15 - ROUGH))


def proportional(one: Node, other: Node) -> int:
    """Sign of the constant c with one = c · other everywhere; 0 if there is none.

    Raises:
        Unreadable: a collection within an expression.
    """
    names = symbols(one) | symbols(other)
    if not names or symbols(one) != symbols(other):
        return 0
    found: list[tuple[Any, Any]] = []
    numeric = Numeric({}, ROUGH)
    mp = numeric.mp
    for point in points(names, whole(one) or whole(other)):
        numeric = Numeric(point, ROUGH)
        try:
            left, right = numeric(one), numeric(other)
        except NoValue:
            continue
        if mp.isfinite(left) and mp.isfinite(right):
            found.append((left, right))
    found = [pair for pair in found if not any(mp.im(value) for value in pair)] or found
    if len(found) < 3:
        return 0
    tolerance = mp.mpf(10) ** (25 - ROUGH)
    top, bottom = next(((a, b) for a, b in found if abs(a) > tolerance and abs(b) > tolerance), (0, 0))
    if not top:
        return 0
    for left, right in found:
        if abs(left * bottom - right * top) > tolerance * (abs(left * bottom) + abs(right * top)):
            return 0
    factor = top / bottom
    return 1 if mp.re(factor) > 0 or mp.im(factor) else -1
