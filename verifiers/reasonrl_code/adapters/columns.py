"""Reading the metadata of a problem, which may be lists and mappings or JSON text of them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from reasonrl import Problem
from reasonrl_code.suite import Unreadable

_SHOWN = 80  # characters of a value in a message


def text(problem: Problem, name: str) -> str:
    """A column of text.

    Raises:
        Unreadable: it is absent, empty or no text.
    """
    value = problem.metadata.get(name)
    if not isinstance(value, str) or not value.strip():
        raise Unreadable(f"column {name!r} must hold text, not {shown(value)}")
    return value


def optional_text(problem: Problem, name: str) -> str:
    """A column of text that may be absent, or hold nothing."""
    return "" if problem.metadata.get(name) in (None, "") else text(problem, name)


def texts(problem: Problem, name: str) -> list[str]:
    """A column of a list of texts, which may be absent, or hold nothing.

    Raises:
        Unreadable: it holds anything else.
    """
    value = decoded(problem.metadata.get(name), name)
    if value is None:
        return []
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(one, str) for one in value):
        raise Unreadable(f"column {name!r} must hold a list of texts, not {shown(value)}")
    return list(value)


def decoded(value: Any, name: str) -> Any:
    """The value, or what it is the JSON text of.

    Raises:
        Unreadable: it is a text that is no JSON.
    """
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{name!r} is no JSON ({error}): {shown(value)}") from error


def entries(value: Any, name: str) -> list[Mapping[str, Any]]:
    """A list of mappings from that, or from a mapping of parallel lists; a null is an empty list.

    Raises:
        Unreadable: it is anything else, or the lists differ in length.
    """
    match value:
        case None:
            return []
        case Mapping():
            columns = {str(key): column for key, column in value.items() if column is not None}
            lengths = {len(column) if isinstance(column, list | tuple) else -1 for column in columns.values()}
            if len(lengths) > 1 or -1 in lengths:
                raise Unreadable(f"{name!r} must hold lists of one length, not {shown(value)}")
            return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        case list() | tuple() if all(isinstance(one, Mapping) for one in value):
            return list(value)
    raise Unreadable(f"{name!r} must hold lists of tests, not {shown(value)}")


def shown(value: object) -> str:
    """The beginning of a value, for a message."""
    whole = repr(value)
    return whole if len(whole) <= _SHOWN else whole[:_SHOWN] + "…"
