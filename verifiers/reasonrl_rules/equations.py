"""Finds the equations of arithmetic in a text and checks each of them exactly.

What cannot be read with certainty is no equation: "2x + 3 = 7", "10% of 50 + 3 = 8" and "+ 3 = 8" after a word are
left alone, because calling a true line of algebra false would teach a model not to write it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from reasonrl_rules.expressions import GROUPED_NUMBER, PLAIN_NUMBER, Kind, Token, evaluate

# A command of LaTeX ends before anything but a letter: \times3 is \times 3.
LEXEMES = (
    r"(?P<power>\*\*)"
    r"|(?P<sign>[-+*/×÷·⋅−()=]|\\(?:times|cdot|div)(?![A-Za-z]))"
    r"|(?P<times>[xX](?=[ \t]*[0-9(]))"
    r"|(?P<skip>[ \t]+|\\?[$€£])"
    r"|(?P<other>.)"
)
PLAIN_LEXER = re.compile(f"(?P<number>{PLAIN_NUMBER})|{LEXEMES}", re.DOTALL)
GROUPED_LEXER = re.compile(f"(?P<number>{GROUPED_NUMBER}|{PLAIN_NUMBER})|{LEXEMES}", re.DOTALL)
KINDS: dict[str, Kind] = {
    "+": "+", "-": "-", "−": "-", "*": "*", "×": "*", "·": "*", "⋅": "*", r"\times": "*", r"\cdot": "*",
    "/": "/", "÷": "/", r"\div": "/", "(": "(", ")": ")", "=": "=",
}  # fmt: skip
OPERATORS = ("+", "-", "*", "/")
OPERANDS = ("number", ")")

# An expression with one of these right before or after it is part of something larger that we cannot read.
GLUE_BEFORE = re.compile(r"(?:[\w.)\]}^%√\\!]|[\w)\]}]\s?\*\*|(?<!\w)(?:of|times|plus|minus|by|over)\s{1,3})$")
VARIABLE_BEFORE = re.compile(r"\w$|\b[A-Za-z]\s+$")  # "x -5" is a difference, "is -5" a negative number
# The rest of a mixed number or of spaced thousands: the 1/2 of "1 1/2", the 1/4 of "1 and 1/4", the 000 of "80 000".
REST = r"[0-9]+\s?/\s?[0-9]|[0-9]{3}(?![0-9])"
REST_OF_NUMBER = re.compile(REST)
NUMBER_BEFORE = re.compile(r"[0-9](?:\s+and)?\s+$")
GLUE_AFTER = re.compile(
    r"\s?(?:%|cents?\b)|[\^!({_/√π]|\*\*[-\w(]|\.[0-9]|[eE][-+]?[0-9]|[A-Za-z](?![A-Za-z])|\\(?:[dtc]?frac|%|sqrt|pi)"
    rf"|\s(?:and\s)?(?:{REST})"
)
NEAR = 12  # characters before an expression that are looked at


@dataclass(frozen=True)
class Equation:
    """An equation found in a text.

    Attributes:
        start, end: it stands at characters [start, end).
        holds: whether it is true.
        form: its numbers and signs, the same however they are written: `1,000 × 2.50=…` as `1000*2.5=…`.
    """

    start: int
    end: int
    holds: bool
    form: str


def find_equations(text: str, thousands: bool = True) -> list[Equation]:
    """Every readable equation `a op b = c` of `text`, in order; in `a = b = c` each equals sign is an equation.

    Of a chain, an equals sign counts if its left side has an operator or it continues the chain. Both sides may be
    expressions with + - * / × ÷ · and parentheses. A division by zero is false. Linear in the length of the text.

    Args:
        thousands: whether "1,234" is one number; if not, it is two.
    """
    lexer = GROUPED_LEXER if thousands else PLAIN_LEXER
    return [equation for run in _runs(text, lexer) for equation in _equations_of(text, run)]


def _runs(text: str, lexer: re.Pattern[str]) -> Iterator[list[Token]]:
    """Runs of arithmetic tokens that only white space and currency signs separate."""
    run: list[Token] = []
    depth = 0
    for found in lexer.finditer(text):
        if found.lastgroup == "skip":
            continue
        token = _token(found, run[-1].kind if run else None)
        # Two operands side by side belong to two statements, as does a parenthesis that closes nothing.
        beside = token is not None and run and run[-1].kind in OPERANDS and token.kind in ("number", "(")
        if token is None or beside or (token.kind == ")" and depth == 0):
            yield run
            run, depth = [], 0
        if token is not None and not (token.kind == ")" and depth == 0):
            run.append(token)
            depth += (token.kind == "(") - (token.kind == ")")
    yield run


def _token(found: re.Match[str], previous: Kind | None) -> Token | None:
    """The token of a lexeme, or None if it ends the run."""
    kind: Kind | None = None
    if found.lastgroup == "number":
        kind = "number"
    elif found.lastgroup == "sign":
        kind = KINDS[found[0]]
    elif found.lastgroup == "times" and previous in OPERANDS:
        kind = "*"  # "3 x 4"; an x elsewhere is a letter
    return None if kind is None else Token(kind, found[0], found.start(), found.end())


def _equations_of(text: str, run: list[Token]) -> Iterator[Equation]:
    if not any(token.kind == "=" for token in run):
        return
    sides = _sides(_without_bullet(text, run))
    readable = [True] * len(sides)
    readable[0] = not _is_glued_before(text, sides[0])
    readable[-1] &= bool(sides[-1]) and GLUE_AFTER.match(text, sides[-1][-1].end) is None
    for i in range(len(sides) - 1):
        left, right = sides[i], sides[i + 1]
        if not (left and right and readable[i] and readable[i + 1] and (i > 0 or _has_operator(left))):
            continue
        holds = _holds(left, right)
        if holds is not None:
            yield Equation(left[0].start, right[-1].end, holds, f"{_form(left)}={_form(right)}")


def _without_bullet(text: str, run: list[Token]) -> list[Token]:
    """The run without a list bullet: an operator that starts a line and is followed by white space."""
    first = run[0]
    line = text[max(0, first.start - NEAR) : first.start].rpartition("\n")
    starts_line = not line[2].strip() and (bool(line[1]) or first.start < NEAR)
    is_bullet = first.kind in OPERATORS and starts_line and text[first.end : first.end + 1].isspace()
    return run[1:] if is_bullet else run


def _sides(run: list[Token]) -> list[list[Token]]:
    """The expressions between the equals signs, without a parenthesis that encloses the whole run."""
    sides: list[list[Token]] = [[]]
    for token in run:
        if token.kind == "=":
            sides.append([])
        else:
            sides[-1].append(token)
    first, last = sides[0], sides[-1]
    surplus = sum((token.kind == "(") - (token.kind == ")") for token in first)
    leading = next((i for i, token in enumerate(first) if token.kind != "("), len(first))
    sides[0] = first[min(max(surplus, 0), leading) :]
    surplus = sum((token.kind == ")") - (token.kind == "(") for token in last)
    if surplus > 0:
        sides[-1] = last[:-surplus]
    return sides


def _is_glued_before(text: str, side: Sequence[Token]) -> bool:
    """Whether the expression is the end of something larger: "2x", a word and "+ 3", "half of"."""
    if not side:
        return False
    first = side[0]
    if first.kind in OPERATORS:
        is_sign = first.kind in ("+", "-") and len(side) > 1 and side[1].start == first.end
        if not is_sign or VARIABLE_BEFORE.search(text[max(0, first.start - NEAR) : first.start]):
            return True
    before = text[max(0, first.start - NEAR) : first.start]
    if NUMBER_BEFORE.search(before) and REST_OF_NUMBER.match(text, first.start):
        return True
    return GLUE_BEFORE.search(before) is not None


def _has_operator(side: Sequence[Token]) -> bool:
    return any(token.kind in OPERATORS and before.kind in OPERANDS for before, token in pairwise(side))


def _form(side: Sequence[Token]) -> str:
    return "".join(_plain(token.text) if token.kind == "number" else token.kind for token in side)


def _plain(number: str) -> str:
    """The number without commas, leading zeros and zeros after the last decimal. Of any length, unlike its value."""
    whole, _, decimals = number.replace(",", "").partition(".")
    decimals = decimals.rstrip("0")
    return (whole.lstrip("0") or "0") + (f".{decimals}" if decimals else "")


def _holds(left: Sequence[Token], right: Sequence[Token]) -> bool | None:
    """Whether the two sides are equal; None if one of them is no arithmetic within the bounds."""
    try:
        return evaluate(left) == evaluate(right)
    except ZeroDivisionError:
        return False
    except ValueError:
        return None
