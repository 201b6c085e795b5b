"""YAML text ↔ plain values: read safely, scalars as in YAML 1.2, with the line of every key."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from reasonrl import yamlerrors
from reasonrl.errors import ReasonRLError
from reasonrl.yamlerrors import KeyPath


class _Loader(yaml.SafeLoader):
    """Plain scalars as in YAML 1.2: `no` is text, 1e-3 is a number, 010 is not eight, 12:30 and dates are text."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  PyYAML looks it up on the class


class _Dumper(yaml.SafeDumper):
    """Quotes what either YAML 1.1 or 1.2 would read as something else than text."""


_MOST_REPEATED = 100_000  # values that aliases may add to those written

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


def read_mapping(path: Path) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """One YAML mapping, and the line (1-based) of each of its keys and list items.

    Raises:
        ReasonRLError: the file cannot be read, is no YAML (a tab, an unsafe tag), is no mapping, repeats a key, or has
            aliases within each other that multiply to more than could be meant.
    """
    try:
        loader = _Loader(path.read_text(encoding="utf-8"))
        node = loader.get_single_node()
        _check_aliases(node)
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
    return data, lines


def _check_aliases(root: yaml.Node | None) -> None:
    """Refuse a few lines of anchors and aliases that stand for millions of values (a "billion laughs" bomb)."""
    sizes: dict[int, int] = {}  # of each node as written out, by its identity: a node with an alias is measured once

    def size(node: yaml.Node) -> int:
        if id(node) not in sizes:
            parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
            inner = 0 if isinstance(node, yaml.ScalarNode) else sum(map(size, parts))
            if inner - len(sizes) > _MOST_REPEATED:  # at most len(sizes) of them are written
                problem = f"aliases (*name) in it repeat more than {_MOST_REPEATED:,} values"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
            sizes[id(node)] = inner + 1
        return sizes[id(node)]

    if root is not None:
        size(root)


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


def parse_value(text: str) -> Any:
    """One value, as the right-hand side of an override.

    Raises:
        ValueError: it is no YAML, holds an unsafe tag, or aliases that multiply to more than could be meant.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        _check_aliases(node)
        return None if node is None else loader.construct_document(node)
    except (yaml.YAMLError, RecursionError):
        raise ValueError("no YAML value") from None


def dump(data: dict[str, Any]) -> str:
    """YAML text that `read_mapping` reads back as it was."""
    # Characters beyond ASCII are escaped: written as they are, PyYAML changes some of them (U+0085) on the way back.
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False)
