"""Options that several commands take, written once: the fields of a record."""

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any


def options_of_records(command: Callable[..., None]) -> Callable[..., None]:
    """The command as Typer should see it: in place of each parameter that is a dataclass, the fields of that class.

    A field is annotated and has a default as any parameter of a command.
    """
    signature = inspect.signature(command)
    records = {one.name: one.annotation for one in signature.parameters.values() if _is_record(one.annotation)}
    seen: list[inspect.Parameter] = []
    for one in signature.parameters.values():
        if one.name in records:
            seen += [
                inspect.Parameter(field.name, one.KEYWORD_ONLY, default=field.default, annotation=field.type)
                for field in fields(records[one.name])
            ]
        else:
            seen.append(one.replace(kind=one.KEYWORD_ONLY))

    @wraps(command)
    def expanded(**given: Any) -> None:
        made = {
            name: record(**{field.name: given.pop(field.name) for field in fields(record)})
            for name, record in records.items()
        }
        command(**given, **made)

    expanded.__signature__ = signature.replace(parameters=seen)  # type: ignore[attr-defined]
    return expanded


def _is_record(annotation: Any) -> bool:
    return isinstance(annotation, type) and is_dataclass(annotation)
