"""`${NAME}` in a YAML: secrets come from environment variables, everything else stands in the file.

A secret in a file is soon in a repository and in every stored run; any other value in a variable would make a run
depend on what no file of it shows. So an option of type `SecretStr` must be `${NAME}`, and nothing else may be.
"""

import os
import re
from typing import Any

from pydantic import BaseModel, SecretStr

from reasonrl import yamlerrors
from reasonrl.yamlerrors import KeyPath

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

Fault = tuple[KeyPath, str]


def fill_secrets(model: type[BaseModel], data: Any) -> tuple[Any, list[Fault]]:
    """A model's data with its secrets taken from the environment; and what is wrong, by key.

    A value that the model leaves to others (of type Any) or does not know is returned as it is.
    """
    faults: list[Fault] = []
    return _filled([model], data, (), faults), faults


def _filled(kinds: list[Any], value: Any, keys: KeyPath, faults: list[Fault]) -> Any:
    """`kinds`: every type that the value's annotation is made of."""
    if isinstance(value, dict):
        return {key: _filled(_kinds_at(kinds, key), inner, (*keys, key), faults) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(kinds, inner, (*keys, index), faults) for index, inner in enumerate(value)]
    variable = _VARIABLE.fullmatch(value) if isinstance(value, str) else None
    if SecretStr in kinds and value is not None:
        return _secret(variable[1] if variable else None, keys, faults)
    if variable and kinds and Any not in kinds:
        text = "environment variables are for secrets only; write the value, or give it on the command line, key=value"
        faults.append((keys, f"{value}: {text}"))
    return value


def _secret(name: str | None, keys: KeyPath, faults: list[Fault]) -> SecretStr:
    found = os.environ.get(name, "") if name else ""
    if name is None:
        text = "a secret is not written into a YAML, which is shared and stored with runs; write ${NAME} and set the "
        faults.append((keys, text + "environment variable NAME"))
    elif not found:
        faults.append((keys, f"the environment variable {name} is not set; say export {name}=… before the command"))
    # As a SecretStr from here on: pydantic's errors and every repr show asterisks.
    return SecretStr(found)


def _kinds_at(kinds: list[Any], key: str) -> list[Any]:
    models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
    if not models:  # of a dict: the type of its values is one of these
        return kinds
    fields = [model.model_fields[key] for model in models if key in model.model_fields]
    return [kind for field in fields for kind in yamlerrors.members(field.annotation)]
