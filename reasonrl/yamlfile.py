"""Users' YAML: found by name, read strictly, changed from the command line, validated into records.

Every error names the file and line, or the override, it comes from, the key, what was expected, and the nearest known
name.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, ValidationError
from pydantic.config import JsonDict
from pydantic_core import CoreSchema

from reasonrl import environment, yamlerrors, yamltext
from reasonrl.errors import ReasonRLError
from reasonrl.strictness import strict
from reasonrl.yamldocument import Document, Place
from reasonrl.yamlerrors import Excluding, KeyPath

__all__ = ["Document", "Excluding", "Name", "Record", "dump", "find", "one_of", "read", "read_extended", "validate"]

Model = TypeVar("Model", bound=BaseModel)
Name = Annotated[str, Field(pattern=yamlerrors.NAME)]


class Record(BaseModel):
    """A part of a YAML: unknown keys and infinite numbers are errors.

    A number is taken for a text, but no text for a number, nor for true or false, nor one of these for the other.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, coerce_numbers_to_str=True)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[BaseModel], handler: GetCoreSchemaHandler) -> CoreSchema:
        """As pydantic makes it, but strict where it would convert."""
        made: CoreSchema = strict(handler.resolve_ref_schema(handler(source)))
        return made


def one_of(*keys: str) -> JsonDict:
    """What a JSON schema says of a record that has exactly one of these keys: its `json_schema_extra`."""
    return {"oneOf": [{"required": [key], "properties": {key: {"not": {"type": "null"}}}} for key in keys]}


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
    """Read one YAML mapping; `extends` is a key like any other.

    Raises:
        ReasonRLError: the file cannot be read, is no YAML (a tab, an unsafe tag), is no mapping or repeats a key.
    """
    data, lines = yamltext.read_mapping(path)
    return Document(path, data, {at: Place(path, line) for at, line in lines.items()})


def read_extended(path: Path, kind: str, folders: Sequence[Path]) -> Document:
    """Read one YAML mapping over the one that its `extends` names, if it has one, which may extend another.

    Args:
        path: the file.
        kind: "task" or "run", for messages.
        folders: where those with a name are; a base is one of them by name, or a path relative to the file.

    Raises:
        ReasonRLError: as of `read`; there is no such base; or the files extend each other in a circle.
    """
    chain = [read(path)]
    while "extends" in chain[-1].data:
        base = _base(chain[-1], kind, folders)
        paths = [document.path for document in chain]
        if base.resolve() in [one.resolve() for one in paths]:
            circle = " → ".join(map(str, [*paths, base]))
            raise ReasonRLError(f"{chain[-1].place(('extends',))}: extends: the files go in a circle: {circle}")
        chain.append(read(base))
    document = chain.pop()
    while chain:
        document = _without_extends(chain.pop()).over(document)
    return document


def _base(document: Document, kind: str, folders: Sequence[Path]) -> Path:
    place, name = document.place(("extends",)), document.data["extends"]
    if not isinstance(name, str):
        raise ReasonRLError(f"{place}: extends: expected the path of a YAML, or the name of a bundled {kind}")
    try:
        path = document.path.parent / find(name, kind, folders)
    except ReasonRLError as error:
        raise ReasonRLError(f"{place}: extends: {error}") from None
    if not path.is_file():
        raise ReasonRLError(f"{place}: extends: there is no file {path}; a path is relative to the file it stands in")
    return path


def _without_extends(document: Document) -> Document:
    data = {key: value for key, value in document.data.items() if key != "extends"}
    return Document(document.path, data, {at: place for at, place in document.lines.items() if at != ("extends",)})


def validate(model: type[Model], document: Document, at: KeyPath = ()) -> Model:
    """The document, or what it holds at the keys `at` (nothing: an empty mapping), as a typed record.

    Its secrets are taken from the environment.

    Raises:
        ReasonRLError: one line per fault: where it comes from, key, what was expected, and the nearest known key.
    """
    data: Any = document.data
    for key in at:
        data = data.get(key, {}) if isinstance(data, dict) else data[key]
    data, faults = environment.fill_secrets(model, data)
    if not faults:
        try:
            return model.model_validate(data)
        except ValidationError as error:
            faults = yamlerrors.faults(model, data, error.errors())
    raise ReasonRLError(
        "\n".join(f"{document.place((*at, *keys))}: {yamlerrors.message(at, keys, text)}" for keys, text in faults)
    )


def dump(data: dict[str, Any]) -> str:
    """YAML text that `read` reads back as it was."""
    return yamltext.dump(data)
