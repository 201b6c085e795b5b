"""JSON schemas of the YAMLs, for editors: made from the records, described by their docstrings."""

import inspect
import json
import re
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from reasonrl.config import RunConfig
from reasonrl.tasks import MixtureConfig, TaskConfig
from reasonrl.yamlfile import Record

Kind = Literal["run", "task"]

_RECORDS: dict[Kind, tuple[type[BaseModel], ...]] = {"run": (RunConfig,), "task": (TaskConfig, MixtureConfig)}
_ENTRY = re.compile(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n {8,}.*)*)", re.MULTILINE)


def json_schema(kind: Kind) -> dict[str, Any]:
    """The schema (draft 2020-12) of a run YAML or a task YAML.

    A file that `extends` another may leave out any key and take away any value. Limits that depend on other keys, and
    the options of verifiers, only the loader checks.
    """
    records = _RECORDS[kind]
    _, made = models_json_schema([(record, "validation") for record in records], schema_generator=_Described)
    full = made["$defs"]
    changes = {f"{name}Changes": _changes(schema) for name, schema in full.items()}
    base = {"type": "string", "description": f"The {kind} this one changes: a path relative to this file, or a name."}
    for record in records:
        changes[f"{record.__name__}Changes"]["properties"]["extends"] = base
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A {kind} YAML of reasonrl",
        "type": "object",
        "properties": {"extends": base},
        "if": {"required": ["extends"]},
        "then": _chosen(kind, "Changes"),
        "else": _chosen(kind, ""),
        "$defs": full | changes,
    }


def to_text(schema: dict[str, Any]) -> str:
    """The text of a schema file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _chosen(kind: Kind, suffix: str) -> dict[str, Any]:
    record, *others = ({"$ref": f"#/$defs/{record.__name__}{suffix}"} for record in _RECORDS[kind])
    return {"if": {"required": ["mixture"]}, "then": others[0], "else": record} if others else record


def _changes(schema: JsonSchemaValue) -> JsonSchemaValue:
    """What a file may state over the one it extends: any part of it, and null; an item of a list is always whole."""
    made = {key: part for key, part in schema.items() if key not in ("required", "default", "discriminator", "oneOf")}
    if "properties" in made:  # which of them are needed, the whole decides
        made["properties"] = {name: _or_null(_changes(part)) for name, part in made["properties"].items()}
        return made
    if "$ref" in made:
        made["$ref"] += "Changes"
    if choices := schema.get("oneOf", schema.get("anyOf")):
        made["anyOf"] = [_changes(choice) for choice in choices]
    return made


def _or_null(schema: JsonSchemaValue) -> JsonSchemaValue:
    choices = schema.pop("anyOf", None)
    if choices is None:
        about = {key: schema.pop(key) for key in ("description", "title") if key in schema}
        return about | {"anyOf": [schema, {"type": "null"}]}
    null = {"type": "null"}
    return schema | {"anyOf": [*choices, *([] if null in choices else [null])]}


class _Described(GenerateJsonSchema):
    """Descriptions of keys are the sentences under `Attributes:`; the titles pydantic makes of their names say less."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def str_schema(self, schema: core_schema.StringSchema) -> JsonSchemaValue:
        return super().str_schema(schema) | {"type": ["string", "number"]}  # the loader takes a number for a text

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        return super().tagged_union_schema(schema) | {"required": [schema["discriminator"]]}

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        for cls in schema["cls"].__mro__:  # a record describes what it adds; its bases describe the rest
            if not issubclass(cls, Record) or cls is Record:
                continue
            summary, _, attributes = inspect.cleandoc(cls.__doc__ or "").partition("\n\nAttributes:\n")
            if summary and cls is schema["cls"]:
                made["description"] = " ".join(summary.split())
            for names, text in _ENTRY.findall(attributes):
                meaning = " ".join(text.split())
                for name in names.split(", "):
                    if name in made["properties"]:
                        about = f"{names}: {meaning}" if "," in names else meaning
                        made["properties"][name].setdefault("description", about)
        return made
