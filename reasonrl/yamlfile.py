"""Users' YAML: read safely and strictly, changed from the command line, validated into records.

Every error names the file and line, or the override, it comes from, the key, what was expected, and the nearest known
name.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from reasonrl import yamlerrors
from reasonrl.errors import ReasonRLError
from reasonrl.yamlerrors import KeyPath

Model = TypeVar("Model", bound=BaseModel)


class Record(BaseModel):
    """A part of a YAML: unknown keys, infinite numbers and a true or false where a number belongs are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, coerce_numbers_to_str=True)

    @model_validator(mode="before")
    @classmethod
    def _true_is_no_number(cls, data: Any) -> Any:
        # pydantic takes true for 1, but `seed: true` is a slip. As text it is refused, with the key it stands at.
        if not isinstance(data, dict):
            return data
        return {k: str(v).lower() if isinstance(v, bool) and cls._is_number(k) else v for k, v in data.items()}

    @classmethod
    def _is_number(cls, key: str) -> bool:
        annotation = cls.model_fields[key].annotation if key in cls.model_fields else None
        kinds = {annotation, *get_args(annotation)}
        return bool(kinds & {int, float}) and bool not in kinds


class _Loader(yaml.SafeLoader):
    """Plain scalars as in YAML 1.2: `no` is text, 1e-3 is a number, 010 is not eight, 12:30 and dates are text."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  PyYAML looks it up on the class


class _Dumper(yaml.SafeDumper):
    """Quotes what either YAML 1.1 or 1.2 would read as something else than text."""


_SCALARS = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?(0|[1-9][0-9]*)|0x[0-9a-fA-F]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
    "merge": r"<<",
}
for _kind, _regex in _SCALARS.items():
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(rf"^(?:{_regex})$"), None)


@dataclass(frozen=True)
class Document:
    """A YAML mapping, and where each of its keys comes from.

    Attributes:
        path: the file.
        data: what it holds, overrides included.
        lines: the line (1-based) of every key that the file still decides.
        overrides: the command-line text of every key set there.
    """

    path: Path
    data: dict[str, Any]
    lines: dict[KeyPath, int]
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
                return f"{self.path}:{self.lines[keys[:end]]}{suffix}"
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
        try:
            value = yaml.load(value_text, _Loader)
        except (yaml.YAMLError, RecursionError):
            raise ReasonRLError(f"from the command line, {text}: {value_text!r} is no YAML value") from None
        untouched = {at: line for at, line in self.lines.items() if at[: len(keys)] != keys}
        others = {at: other for at, other in self.overrides.items() if at[: len(keys)] != keys}
        data = _with_value(self.data, keys, value, text, done=())
        return replace(self, data=data, lines=untouched, overrides=others | {keys: text})


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


def find(name: str, kind: str, folders: Sequence[Path]) -> Path:
    """The YAML called `name` in one of the folders (`debug/x` for debug/x.yaml), or else the file at that path.

    Args:
        name: as the user gives it.
        kind: what it is, for messages: "task" or "run".
        folders: where those with a name are.

    Raises:
        ReasonRLError: there is none (those there are, are listed), or two folders have one of that name.
    """
    known: dict[str, list[Path]] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*.yaml")):
            known.setdefault(path.relative_to(folder).with_suffix("").as_posix(), []).append(path)
    if len(known.get(name, [])) > 1:
        raise ReasonRLError(f"two {kind}s are named {name}: {' and '.join(map(str, known[name]))}; give a path")
    if name in known:
        return known[name][0]
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    near = get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ";"
    raise ReasonRLError(
        f"no {kind} is named {name!r}{hint} there are: {', '.join(sorted(known))}; or give the path of a .yaml file"
    )


def read(path: Path) -> Document:
    """Read one YAML mapping.

    Raises:
        ReasonRLError: the file cannot be read, is no YAML (a tab, an unsafe tag), is no mapping or repeats a key.
    """
    try:
        loader = _Loader(path.read_text(encoding="utf-8"))
        node = loader.get_single_node()
        lines = dict(_lines(node, (), path))
        data = None if node is None else loader.construct_document(node)
    except OSError as error:
        raise ReasonRLError(f"{path}: cannot be read: {error.strerror}") from None
    except yaml.MarkedYAMLError as error:
        raise ReasonRLError(yamlerrors.syntax(error, path)) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ReasonRLError(f"{path}: not valid YAML: {error}") from None
    except RecursionError:
        raise ReasonRLError(f"{path}: not valid YAML: nested too deeply, or an anchor that holds itself") from None
    if not isinstance(data, dict):
        found = "a list" if isinstance(data, list) else "one value"
        raise ReasonRLError(
            f"{path}: expected keys and values, {'the file is empty' if data is None else f'not {found}'}"
        )
    return Document(path, data, lines)


def _lines(node: yaml.Node | None, at: KeyPath, path: Path) -> Iterator[tuple[KeyPath, int]]:
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.tag not in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"):
                shown = key.value if isinstance(key, yaml.ScalarNode) else "a list or mapping"
                raise ReasonRLError(f"{path}:{line}: a key must be text, not {shown}; write it in quotes")
            if key.value in seen:
                raise ReasonRLError(f"{path}:{line}: the key {key.value!r} stands on line {seen[key.value]} already")
            seen[key.value] = line
            yield (*at, key.value), line
            yield from _lines(value, (*at, key.value), path)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield (*at, index), value.start_mark.line + 1
            yield from _lines(value, (*at, index), path)


def validate(model: type[Model], document: Document, at: KeyPath = ()) -> Model:
    """The document, or what it holds at the keys `at` (nothing: an empty mapping), as a typed record.

    Raises:
        ReasonRLError: one line per fault: where it comes from, key, what was expected, and the nearest known key.
    """
    data: Any = document.data
    for key in at:
        data = data.get(key, {}) if isinstance(data, dict) else data[key]
    try:
        return model.model_validate(data)
    except ValidationError as error:
        faults = [yamlerrors.fault(model, data, one) for one in error.errors()]
        raise ReasonRLError(
            "\n".join(f"{document.place((*at, *keys))}: {yamlerrors.message(at, keys, text)}" for keys, text in faults)
        ) from None


def dump(data: dict[str, Any]) -> str:
    """YAML text that `read` reads back as it was."""
    # Characters beyond ASCII are escaped: written as they are, PyYAML changes some of them (U+0085) on the way back.
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False)
