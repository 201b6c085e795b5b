"""Outputs and values compared: white space, floats, NaN, containers; by hand and as properties."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasonrl_code.compare import same_output, same_value

FLOATS = st.floats(allow_nan=False)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner)
        | st.frozensets(st.integers() | st.text() | FLOATS)
    ),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("expected", "got", "same"),
    [
        ("7\n", "7", True),
        ("7", "7  \n\n\n", True),
        ("a\nb", "a \r\nb\r\n", True),
        ("a\n\nb", "a\n\nb\n", True),
        ("a\n\nb", "a\nb", False),
        ("a", " a", False),
        ("a b", "a  b", False),
        ("a b", "a\tb", False),
        ("", "\n\n", True),
        ("", "0", False),
        ("7", "", False),
        ("YES", "yes", False),
        ("YES\nNO\nYES", "NO\nYES\nYES", False),
        ("1\n2", "1\n2\n3", False),
        ("0.333333333333", "0.3333333333333333", True),
        ("0.3333", "0.3333333333333333", False),
        ("1.0", "1", True),  # a number that is the float
        ("1", "1.0", False),  # an integer asked for is text
        ("1e3 x", "1000.0 x", True),
        ("1e3 x", "1000.0 y", False),
        ("1.50  2.5", "1.5  2.50", True),
        ("1.50  2.5", "1.5 2.50", False),
        ("0.1 7", "0.1 7.0", False),
        ("0.0", "-0.0", True),
        ("0.0", "0.0000000001", False),
        ("nan", "nan", True),  # the word
        ("1.5", "nan", False),
        ("1e999", "1e998", False),  # infinities are not compared
        ("-1.5", "1.5", False),
        ("version 1.2.3", "version 1.2.3", True),
        ("1.2.30", "1.2.3", False),
        ("1." + "0" * 500, "1.0", False),
    ],
)
def test_outputs(expected: str, got: str, same: bool) -> None:
    assert same_output(expected, got) is same


@pytest.mark.parametrize(
    ("expected", "got", "same"),
    [
        ("  0\n", "0", True),
        ("1 2\n3", "1\n2   3", True),
        ("1.50", "\n1.5", True),
        ("1 2", "12", False),
        ("YES\nNO\nYES", "NO\nYES\nYES", False),
    ],
)
def test_outputs_by_their_words(expected: str, got: str, same: bool) -> None:
    assert same_output(expected, got, "any") is same


@pytest.mark.parametrize(
    ("expected", "got", "same"),
    [
        (3, 3, True),
        (3, 3.0, True),
        (3.0, 3, True),
        (3, 3.0000000001, False),  # no tolerance for a whole number
        (0.3, 0.1 + 0.2, True),
        (1e300, 1e300 * (1 + 1e-8), False),
        (10**400, 1.0, False),
        (True, 1, True),  # as in Python
        (False, 0.0, True),
        (True, "True", False),
        (None, False, False),
        (0, None, False),
        ("a", "a", True),
        ("a", b"a", False),
        ("1", 1, False),
        (math.nan, math.nan, False),
        (1.0, math.nan, False),
        (math.inf, math.inf, True),
        (math.inf, -math.inf, False),
        (1 + 2j, 1 + 2.0000000000001j, True),
        (1 + 0j, 1, True),
        ([1, 2], (1, 2), True),  # JSON has no tuples
        ((1, 2), [1, 2], False),  # Python has
        ((1, 2), (1, 2), True),
        ([[1], [2]], [(1,), (2,)], True),
        ([1, 2], [2, 1], False),
        ([1], [1, 1], False),
        ([], (), True),
        ([], {}, False),
        ([0.3], [0.1 + 0.2], True),
        ({1, 2}, {2, 1}, True),
        ({1, 2}, frozenset({2, 1}), True),
        ({1, 2}, [1, 2], False),
        ({0.3}, {0.1 + 0.2}, True),
        ({0.3, 1}, {0.1 + 0.2, 2}, False),
        ({"a": [0.3]}, {"a": [0.1 + 0.2]}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1}, {"b": 1}, False),
        ({1: 2}, {1.0: 2}, True),
        ({1: 2}, {"1": 2}, False),
        ({0.3: "x"}, {0.1 + 0.2: "x"}, True),
        ({(1, 0.3)}, {(1, 0.1 + 0.2)}, True),
        (b"a", b"a", True),
        (b"a", bytearray(b"a"), True),
        (3, Decimal(3), True),
        (0.5, Fraction(1, 2), True),
    ],
)
def test_values(expected: Any, got: Any, same: bool) -> None:
    assert same_value(expected, got) is same


def test_what_is_nested_too_deeply_is_not_the_same() -> None:
    deep: list[Any] = []
    other: list[Any] = []
    for _ in range(100_000):
        deep, other = [deep], [other]
    assert same_value(deep, other) is False


@given(VALUES)
def test_a_value_without_nan_equals_itself_and_not_something_in_a_list(value: Any) -> None:
    assert same_value(value, value)
    assert not same_value([value], [value, value])
    assert not same_value([[value]], value) or value == [[value]]


@given(VALUES, VALUES)
def test_what_python_finds_equal_is_the_same(one: Any, other: Any) -> None:
    if one == other:
        assert same_value(one, other)


@given(VALUES)
def test_nan_anywhere_equals_nothing(value: Any) -> None:
    nan = math.nan  # one object, which Python's own containers take for equal to itself
    for holder in ([nan, value], (value, nan), {"a": nan}, frozenset({nan}), [{1: [nan]}]):
        assert not same_value(holder, holder)


@given(st.floats(-1e300, 1e300), st.floats(-1e-10, 1e-10), st.floats(1e-8, 1))
def test_floats_are_the_same_within_the_tolerance_only(value: float, little: float, much: float) -> None:
    assert same_value(value, value * (1 + little))
    moved = value * (1 + much)
    if abs(value) > 1e-300:
        assert not same_value(value, moved)


@given(st.text(), st.text())
def test_outputs_that_differ_in_more_than_the_ends_of_lines_are_not_the_same(one: str, other: str) -> None:
    assert same_output(one, one)
    assert same_output(one, one + " \r\n\n")
    assert not same_output(one + "x", other + "y")
    assert same_output(one, other) is same_output(other, one) or "." in one + other or "e" in (one + other).lower()
