"""Values of expressions: exact rationals where there is one, else numbers to a given number of digits.

Every step is bounded before it is computed. The numeric route uses mpmath with a context of its own per thread, for
mpmath's global precision is shared by threads.
"""

import threading
from collections.abc import Mapping
from fractions import Fraction
from math import comb, factorial
from typing import Any

from reasonrl_math.tree import Apply, Node, NoValue, Num, Sym, Unreadable

MAX_BITS = 2**17  # of a whole number worked out exactly
MAX_FACTORIAL = 5_000
MAX_BINOMIAL = 10_000
MAX_TERMS = 1_000  # of a sum or product
MAX_MAGNITUDE = 2_000  # bits of a number before the point that a function is applied to
ROUGH, FINE = 60, 400  # digits of the two passes of `same_value`

contexts = threading.local()


def rational(node: Node) -> Fraction | None:
    """The exact value of an expression of rationals and whole powers; None if it is something else.

    Raises:
        NoValue: a division by zero, or a step that is too large.
    """
    if isinstance(node, Num):
        return node.value
    if not isinstance(node, Apply) or node.op not in EXACT:
        return None
    values = [rational(arg) for arg in node.args]
    known = [value for value in values if value is not None]
    return EXACT[node.op](*known) if len(known) == len(values) else None


def _quotient(top: Fraction, bottom: Fraction) -> Fraction:
    if bottom == 0:
        raise NoValue("a division by zero")
    return top / bottom


def _power(base: Fraction, exponent: Fraction) -> Fraction | None:
    if exponent.denominator != 1:
        return None
    if base == 0:
        if exponent <= 0:
            raise NoValue("a power of zero that is none")
        return Fraction(0)
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(base) != 1 and bits * abs(exponent) > MAX_BITS:
        raise NoValue("a power that is too large")
    return base ** (int(exponent) if abs(base) != 1 else int(exponent) % 2)


def _factorial(number: Fraction) -> Fraction | None:
    if number.denominator != 1 or number < 0:
        return None
    if number > MAX_FACTORIAL:
        raise NoValue("a factorial that is too large")
    return Fraction(factorial(int(number)))


def _factorial2(number: Fraction) -> Fraction | None:
    if number.denominator != 1 or number < 0 or number > MAX_FACTORIAL:
        return None
    product = 1
    for factor in range(int(number), 0, -2):
        product *= factor
    return Fraction(product)


def _binomial(top: Fraction, bottom: Fraction) -> Fraction | None:
    if top.denominator != 1 or bottom.denominator != 1 or top < 0 or bottom < 0:
        return None
    if top > MAX_BINOMIAL:
        raise NoValue("a binomial that is too large")
    return Fraction(comb(int(top), int(bottom)))


EXACT: dict[str, Any] = {
    "+": lambda *terms: sum(terms, Fraction(0)),
    "*": lambda one, other: one * other,
    "/": _quotient,
    "^": _power,
    "neg": lambda one: -one,
    "abs": abs,
    "floor": lambda one: Fraction(one.numerator // one.denominator),
    "ceil": lambda one: Fraction(-(-one.numerator // one.denominator)),
    "factorial": _factorial,
    "factorial2": _factorial2,
    "binom": _binomial,
    "max": lambda *values: max(values),
    "min": lambda *values: min(values),
}


def context(digits: int) -> Any:
    """mpmath at a precision, of this thread alone."""
    from mpmath.ctx_mp import MPContext

    known: dict[int, Any] = contexts.__dict__.setdefault("known", {})
    if digits not in known:
        known[digits] = MPContext()
        known[digits].dps = digits
    return known[digits]


class Numeric:
    """Evaluates expressions at a point; symbols without a value make them unreadable."""

    def __init__(self, point: Mapping[str, Fraction], digits: int, terms: int = MAX_TERMS) -> None:
        self.point = point
        self.imaginary = False  # whether a step had a value that is not real
        self.terms = terms  # of sums, those within them included
        self.mp = context(digits)

    def __call__(self, node: Node) -> Any:
        """The value as an mpmath number.

        Raises:
            NoValue: undefined here, or too large.
            Unreadable: no number at all.
        """
        exact = rational(node)
        if exact is not None:
            return self.mp.mpf(exact.numerator) / exact.denominator
        if isinstance(node, Sym):
            return self._symbol(node.name)
        if not isinstance(node, Apply):
            raise Unreadable("a collection within an expression")
        if node.op in ("sum", "prod"):
            return self._indexed(node)
        values = [self(arg) for arg in node.args]
        try:
            value = self._apply(node.op, values)
        except (ZeroDivisionError, ValueError, OverflowError, TypeError, ArithmeticError):
            raise NoValue(f"{node.op} is not defined here") from None
        if self.mp.isnan(value):
            raise NoValue(f"{node.op} is not defined here")
        self.imaginary |= bool(self.mp.im(value))
        return value if self.mp.im(value) else self.mp.re(value)  # i · i is real, and only reals have an order

    def _symbol(self, name: str) -> Any:
        if name in self.point:
            return self.mp.mpf(self.point[name].numerator) / self.point[name].denominator
        if name in ("pi", "e", "inf"):
            return +getattr(self.mp, name)
        if name == "i":
            return self.mp.mpc(0, 1)
        raise Unreadable(f"the symbol {name} has no value")

    def _apply(self, op: str, values: list[Any]) -> Any:
        mp = self.mp
        if op == "+":
            return sum(values[1:], values[0])
        if op == "^":
            return self._raise(*values)
        if op == "root":
            return self._root(*values)
        if op in ("*", "/"):
            return values[0] * values[1] if op == "*" else values[0] / values[1]
        if op == "neg":
            return -values[0]
        if any(self._magnitude(value) > MAX_MAGNITUDE for value in values):
            raise NoValue("too large for a function")
        if op == "deg":
            return values[0]
        if op in ("floor", "ceil", "max", "min"):
            if any(mp.im(value) for value in values):
                raise NoValue("no order of complex numbers")
            return {"floor": mp.floor, "ceil": mp.ceil, "max": max, "min": min}[op](*values)
        if op in ("factorial", "binom") and any(abs(value) > MAX_BINOMIAL for value in values):
            raise NoValue("a factorial that is too large")
        if op == "factorial":
            return mp.gamma(values[0] + 1)
        if op == "binom":
            return mp.binomial(*values)
        if op in FUNCTIONS:
            return getattr(mp, FUNCTIONS[op])(*values)
        raise Unreadable(f"the operation {op}")

    def _magnitude(self, value: Any) -> int:
        size = abs(value)
        return int(self.mp.mag(size)) if size and self.mp.isfinite(size) else 0

    def _raise(self, base: Any, exponent: Any) -> Any:
        if self._magnitude(exponent) > 64 or self._magnitude(base) > 2**16:
            raise NoValue("a power that is too large")
        if not self.mp.isfinite(base) or not self.mp.isfinite(exponent):
            raise NoValue("a power of infinity")
        if base == 0 and self.mp.re(exponent) <= 0:
            raise NoValue("a power of zero that is none")
        return base**exponent

    def _root(self, value: Any, index: Any) -> Any:
        """The real root of a negative number if the index is odd, else the principal one."""
        if not self.mp.isfinite(value):
            return value
        if index == 2:
            return self.mp.sqrt(value)
        if not self.mp.im(value) and value < 0 and self.mp.isint(index) and int(index) % 2:
            return -((-value) ** (1 / index))
        return value ** (1 / index)

    def _indexed(self, node: Apply) -> Any:
        index, low, high, body = node.args
        first, last = self(low), self(high)
        if not (isinstance(index, Sym) and self.mp.isint(first) and self.mp.isint(last)):
            raise Unreadable("a sum without whole bounds")
        if last - first >= self.terms:
            raise NoValue("a sum of too many terms")
        left = self.terms // max(int(last - first) + 1, 1)
        total = self.mp.mpf(node.op == "prod")
        for step in range(int(first), int(last) + 1):
            value = Numeric({**self.point, index.name: Fraction(step)}, self.mp.dps, left)(body)
            total = total + value if node.op == "sum" else total * value
        return total


FUNCTIONS = {
    "sin": "sin", "cos": "cos", "tan": "tan", "cot": "cot", "sec": "sec", "csc": "csc", "arcsin": "asin",
    "arccos": "acos", "arctan": "atan", "arccot": "acot", "arcsec": "asec", "arccsc": "acsc", "sinh": "sinh",
    "cosh": "cosh", "tanh": "tanh", "exp": "exp", "ln": "ln", "log": "log", "abs": "fabs",
}  # fmt: skip


def same_value(one: Node, other: Node, point: Mapping[str, Fraction] | None = None) -> bool:
    """Whether two expressions have one value at a point: exactly if both are rational, else to some 400 digits.

    A difference that shrinks as the precision grows is the noise of rounding around zero.

    Raises:
        NoValue: one of them has none there.
    """
    if not point:
        left, right = rational(one), rational(other)
        if left is not None and right is not None:
            return left == right
    point = point or {}
    rough = Numeric(point, ROUGH)
    a, b = rough(one), rough(other)
    if not (rough.mp.isfinite(a) and rough.mp.isfinite(b)):
        return bool(a == b)
    apart, size = abs(a - b), max(abs(a), abs(b))
    if apart > size * rough.mp.mpf(10) ** (10 - ROUGH) and apart > rough.mp.mpf(10) ** (20 - ROUGH):
        return False
    fine = Numeric(point, FINE)
    a, b = fine(one), fine(other)
    finer, size = abs(a - b), max(abs(a), abs(b))
    noise = (apart or rough.mp.mpf(10) ** -ROUGH) * fine.mp.mpf(10) ** (80 - FINE)
    return bool(finer <= size * fine.mp.mpf(10) ** (20 - FINE) or finer < noise)


def order(one: Node, other: Node) -> int:
    """-1, 0 or 1 as one real number is less than, equal to or greater than another.

    Raises:
        NoValue: no real numbers.
    """
    if one == other or same_value(one, other):
        return 0
    rough = Numeric({}, ROUGH)
    a, b = rough(one), rough(other)
    if rough.mp.im(a) or rough.mp.im(b):
        raise NoValue("no order of complex numbers")
    return -1 if a < b else 1
