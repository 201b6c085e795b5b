"""What is wrong with a YAML, in a reader's words: pydantic's and PyYAML's errors, told by key."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic_core import ErrorDetails

KeyPath = tuple[str | int, ...]

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"  # of what a folder is named after: it can lead to no other folder

# pydantic's error types → what was expected, where its own words are about Python: another kind of value …
_KINDS = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "keys and values",
    "model_type": "keys and values",
    "model_attributes_type": "keys and values",
}
# … or another value of that kind.
_LIMITS = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "too_short": "a list of at least {min_length}",
    "too_long": "a list of at most {max_length}",
    "string_too_short": "at least {min_length} characters",
    "string_pattern_mismatch": "text of the form {pattern}",
}
_PATTERNS = {
    NAME: "letters, digits, '.', '_' and '-', a letter or digit first (a folder is named after it)",
}

_CREDENTIAL = re.compile(r"(.*_)?(api_?key|password|secret)|((hf|hub|huggingface|auth|access|wandb)_?)?token", re.I)


class Excluding(ValueError):
    """Two keys of a record exclude each other.

    Args:
        text: what is wanted instead.
        keys: the names of both; the fault is told at the one that was given last, which may extend the other's file.
    """

    def __init__(self, text: str, *keys: str) -> None:
        super().__init__(f"{text}; set the other one to null")
        self.keys = keys


def syntax(error: yaml.MarkedYAMLError, path: Path) -> str:
    """A message for a text that is no YAML, or holds a tag that could run code."""
    line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
    problem = error.problem or str(error)
    hint = "; YAML is indented with spaces" if "\\t" in problem else ""
    if isinstance(error, yaml.constructor.ConstructorError) and "tag" in problem:
        hint = "; only plain values are read, no Python objects"
    return f"{path}{line}: not valid YAML: {problem}{hint}"


def message(at: KeyPath, keys: KeyPath, text: str) -> str:
    """The text of a fault, after the full name of its key."""
    name = ".".join(map(str, (*at, *keys)))
    return f"{name}: {text}" if name else text


def faults(model: type[BaseModel], data: Any, errors: Sequence[ErrorDetails]) -> list[tuple[KeyPath, str]]:
    """The keys of pydantic's errors, below `data`, and what is wrong with each.

    Of a value that may be of several kinds pydantic tells what keeps it from being each of them. What counts is the
    kind it is of; where it is of none of them, they are told as one fault.
    """
    placed = [(_keys(data, error["loc"]), error) for error in errors]
    found: list[tuple[KeyPath, str]] = []
    for keys, error in placed:
        if error["type"] not in _KINDS:
            found.append(_fault(model, data, error))
            continue
        of_its_kind = any(at[: len(keys)] == keys and (at != keys or e["type"] not in _KINDS) for at, e in placed)
        if of_its_kind or any(at == keys for at, _ in found):
            continue
        kinds = dict.fromkeys(_KINDS[e["type"]] for at, e in placed if at == keys)
        found.append((keys, f"expected {_choice(list(kinds))}, not {_shown(error['input'])}"))
    return found


def _choice(kinds: Sequence[str]) -> str:
    *others, last = kinds
    return f"{', '.join(others)} or {last}" if others else last


def _keys(data: Any, location: KeyPath) -> KeyPath:
    """The keys of the file in a location of pydantic, which also holds the tag or type of every union it passes."""
    return tuple(key for index, key in enumerate(location) if _present(data, location[:index], key))


def _fault(model: type[BaseModel], data: Any, error: ErrorDetails) -> tuple[KeyPath, str]:
    """The key of an error that is about no kind of value, and what is wrong with it."""
    location, kind = error["loc"], error["type"]
    keys = _keys(data, location)
    if kind == "missing":
        wanted = location[-1]
        return (keys, "too few values") if isinstance(wanted, int) else ((*keys, wanted), "the key is missing")
    if kind == "extra_forbidden":
        known, wrong = _known_keys(model, location[:-1]), str(location[-1])
        hint = _nearest(wrong, known)
        if not hint and is_credential(wrong):
            hint = "; credentials stand in no YAML: libraries read theirs from the environment (the hub: HF_TOKEN)"
        return keys, f"unknown key{hint} (known here: {', '.join(known)})"
    context = error.get("ctx", {})
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        tag = context["discriminator"].strip("'")
        expected = context.get("expected_tags", "")
        given = (
            "the key is missing" if kind == "union_tag_not_found" else f"expected {expected}, not {context['tag']!r}"
        )
        return (*keys, tag), given + _nearest(str(context.get("tag", "")), re.findall("'([^']*)'", expected))
    if kind == "value_error":
        excluding = getattr(context["error"], "keys", ())
        last = [key for key in _at(data, keys) if key in excluding][-1:] if excluding else []
        return (*keys, *last), error["msg"].removeprefix("Value error, ")
    if kind == "literal_error":
        choices = re.findall("'([^']*)'", context["expected"])
        return keys, f"expected {context['expected']}, not {_shown(error['input'])}{_nearest(error['input'], choices)}"
    expected = _PATTERNS.get(context.get("pattern", "")) or _LIMITS.get(kind, "").format(**context)
    expected = expected or error["msg"].removeprefix("Input should be ")
    if expected == error["msg"]:  # of another form, such as "String should match pattern '…'"
        return keys, expected
    return keys, f"expected {expected}, not {_shown(error['input'])}"


def is_credential(key: str) -> bool:
    """Is a key named as one that holds a credential of a library or service?"""
    return _CREDENTIAL.fullmatch(key) is not None


def members(annotation: Any) -> list[Any]:
    """A type and all that it is made of: of `list[int] | None` that, `list[int]`, `int` and `NoneType`."""
    return [annotation, *(inner for part in get_args(annotation) for inner in members(part))]


def _nearest(given: Any, known: list[str]) -> str:
    near = get_close_matches(str(given), known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _shown(value: Any) -> str:
    """A value as the YAML has it."""
    match value:
        case None:
            return "null (nothing)"
        case bool():
            return str(value).lower()
        case dict():
            return "keys and values"
        case list() | tuple():
            return "a list" if len(value) > 8 else str(list(value))
    return repr(value)


def _present(data: Any, parents: KeyPath, key: str | int) -> bool:
    for parent in parents:
        match data, parent:
            case dict(), _ if parent in data:
                data = data[parent]
            case list(), int():
                data = data[parent]
    if isinstance(data, list):
        return isinstance(key, int) and key < len(data)
    return isinstance(data, dict) and key in data


def _at(data: Any, keys: KeyPath) -> Any:
    for key in keys:
        data = data[key]
    return data


def _known_keys(model: type[BaseModel], location: KeyPath) -> list[str]:
    """The keys a model has at a location of pydantic, which holds the tag or type of every union it passes."""
    kinds: list[Any] = [model]
    for key in location:
        kinds = [inner for kind in kinds for inner in _below(kind, key)] or kinds
    fields = [field for kind in kinds if _is_model(kind) for field in kind.model_fields.items()]
    return sorted({field.alias or name for name, field in fields})


def _below(kind: Any, key: str | int) -> list[Any]:
    """The types that a value of a type may have at a key; of a union's tag or type, the member it stands for."""
    origin, arguments = get_origin(kind), get_args(kind)
    if _is_model(kind):
        field = kind.model_fields.get(key)
        tag = kind.model_fields["name"].default if "name" in kind.model_fields else None
        if field is None:
            return [kind] if key in (tag, kind.__name__) else []
        return _choices(field.annotation)
    if origin is dict:
        return _choices(arguments[1])
    if origin in (list, tuple) and isinstance(key, int):
        return [inner for argument in arguments for inner in _choices(argument)]
    return []


def _choices(annotation: Any) -> list[Any]:
    """The members of a union, those of unions in it included; of another type that alone."""
    if get_origin(annotation) in (Union, UnionType, Annotated):
        return [inner for part in get_args(annotation) for inner in _choices(part)]
    return [annotation]


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
