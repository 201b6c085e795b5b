"""A YAML mapping that knows where each of its keys comes from: its file, one it extends, or the command line."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from reasonrl import yamlerrors, yamltext
from reasonrl.errors import ReasonRLError
from reasonrl.yamlerrors import KeyPath


class Place(NamedTuple):
    """A line (1-based) of a file."""

    path: Path
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class Document:
    """A YAML mapping, and where each of its keys comes from.

    Attributes:
        path: the file; where it extends others, the outermost.
        data: what it holds, extended files and overrides included.
        lines: the file and line of every key that a file still decides.
        overrides: the command-line text of every key set there.
    """

    path: Path
    data: dict[str, Any]
    lines: dict[KeyPath, Place]
    overrides: dict[KeyPath, str] = field(default_factory=dict)

    def place(self, keys: KeyPath) -> str:
        """Where the value at `keys` comes from, for an error message."""
        # A fault of the whole may come from an override of a part; a part's `name` decides which keys it may have.
        tag = (*keys[:-1], "name") if len(keys) > 1 else None
        parts = [text for at, text in self.overrides.items() if at[: len(keys)] == keys or at == tag]
        suffix = f" with {' '.join(parts)} from the command line" if parts else ""
        for end in range(len(keys), 0, -1):
            if keys[:end] in self.overrides:
                return f"from the command line, {self.overrides[keys[:end]]}"
            if keys[:end] in self.lines:
                return f"{self.lines[keys[:end]]}{suffix}"
        return f"{self.path}{suffix}"

    def override(self, text: str) -> Self:
        """A copy with one `dotted.key=value` set.

        Raises:
            ReasonRLError: it is not of that form, its value is no YAML, or a key on its way is no mapping.
        """
        key, sign, value_text = text.partition("=")
        keys: KeyPath = tuple(key.split("."))
        if not sign or not all(keys):
            raise ReasonRLError(f"{text!r} is no override; write key=value, as in algorithm.group_size=16")
        if keys[0] == "extends":
            raise ReasonRLError(
                f"from the command line, {text}: `extends` stands in a file; give the values themselves"
            )
        shown = "…" if yamlerrors.is_credential(str(keys[-1])) else value_text  # messages reach logs
        text = f"{key}={shown}"
        try:
            value = yamltext.parse_value(value_text)
        except ValueError:
            raise ReasonRLError(f"from the command line, {text}: {shown!r} is no YAML value") from None
        untouched = {at: place for at, place in self.lines.items() if at[: len(keys)] != keys}
        others = {at: other for at, other in self.overrides.items() if at[: len(keys)] != keys}
        data = _with_value(self.data, keys, value, text, done=())
        return replace(self, data=data, lines=untouched, overrides=others | {keys: text})

    def over(self, base: "Document") -> "Document":
        """This file's keys over those of the one it extends.

        Mappings merge key by key; lists and values replace, and so does, below the top level, a mapping with another
        `name` (its other keys would mean something else there). null takes away what the base says.
        """
        replaced: list[KeyPath] = []
        data = _merged(base.data, self.data, (), replaced)
        kept = {at: place for at, place in base.lines.items() if not any(at[: len(k)] == k for k in replaced)}
        return Document(self.path, data, kept | self.lines)


def _merged(base: dict[str, Any], own: dict[str, Any], at: KeyPath, replaced: list[KeyPath]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in own.items():
        keys, under = (*at, key), base.get(key)
        if isinstance(under, str) and isinstance(value, dict):
            under = {"name": under}  # `task: gsm8k` is short for it
        if isinstance(under, dict) and isinstance(value, dict) and _of_one_name(under, value):
            merged[key] = _merged(under, value, keys, replaced)
            continue
        replaced.append(keys)
        if value is None and under is not None:
            del merged[key]
        else:  # a null that takes nothing away stays: its key may be misspelt, which the record will say
            merged[key] = value
    return merged


def _of_one_name(base: dict[str, Any], own: dict[str, Any]) -> bool:
    return "name" not in base or "name" not in own or base["name"] == own["name"]


def _with_value(data: dict[str, Any], keys: KeyPath, value: Any, override: str, done: KeyPath) -> dict[str, Any]:
    first, rest = str(keys[0]), keys[1:]
    if not rest:
        return data | {first: value}
    inner = {} if data.get(first) is None else data[first]
    if not isinstance(inner, dict):
        name = ".".join(map(str, (*done, first)))
        kind = "a list; give all of it, as in evaluation.k=[1,4]" if isinstance(inner, list) else "a value without keys"
        raise ReasonRLError(f"from the command line, {override}: {name} is {kind}")
    return data | {first: _with_value(inner, rest, value, override, (*done, first))}
