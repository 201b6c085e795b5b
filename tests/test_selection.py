"""Which rows: by column value, shuffled within a window."""

import datetime
import math
import random
from decimal import Decimal
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
        ({"meta__date": Condition(max="2024-08-01")}, [0, 1]),
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


def test_an_error_shows_values_as_a_yaml_has_them() -> None:
    rows: list[dict[str, Any]] = [{"a": value} for value in ("4", 4, None, True, Decimal("1.10"), "z z")]
    with pytest.raises(ReasonRLError, match=r"in them a is '4', 4, null, true, 1\.10, …"):
        list(kept(enumerate(rows), {"a": "z"}, TASK))
    moments: list[dict[str, Any]] = [
        {"a": datetime.datetime(2024, 8, 31, 12, tzinfo=datetime.UTC)},
        {"a": datetime.date(2024, 9, 1)},
    ]
    with pytest.raises(ReasonRLError, match=r"in them a is 2024-08-31T12:00:00\+00:00, 2024-09-01, …"):
        list(kept(enumerate(moments), {"a": "z"}, TASK))
    with pytest.raises(ReasonRLError, match=r"in them a is 'x{79}…, …"):
        list(kept(enumerate([{"a": "x" * 1000}]), {"a": "z"}, TASK))


# Dates

DATES: list[Any] = [
    datetime.date(2024, 8, 30),
    datetime.datetime(2024, 8, 31),
    datetime.datetime(2024, 8, 31, 23, 59, tzinfo=datetime.timezone(datetime.timedelta(hours=-5))),
    "2024-08-31T23:59:59",
    "2024-08-31 10:00:00Z",
    "2024-09-01",
    "unknown",
    None,
    20240831,
]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Condition(max="2024-08-31"), [0, 1, 2, 3, 4]),
        (Condition(min="2024-08-31"), [1, 2, 3, 4, 5]),
        (Condition(min="2024-08-31", max="2024-08-31"), [1, 2, 3, 4]),
        (Condition(max="2024-08"), [0, 1, 2, 3, 4]),
        (Condition(min="2024-09"), [5]),
        (Condition(max="2024-08-31T10:00:00"), [0, 1, 4]),
        (Condition(max="2024-08-31 10:00"), [0, 1, 4]),
        (Condition(max="2024-08-31T05:00:00-05:00"), [0, 1, 4]),
        (Condition(min="2024-09-01T04:59:00Z"), [2]),
        (Condition.model_validate({"min": "2024-08-30", "not": ["2024-08-31", "2024-09-01"]}), [0, 3, 4]),
        ("2024-08-30", [0]),
        ("2024-08-31", [1, 2]),
        ("2024-08-31T00:00:00", [1]),
        (("2024-08-30", "2024-09-01"), [0, 5]),
        ("unknown", [6]),
    ],
)
def test_dates_compare_as_dates_and_a_day_is_all_of_it(wanted: Any, expected: list[int]) -> None:
    rows = [{"date": value} for value in DATES]
    assert [index for index, _ in kept(enumerate(rows), {"date": wanted}, TASK)] == expected


def test_text_that_is_no_date_compares_as_text() -> None:
    rows = [{"v": value} for value in ("a", "b", "2024-13-45T99:99", "1.10", "1.9")]
    assert [i for i, _ in kept(enumerate(rows), {"v": Condition(min="1.10", max="a")}, TASK)] == [0, 2, 3, 4]


# Numbers


def test_decimals_are_numbers_and_texts_and_what_is_no_number_are_none() -> None:
    rows = [{"n": value} for value in (Decimal("1.10"), Decimal("4.00"), "4", math.nan, Decimal("NaN"), 2**60 + 1)]
    assert [i for i, _ in kept(enumerate(rows), {"n": 1.1}, TASK)] == [0]
    assert [i for i, _ in kept(enumerate(rows), {"n": (4, 2**60 + 1)}, TASK)] == [1, 5]
    assert [i for i, _ in kept(enumerate(rows), {"n": Condition(min=1.1, max=5)}, TASK)] == [0, 1]
    assert [i for i, _ in kept(enumerate(rows), {"n": Condition.model_validate({"not": [4, 1.1]})}, TASK)] == [
        *(2, 3, 4, 5)
    ]


# Rows that lack a column


def test_a_path_through_nothing_has_no_value_if_others_have_one() -> None:
    rows: list[dict[str, Any]] = [{"n": None}, {}, {"n": {"y": 1}}, {"n": {"x": 1}}, {"n": [1]}, {"n": {"x": 2}}]
    for wanted, expected in (
        (1, [3]),
        (None, [0, 1, 2, 4]),
        (Condition(min=1), [3, 5]),
        (Condition.model_validate({"not": [1]}), [0, 1, 2, 4, 5]),
    ):
        assert [index for index, _ in kept(enumerate(rows), {"n.x": wanted}, TASK)] == expected
        assert [index for index, _ in kept(enumerate(rows), {"n.x": wanted}, TASK, patience=4)] == expected


@pytest.mark.parametrize("patience", [None, 2])
def test_a_path_that_no_row_has_is_named_with_what_there_is(patience: int | None) -> None:
    rows: list[dict[str, Any]] = [{"n": None}, {"n": {"y": 1}}, {"n": None}]
    with pytest.raises(ReasonRLError, match=r"task\.yaml: dataset\.where: no column 'n\.x'; 'n' has: y"):
        next(kept(enumerate(rows), {"n.x": None}, TASK, patience))


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
