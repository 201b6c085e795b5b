"""What is wrong with a YAML, in a reader's words: pydantic's and PyYAML's errors, told by key."""

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel
from pydantic_core import ErrorDetails

KeyPath = tuple[str | int, ...]

# pydantic's error types → what was expected, where its own words are about Python.
_EXPECTED = {
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
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "too_short": "a list of at least {min_length}",
    "too_long": "a list of at most {max_length}",
    "string_too_short": "at least {min_length} characters",
    "string_pattern_mismatch": "text of the form {pattern}",
}

_CREDENTIAL = re.compile(r"(.*_)?(api_?key|password|secret)|((hf|hub|huggingface|auth|access|wandb)_?)?token", re.I)


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


def fault(model: type[BaseModel], data: Any, error: ErrorDetails) -> tuple[KeyPath, str]:
    """The key of one of pydantic's errors, below `data`, and what is wrong with it."""
    location, kind = error["loc"], error["type"]
    # pydantic puts the tag of a discriminated union into the location; it is no key of the file.
    keys = tuple(key for index, key in enumerate(location) if _present(data, location[:index], key))
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
        return keys, error["msg"].removeprefix("Value error, ")
    if kind == "literal_error":
        choices = re.findall("'([^']*)'", context["expected"])
        return keys, f"expected {context['expected']}, not {_shown(error['input'])}{_nearest(error['input'], choices)}"
    expected = _EXPECTED.get(kind, "").format(**context) or error["msg"].removeprefix("Input should be ")
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


def _known_keys(model: type[BaseModel], location: KeyPath) -> list[str]:
    """The keys a model has at a location of pydantic, which holds the tag of every discriminated union it passes."""
    models = [model]
    for key in location:
        if isinstance(key, str):
            tagged = [m for m in models if "name" in m.model_fields and m.model_fields["name"].default == key]
            models = tagged or [m for parent in models if key in parent.model_fields for m in _models(parent, key)]
    return sorted({name for m in models for name in m.model_fields})


def _models(parent: type[BaseModel], key: str) -> list[type[BaseModel]]:
    kinds = members(parent.model_fields[key].annotation)
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
