"""Validation by pydantic without its conversions to numbers and to true or false: `seed: "1"` is a slip."""

from typing import Any

from pydantic_core import PydanticKnownError, core_schema


def strict(schema: Any) -> Any:
    """A core schema that converts to no number, and to no true or false; whole numbers are numbers, and 1e3 is whole.

    pydantic's own strict mode would also refuse a list for a tuple, and a number for a text.
    """
    match schema:
        case {"type": "float" | "bool"}:
            return schema | {"strict": True}
        case {"type": "int"}:
            return core_schema.no_info_before_validator_function(_number, schema)
        case dict():
            return {key: part if key in ("default", "metadata") else strict(part) for key, part in schema.items()}
        case list():
            return [strict(part) for part in schema]
    return schema


def _number(value: Any) -> Any:
    if isinstance(value, str | bool):
        raise PydanticKnownError("int_type")
    return value
