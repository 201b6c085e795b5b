"""Reading users' YAML files: safe, strict, with errors that name file, line, key and the nearest known key."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from reasonrl.errors import ReasonRLError

Model = TypeVar("Model", bound=BaseModel)
KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """A YAML mapping and the line every key stands on (1-based; a key set from elsewhere has none)."""

    path: Path
    data: dict[str, Any]
    lines: dict[KeyPath, int]


def read(path: Path) -> Document:
    """Read one YAML mapping.

    Raises:
        ReasonRLError: the file cannot be read, is no YAML (a tab, an unsafe tag), is no mapping or repeats a key.
    """
    try:
        text = path.read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except OSError as error:
        raise ReasonRLError(f"{path}: cannot be read: {error.strerror}") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise ReasonRLError(f"{path}:{line}: not valid YAML: {error.problem or error}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ReasonRLError(f"{path}: not valid YAML: {error}") from None
    if not isinstance(data, dict):
        raise ReasonRLError(f"{path}: expected keys and values, got {type(data).__name__}")
    return Document(path, data, dict(_lines(node, (), path)))


def _lines(node: yaml.Node | None, at: KeyPath, path: Path) -> Iterator[tuple[KeyPath, int]]:
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.value in seen:
                raise ReasonRLError(f"{path}:{line}: the key {key.value!r} stands on line {seen[key.value]} already")
            seen[key.value] = line
            yield (*at, key.value), line
            yield from _lines(value, (*at, key.value), path)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield (*at, index), value.start_mark.line + 1
            yield from _lines(value, (*at, index), path)


def validate(model: type[Model], document: Document) -> Model:
    """The document as a typed record.

    Raises:
        ReasonRLError: one line per fault: file, line, key, what was expected, and the nearest known key.
    """
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        raise ReasonRLError("\n".join(_fault(model, document, e) for e in error.errors())) from None


def _fault(model: type[BaseModel], document: Document, error: ErrorDetails) -> str:
    # pydantic puts the tag of a discriminated union into the location; it is no key of the file.
    keys = tuple(k for i, k in enumerate(error["loc"]) if i == 0 or _present(document.data, error["loc"][:i], k))
    line = next((document.lines[keys[:n]] for n in range(len(keys), 0, -1) if keys[:n] in document.lines), None)
    where = f"{document.path}:{line}" if line else str(document.path)
    name = ".".join(map(str, keys))
    if error["type"] == "extra_forbidden":
        known = _known_keys(model, keys[:-1])
        near = difflib.get_close_matches(str(keys[-1]), known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return f"{where}: unknown key {name!r}{hint} (known here: {', '.join(known)})"
    if error["type"] == "missing":
        return f"{where}: the key {'.'.join(map(str, error['loc']))!r} is missing"
    message = error["msg"].removeprefix("Value error, ")
    return f"{where}: {name}: {message}" if name else f"{where}: {message}"


def _present(data: Any, parents: KeyPath, key: str | int) -> bool:
    for parent in parents:
        match data, parent:
            case dict(), _ if parent in data:
                data = data[parent]
            case list(), int():
                data = data[parent]
    return (isinstance(data, dict) and key in data) or isinstance(data, list)


def _known_keys(model: type[BaseModel], keys: KeyPath) -> list[str]:
    """The keys a model has below `keys`; of a union, those of all its members."""
    models = [model]
    for key in keys:
        if isinstance(key, str):
            models = [m for parent in models if key in parent.model_fields for m in _models(parent, key)]
    return sorted({name for m in models for name in m.model_fields})


def _models(parent: type[BaseModel], key: str) -> Iterator[type[BaseModel]]:
    stack: list[Any] = [parent.model_fields[key].annotation]
    while stack:
        kind = stack.pop()
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield kind
        stack.extend(get_args(kind))
