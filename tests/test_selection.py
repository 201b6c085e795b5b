"""Which rows: by column value, shuffled within a window."""

import datetime
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasonrl import ReasonRLError
from reasonrl.selection import Condition, kept, shuffled_window

TASK = Path("task.yaml")
ROWS: list[dict[str, Any]] = [
    {"level": 1, "kind": "a", "meta": {"date": datetime.date(2024, 7, 31)}, "odd": True},
    {"level": 2, "kind": "b", "meta": {"date": datetime.datetime(2024, 8, 1, 12)}, "odd": False},
    {"level": 2.5, "kind": "b", "meta": {"date": "2024-09-01"}, "odd": None},
    {"level": None, "kind": "c", "meta": {"date": None}, "odd": True},
]


def indices(**where: Any) -> list[int]:
    wanted = {column.replace("__", "."): value for column, value in where.items()}
    return [index for index, _ in kept(enumerate(ROWS), wanted, TASK)]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"kind": "b"}, [1, 2]),
        ({"kind": ("a", "c")}, [0, 3]),
        ({"level": 2}, [1]),
        ({"level": None}, [3]),
        ({"odd": True}, [0, 3]),
        ({"kind": "b", "level": 2}, [1]),
        ({"level": Condition(min=2)}, [1, 2]),
        ({"level": Condition(max=2)}, [0, 1]),
        ({"level": Condition(min=1.5, max=2.5)}, [1, 2]),
        ({"kind": Condition.model_validate({"not": ["b"]})}, [0, 3]),
        ({"level": Condition.model_validate({"min": 1, "not": [2]})}, [0, 2]),
        ({"meta__date": Condition(min="2024-08-01")}, [1, 2]),
        ({"meta__date": Condition(max="2024-08-01")}, [0]),
        ({"kind": Condition(min="b")}, [1, 2, 3]),
    ],
)
def test_rows_are_kept_by_the_values_of_columns(where: dict[str, Any], expected: list[int]) -> None:
    assert indices(**where) == expected


def test_true_is_not_the_number_one_of_a_bound() -> None:
    with pytest.raises(ReasonRLError, match="keeps none"):
        indices(odd=Condition(min=0))


def test_a_filter_that_keeps_nothing_shows_what_there_is() -> None:
    with pytest.raises(
        ReasonRLError, match=r"task.yaml: dataset.where keeps none of 4 rows; in them kind is 'a', 'b', 'c'"
    ):
        indices(kind="z")


def test_a_column_that_is_not_there_is_named_with_those_there_are() -> None:
    with pytest.raises(ReasonRLError, match=r"dataset.where: no column 'kin'; the data has: kind, level, meta, odd"):
        indices(kin="a")
    with pytest.raises(ReasonRLError, match=r"dataset.where: no column 'meta.day'; 'meta' has: date"):
        indices(meta__day="a")


def test_an_empty_data_set_is_no_fault_of_the_filter() -> None:
    assert list(kept(iter([]), {"a": 1}, TASK)) == []


@given(st.integers(0, 60), st.integers(2, 20), st.integers())
def test_a_window_loses_and_invents_nothing_and_holds_no_more_than_it_may(items: int, window: int, seed: int) -> None:
    read = 0

    def source() -> Any:
        nonlocal read
        for item in range(items):
            read += 1
            yield item

    given_out: list[int] = []
    for item in shuffled_window(source(), window, random.Random(seed)):
        given_out.append(item)
        assert read - len(given_out) <= window
    assert sorted(given_out) == list(range(items))


def test_a_window_mixes_and_repeats_with_its_seed() -> None:
    first, again, other = (list(shuffled_window(range(1000), 100, random.Random(s))) for s in (1, 1, 2))
    assert first == again != other
    assert first != list(range(1000))
    assert max(first[:10]) < 110, "an item comes out only after it came in"
