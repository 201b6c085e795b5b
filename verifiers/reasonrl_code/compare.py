"""Is what a program gave what the test expects? Texts of standard output, and plain values. Always outside the sandbox.

Floats compare at 1e-9 relative: sums come out in another order. NaN equals nothing.
"""

import math
import re
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from decimal import Decimal
from fractions import Fraction
from itertools import zip_longest
from typing import Any, Literal

Spaces = Literal["trailing", "any"]
TOLERANCE = 1e-9  # relative
FLOAT = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?\d+[eE][+-]?\d+")
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
LONGEST = 400  # characters of a number that is compared as one
UNORDERED = 200  # elements that are paired one by one, where floats keep sets from being compared as such


def same_output(expected: str, got: str, spaces: Spaces = "trailing") -> bool:
    """Do two outputs say the same?

    Carriage returns, white space at the ends of lines and empty lines at the end do not count. Where the expected
    output has a float, a number within the tolerance will do.

    Args:
        spaces: "trailing": other white space counts. "any": only the words of the whole output count, one by one.
    """
    if spaces == "any":
        return _same_words(expected.split(), got.split())
    return all(
        one is not None and other is not None and (one == other or _same_line(one, other))
        for one, other in zip_longest(_lines(expected), _lines(got))
    )


def same_value(expected: Any, got: Any) -> bool:
    """Do two plain values equal each other as in Python, up to the tolerance between two floats?

    A tuple also passes for a list, for JSON has no tuples; a list does not pass for a tuple.
    """
    try:
        return _same(expected, got)
    except (RecursionError, ArithmeticError):  # a signalling NaN does not even say that it is none
        return False


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.replace("\r", "").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _same_line(expected: str, got: str) -> bool:
    """Lines that differ as texts: the same white space, and words that are the same up to floats."""
    if not FLOAT.search(expected):
        return False
    return re.sub(r"\S+", "", expected) == re.sub(r"\S+", "", got) and _same_words(expected.split(), got.split())


def _same_words(expected: list[str], got: list[str]) -> bool:
    return len(expected) == len(got) and all(
        one == other or _same_float(one, other) for one, other in zip(expected, got, strict=True)
    )


def _same_float(expected: str, got: str) -> bool:
    if max(len(expected), len(got)) > LONGEST or not (FLOAT.fullmatch(expected) and NUMBER.fullmatch(got)):
        return False
    one, other = float(expected), float(got)
    return math.isfinite(one) and math.isfinite(other) and math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=0.0)


def _same(expected: Any, got: Any) -> bool:
    match expected:
        case float() if isinstance(got, float):
            return math.isclose(expected, got, rel_tol=TOLERANCE, abs_tol=0.0)
        case complex() if isinstance(got, complex):
            return _same(expected.real, got.real) and _same(expected.imag, got.imag)
        case bool() | int() | float() | complex():
            return isinstance(got, bool | int | float | complex | Decimal | Fraction) and bool(expected == got)
        case list() | tuple():
            kinds = (list, tuple) if isinstance(expected, list) else tuple
            return isinstance(got, kinds) and _same_elements(expected, got)
        case dict():
            return isinstance(got, dict) and len(expected) == len(got) and _same_items(expected, got)
        case set() | frozenset():
            return isinstance(got, set | frozenset) and len(expected) == len(got) and _pairs(expected, got) is not None
        case bytes():
            return isinstance(got, bytes | bytearray) and expected == got
    return type(expected) is type(got) and bool(expected == got)


def _same_elements(expected: Collection[Any], got: Collection[Any]) -> bool:
    return len(expected) == len(got) and all(_same(one, other) for one, other in zip(expected, got, strict=True))


def _same_items(expected: Mapping[Any, Any], got: Mapping[Any, Any]) -> bool:
    pairs = _pairs(expected.keys(), got.keys())
    return pairs is not None and all(_same(expected[one], got[other]) for one, other in pairs)


def _pairs(expected: AbstractSet[Any], got: AbstractSet[Any]) -> list[tuple[Any, Any]] | None:
    """Each element with the one it equals; None if one has none. Both have as many."""
    # A set takes an object for itself even if it is NaN, hence `_same` on what is found in both.
    pairs = [(one, one) for one in expected if one in got and _same(one, one)]
    if len(pairs) == len(expected):
        return pairs
    known = {one for one, _ in pairs}
    missing, left = [one for one in expected if one not in known], [one for one in got if one not in known]
    if len(missing) > UNORDERED:
        return None
    for one in missing:
        found = next((at for at, other in enumerate(left) if _same(one, other)), None)
        if found is None:
            return None
        pairs.append((one, left.pop(found)))
    return pairs
