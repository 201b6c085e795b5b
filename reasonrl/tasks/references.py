r"""The reference answer of a row: a column or a template, and of its text all, what a regex finds, or the last box."""

import math
import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from reasonrl.columns import value_at
from reasonrl.tasks.config import ReferenceConfig
from reasonrl.tasks.regexes import first_group
from reasonrl.tasks.templates import Template

_BOX = re.compile(r"\\(?:boxed|fbox)\s*(?=\{)")
_SHOWN = 200  # characters of a text in which nothing was found, or of what is no text
_EXACT = 2.0**53  # from here on a float is not the only whole number that reads as it does


class Reference:
    """How a task's references are found."""

    def __init__(self, config: ReferenceConfig) -> None:
        self._config = config
        self._template = None if config.template is None else Template(config.template)

    def of(self, row: Mapping[str, Any]) -> str:
        """The reference of a row.

        Raises:
            ValueError: the row has none that could be used; the text begins with the key that is at fault.
        """
        text = self._text(row)
        if self._config.regex is not None:
            found = (first_group(self._config.regex, text) or "").strip()
            if not found:
                raise ValueError(f"reference.regex: finds nothing in {text[-_SHOWN:]!r}")
            return found
        if self._config.last_box:
            box = last_box(text)
            if not box:
                raise ValueError(f"reference.last_box: no \\boxed{{…}} with content in {text[-_SHOWN:]!r}")
            return box
        return text

    def _text(self, row: Mapping[str, Any]) -> str:
        if self._template is None:
            assert self._config.column is not None
            return text_of(row, self._config.column, "reference.column")
        try:
            text = self._template.render(row).strip()
        except ValueError as error:
            raise ValueError(f"reference.template: {error}") from None
        if not text:
            raise ValueError("reference.template: renders to nothing")
        return text


def text_of(row: Mapping[str, Any], column: str, key: str) -> str:
    """A column's text, number or date as text.

    A whole number is written as one, however the data types it (27.0 → 27), another float without an exponent, a
    decimal with all its digits (1.10), a date or time in ISO form.

    Raises:
        ValueError: the column is not there, or holds nothing, a float that is no finite number or may have lost
            digits, or something else; the text begins with `key`.
    """
    try:
        value = value_at(row, column)
    except KeyError as error:
        raise ValueError(f"{key}: {error.args[0]}") from None
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and _EXACT <= abs(value) < math.inf:
        raise ValueError(
            f"{key}: column {column!r} holds {value!r}, a float so large that digits may be lost; store it as a whole "
            "number or as text"
        )
    number = isinstance(value, int) or (isinstance(value, float | Decimal) and math.isfinite(value))
    if not number and not (isinstance(value, str) and value.strip()):
        raise ValueError(f"{key}: column {column!r} holds {repr(value)[:_SHOWN]}, expected text or a number")
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else f"{Decimal(repr(value)):f}"
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def last_box(text: str) -> str | None:
    r"""The content of the last balanced `\boxed{…}` or `\fbox{…}`, without surrounding white space; None without one.

    Of boxes within each other it is the outer one, as in a worked solution that ends with its answer.
    """
    last, end = None, 0
    for found in _BOX.finditer(text):
        if found.start() < end:  # inside the box before
            continue
        closing = _closing_brace(text, found.end())
        if closing is not None:
            last, end = text[found.end() + 1 : closing].strip(), closing
    return last


def _closing_brace(text: str, opening: int) -> int | None:
    depth, position = 0, opening
    while position < len(text):
        if text[position] == "\\":
            position += 2  # an escaped brace is no brace
            continue
        depth += (text[position] == "{") - (text[position] == "}")
        if depth == 0:
            return position
        position += 1
    return None
