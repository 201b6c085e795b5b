"""Columns by name and by dotted path."""

from typing import Any

import pytest

from reasonrl.columns import value_at

ROW: dict[str, Any] = {"a": {"b": [10, {"c": "deep"}]}, "x.y": "own name", "x": {"y": "nested"}, "n": None}


@pytest.mark.parametrize(
    ("path", "expected"), [("a.b.0", 10), ("a.b.1.c", "deep"), ("x.y", "own name"), ("n", None), ("a", ROW["a"])]
)
def test_a_path_reaches_into_mappings_and_lists(path: str, expected: Any) -> None:
    assert value_at(ROW, path) == expected


def test_a_long_value_is_not_shown_whole() -> None:
    with pytest.raises(KeyError) as caught:
        value_at({"a": "x" * 1000}, "a.b")
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("z", "no column 'z'; the data has: a, n, x, x.y"),
        ("a.c", "no column 'a.c'; 'a' has: b"),
        ("a.b.2", "no column 'a.b.2'; 'a.b' is a list of 2"),
        ("a.b.-1", "'a.b' is a list of 2"),
        ("n.k", "no column 'n.k'; 'n' holds None"),
        ("a.b.1.c.upper", "'a.b.1.c' holds 'deep'"),
        ("a.__class__", "'a' has: b"),
    ],
)
def test_what_is_not_there_is_told_by_what_is(path: str, expected: str) -> None:
    with pytest.raises(KeyError) as caught:
        value_at(ROW, path)
    assert expected in caught.value.args[0]
