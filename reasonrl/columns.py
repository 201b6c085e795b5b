"""The columns of a row, those nested in others included: `reward_model.ground_truth`, `final_answer.0`."""

from collections.abc import Mapping
from typing import Any

_SHOWN = 80  # characters of a value that is no mapping and no list


def value_at(row: Mapping[str, Any], path: str) -> Any:
    """What a row holds at a dotted path of names and list indices; a column whose own name has dots wins.

    Raises:
        KeyError: there is nothing at that path; its text says what there is instead.
    """
    if path in row:
        return row[path]
    value: Any = row
    done: list[str] = []
    for part in path.split("."):
        match value:
            case Mapping() if part in value:
                value = value[part]
            case list() | tuple() if part.isdigit() and int(part) < len(value):
                value = value[int(part)]
            case _:
                raise KeyError(_missing(path, done, value))
        done.append(part)
    return value


def names(row: Mapping[str, Any]) -> str:
    """The columns of a row, for a message."""
    return ", ".join(sorted(map(str, row)))


def _missing(path: str, done: list[str], value: Any) -> str:
    if not done:
        return f"no column {path!r}; the data has: {names(value)}"
    within = ".".join(done)
    match value:
        case Mapping():
            return f"no column {path!r}; {within!r} has: {names(value)}"
        case list() | tuple():
            return f"no column {path!r}; {within!r} is a list of {len(value)}"
    return f"no column {path!r}; {within!r} holds {repr(value)[:_SHOWN]}"
