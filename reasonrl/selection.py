"""Which rows of a data set, and in which order: by the values of columns, shuffled within a window."""

import itertools
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field

from reasonrl.columns import value_at
from reasonrl.errors import ReasonRLError
from reasonrl.generators import Row
from reasonrl.yamlfile import Record

Item = TypeVar("Item")
Scalar = bool | int | float | str | None
_SHOWN_VALUES = 5  # of a column whose filter keeps nothing
_SHOWN = 80  # characters of one of them
_YEAR = re.compile(r"\d{4}")
_DATED = re.compile(r"\d{4}-\d\d")
_PERIOD = re.compile(r"\d{4}(-\d\d){0,2}")  # a year, a month or a day


class Condition(Record):
    """What a column's value must be: within bounds (both included), and none of some values.

    Bounds are numbers, texts, or dates and times in ISO form ("2024-08-01"), which compare with dates and with texts
    that begin like one. A day, month or year is all of it: `max: "2024-08-31"` includes that evening. A value of
    another kind is in no bounds.
    """

    min: float | str | None = None
    max: float | str | None = None
    excluded: tuple[Scalar, ...] = Field((), alias="not")

    def holds(self, value: Any) -> bool:
        """Is the value as it must be?"""
        if self.min is not None and _order(value, self.min) not in (0, 1):
            return False
        if self.max is not None and _order(value, self.max) not in (0, -1):
            return False
        return not any(_equal(value, one) for one in self.excluded)


def _order(value: Any, bound: float | str) -> int | None:
    """-1, 0 or 1 as the value is below, at or above a bound, 0 all through the day that it names; None if neither."""
    if not isinstance(bound, str):
        number = _plain(value)
        comparable = isinstance(number, int | float) and not isinstance(number, bool) and number == number
        return (number > bound) - (number < bound) if comparable else None
    text = value.isoformat() if isinstance(value, date) else value
    if not isinstance(text, str) or (_DATED.match(bound) and not _YEAR.match(text)):
        return None
    if _PERIOD.fullmatch(bound) and _DATED.match(text):
        text = text[: len(bound)]
    elif (moment := _moment(text)) and (limit := _moment(bound)):
        return (moment > limit) - (moment < limit)
    return (text > bound) - (text < bound)


def _moment(text: str) -> datetime | None:
    """A time in ISO form; without a zone it is UTC."""
    if not _DATED.match(text):
        return None  # such as 20240801, which `datetime` takes for a date
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _equal(value: Any, wanted: Scalar) -> bool:
    if isinstance(value, date):
        return isinstance(wanted, str) and _order(value, wanted) == 0
    return bool(_plain(value) == wanted)


def _plain(value: Any) -> Any:
    """A decimal as the number that a YAML would have for it."""
    if isinstance(value, Decimal) and value.is_finite():
        return int(value) if value == value.to_integral_value() else float(value)
    return value


Wanted = Scalar | tuple[Scalar, ...] | Condition


def shuffled_window(items: Iterable[Item], window: int, draw: random.Random) -> Iterator[Item]:
    """The items in an order that is random within a window: of `window` items held, one is drawn, the next comes in."""
    held: list[Item] = []
    for item in items:
        if len(held) < window:
            held.append(item)
            continue
        at = draw.randrange(window)
        held[at], item = item, held[at]
        yield item
    draw.shuffle(held)
    yield from held


def kept(
    rows: Iterable[tuple[int, Row]], where: Mapping[str, Wanted], task: Path, patience: int | None = None
) -> Iterator[tuple[int, Row]]:
    """The rows whose columns have the wanted values; where a row lacks a column that others have, its value is None.

    Args:
        rows: with their numbers.
        where: by column (or dotted path) what is wanted.
        task: its YAML, for messages.
        patience: a column that none of so many first rows has is taken to be nowhere; None reads all.

    Raises:
        ReasonRLError: no row has a column, or not one row is kept; lists the columns or some values there are.
    """
    rows = iter(rows)
    read, some = 0, not where
    seen: dict[str, list[Any]] = {column: [] for column in where}
    for index, row in itertools.chain(_until_found(rows, where, task, patience), rows):
        read += 1
        values = {column: _value(row, column) for column in where}
        for column, value in values.items():
            if len(seen[column]) < _SHOWN_VALUES and value not in seen[column]:
                seen[column].append(value)
        if all(_matches(values[column], wanted) for column, wanted in where.items()):
            some = True
            yield index, row
    if read and not some:
        found = "; ".join(f"{column} is {', '.join(map(_written, values))}, …" for column, values in seen.items())
        raise ReasonRLError(f"{task}: dataset.where keeps none of {read} rows; in them {found}")


def _until_found(
    rows: Iterator[tuple[int, Row]], columns: Iterable[str], task: Path, patience: int | None
) -> list[tuple[int, Row]]:
    """The rows up to the one by which each column was found: until then a misspelt one looks like one without value."""
    missing = dict.fromkeys(columns, "")
    read: list[tuple[int, Row]] = []
    while missing and (patience is None or len(read) < patience) and (one := next(rows, None)) is not None:
        read.append(one)
        for column, told in list(missing.items()):
            try:
                value_at(one[1], column)
            except KeyError as error:
                if not told or told.endswith("holds None"):  # another row may tell more
                    missing[column] = error.args[0]
            else:
                del missing[column]
    if missing and read:
        raise ReasonRLError(f"{task}: dataset.where: {next(iter(missing.values()))}")
    return read


def _value(row: Row, column: str) -> Any:
    try:
        return value_at(row, column)
    except KeyError:
        return None


def _matches(value: Any, wanted: Any) -> bool:
    match wanted:
        case Condition():
            return wanted.holds(value)
        case tuple():
            return any(_equal(value, one) for one in wanted)
    return _equal(value, wanted)


def _written(value: Any) -> str:
    """A value as a YAML would have it, shortened."""
    match value:
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case date():
            return value.isoformat()
        case Decimal():
            return str(value)
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
