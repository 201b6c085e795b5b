"""Which rows of a data set, and in which order: by the values of columns, shuffled within a window."""

import random
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
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


class Condition(Record):
    """What a column's value must be: within bounds (both included), and none of some values.

    Bounds are numbers, or text for columns of text and dates ("2024-08-01"); a value of another kind is in no bounds.
    """

    min: float | str | None = None
    max: float | str | None = None
    excluded: tuple[Scalar, ...] = Field((), alias="not")

    def holds(self, value: Any) -> bool:
        """Is the value as it must be?"""
        if isinstance(value, date):
            value = value.isoformat()
        if not all(_comparable(bound, value) for bound in (self.min, self.max) if bound is not None):
            return False
        above, below = self.min is None or value >= self.min, self.max is None or value <= self.max
        return above and below and value not in self.excluded


def _comparable(bound: float | str, value: Any) -> bool:
    if isinstance(bound, str):
        return isinstance(value, str)
    return isinstance(value, int | float) and not isinstance(value, bool)


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


def kept(rows: Iterable[tuple[int, Row]], where: Mapping[str, Wanted], task: Path) -> Iterator[tuple[int, Row]]:
    """The rows whose columns have the wanted values.

    Raises:
        ReasonRLError: a column is not there, or not one row is kept; lists the columns or some values there are.
    """
    read, some = 0, not where
    seen: dict[str, list[Any]] = {column: [] for column in where}
    for index, row in rows:
        read += 1
        values = {column: _value(row, column, task) for column in where}
        for column, value in values.items():
            if len(seen[column]) < _SHOWN_VALUES and value not in seen[column]:
                seen[column].append(value)
        if all(_matches(values[column], wanted) for column, wanted in where.items()):
            some = True
            yield index, row
    if read and not some:
        found = "; ".join(f"{column} is {', '.join(map(repr, values))}, …" for column, values in seen.items())
        raise ReasonRLError(f"{task}: dataset.where keeps none of {read} rows; in them {found}")


def _value(row: Row, column: str, task: Path) -> Any:
    try:
        return value_at(row, column)
    except KeyError as error:
        raise ReasonRLError(f"{task}: dataset.where: {error.args[0]}") from None


def _matches(value: Any, wanted: Any) -> bool:
    match wanted:
        case Condition():
            return wanted.holds(value)
        case tuple():
            return value in wanted
    return bool(value == wanted)
