"""Numbers and expressions of arithmetic, read exactly. An own parser: the text of a model is never evaluated."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

# A resource bomb must cost microseconds. These bounds are far above what a worked solution contains.
MAX_DIGITS = 40  # of one number
MAX_TOKENS = 400  # of one expression
MAX_DEPTH = 30  # of parentheses
MAX_BITS = 4096  # of numerator and denominator of an intermediate result

PLAIN_NUMBER = r"[0-9]+(?:\.[0-9]+)?|\.[0-9]+"
# At most 13 groups: without the bound a long list "1,234,567,…" would be scanned anew from each of its numbers.
GROUPED_NUMBER = r"[0-9]{1,3}(?:,[0-9]{3}){1,13}(?![0-9]|,[0-9])(?:\.[0-9]+)?"

Kind = Literal["number", "+", "-", "*", "/", "(", ")", "="]


@dataclass(frozen=True)
class Token:
    """A number, operator, parenthesis or equals sign: characters [start, end) of a text."""

    kind: Kind
    text: str
    start: int
    end: int


def read_number(text: str, thousands: bool = True) -> Fraction | None:
    """The exact value of an integer or decimal such as "-1,234.50", or None if `text` is anything else.

    A currency sign before it and a full stop after it are allowed.
    """
    number = f"(?:{GROUPED_NUMBER}|{PLAIN_NUMBER})" if thousands else f"(?:{PLAIN_NUMBER})"
    found = re.fullmatch(rf"([-−+]?)\s*(?:\\?[$€£])?\s*({number})\.?", text.strip())
    if found is None or len(found[2]) > 2 * MAX_DIGITS:
        return None
    try:
        value = number_value(found[2])
    except ValueError:
        return None
    return value if found[1] in ("", "+") else -value


def number_value(text: str) -> Fraction:
    """The exact value of an unsigned number.

    Raises:
        ValueError: it has more than MAX_DIGITS digits.
    """
    digits = text.replace(",", "")
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has more than {MAX_DIGITS} digits")
    return Fraction(digits)


def evaluate(tokens: Sequence[Token]) -> Fraction:
    """The exact value of an expression with + - * /, signs and parentheses, with the usual precedence.

    Raises:
        ValueError: the tokens are no expression, or one beyond the bounds above.
        ZeroDivisionError: it divides by zero.
    """
    if len(tokens) > MAX_TOKENS:
        raise ValueError(f"an expression has more than {MAX_TOKENS} tokens")
    parser = _Parser(tokens)
    value = parser.sum(0)
    if parser.position != len(tokens):
        raise ValueError("an expression ends too early")
    return value


class _Parser:
    """Recursive descent: sum = product {± product}, product = factor {×÷ factor}, factor = {±} number or (sum)."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.position = 0

    def sum(self, depth: int) -> Fraction:
        value = self.product(depth)
        while (kind := self._take("+", "-")) is not None:
            term = self.product(depth)
            value = _bounded(value + term if kind == "+" else value - term)
        return value

    def product(self, depth: int) -> Fraction:
        value = self.factor(depth)
        while (kind := self._take("*", "/")) is not None:
            factor = self.factor(depth)
            value = _bounded(value * factor if kind == "*" else value / factor)
        return value

    def factor(self, depth: int) -> Fraction:
        sign = 1
        while (kind := self._take("+", "-")) is not None:
            sign = -sign if kind == "-" else sign
        if self._take("(") is not None:
            if depth >= MAX_DEPTH:
                raise ValueError(f"parentheses are nested more than {MAX_DEPTH} deep")
            value = self.sum(depth + 1)
            if self._take(")") is None:
                raise ValueError("a parenthesis is not closed")
            return sign * value
        if self._take("number") is None:
            raise ValueError("a number is missing")
        return sign * number_value(self.tokens[self.position - 1].text)

    def _take(self, *kinds: Kind) -> Kind | None:
        """The kind of the next token if it is one of `kinds`, stepping over it."""
        if self.position < len(self.tokens) and self.tokens[self.position].kind in kinds:
            self.position += 1
            return self.tokens[self.position - 1].kind
        return None


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise ValueError(f"an intermediate result has more than {MAX_BITS} bits")
    return value
