"""The JSON schemas that editors use: they agree with the loader on what is right, and on the slips one makes."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from reasonrl import ReasonRLError, yamlfile
from reasonrl.config import RunConfig
from reasonrl.schema import Kind, json_schema, to_text
from reasonrl.tasks import MixtureConfig, TaskConfig

ROOT = Path(__file__).parents[1]
RUN: dict[str, Any] = {
    "name": "a",
    "task": "gsm8k",
    "model": {"path": "m"},
    "algorithm": {"name": "sft", "steps": 1, "batch_size": 1},
}
TASK: dict[str, Any] = {
    "name": "a",
    "generator": {"name": "chains"},
    "prompt": {"template": "x"},
    "verifiers": [{"name": "exact"}],
}
FILES = {"data_files": {"train": "a.jsonl"}}


def faults(data: dict[str, Any], kind: Kind = "run") -> list[str]:
    return [error.message for error in Draft202012Validator(json_schema(kind)).iter_errors(data)]


@pytest.mark.parametrize(("kind", "file"), [("run", "configs/run.schema.json"), ("task", "tasks/task.schema.json")])
def test_the_shipped_schema_is_up_to_date(kind: Kind, file: str) -> None:
    schema = json_schema(kind)
    Draft202012Validator.check_schema(schema)
    assert (ROOT / file).read_text(encoding="utf-8") == to_text(schema), "say `make schema`"


@pytest.mark.parametrize(
    "change",
    [
        {"task": {"name": "gsm8k", "data_files": {"train": "a.jsonl"}}},
        {"warm_start": None},
        {"algorithm": {"name": "grpo", "steps": 1, "problems_per_step": 2, "group_size": 2, "kl": {"coefficient": 0}}},
        {"model": {"tiny": {"characters": "ab", "hidden_size": 16}}},
        {"evaluation": {"k": [1, 2], "rows": None}},
    ],
)
def test_a_right_run_is_right(change: dict[str, Any]) -> None:
    assert faults(RUN | change) == []


@pytest.mark.parametrize(
    "change",
    [
        {"seeed": 1},
        {"seed": "x"},
        {"seed": None},
        {"name": "a/b"},
        {"task": {"nam": "x"}},
        {"algorithm": {"name": "sft", "steps": 1}},
        {"algorithm": {"name": "sft", "steps": 1, "batch_size": 1, "group_size": 2}},
        {"algorithm": {"name": "grpo", "steps": 1, "problems_per_step": 2, "group_size": 1}},
        {"model": {"tiny": {"characters": "ab", "hidden_size": 9}}},
        {"evaluation": {"k": []}},
    ],
)
def test_a_slip_is_found(change: dict[str, Any]) -> None:
    assert faults(RUN | change) != []


def the_loader_takes(data: dict[str, Any], kind: Kind, folder: Path) -> bool:
    path = folder / "a.yaml"
    path.write_text(yamlfile.dump(data), encoding="utf-8")
    record = RunConfig if kind == "run" else MixtureConfig if "mixture" in data else TaskConfig
    try:
        yamlfile.validate(record, yamlfile.read(path))
    except ReasonRLError:
        return False
    return True


@pytest.mark.parametrize(
    ("kind", "change", "right"),
    [
        ("run", {"name": 5}, True),
        ("run", {"name": True}, False),
        ("run", {"name": "../a"}, False),
        ("run", {"task": 5}, False),
        ("run", {"task": {"name": 5}}, True),
        ("run", {"seed": "1"}, False),
        ("run", {"seed": True}, False),
        ("run", {"seed": 2.0}, True),
        ("run", {"seed": 2.5}, False),
        ("run", {"evaluation": {"k": ["1"]}}, False),
        ("run", {"evaluation": {"k": [True]}}, False),
        ("run", {"evaluation": {"k": 1}}, False),
        ("run", {"sampling": {"temperature": "1.0"}}, False),
        ("run", {"sampling": {"temperature": 1}}, True),
        ("run", {"sampling": {"stop": [""]}}, False),
        ("run", {"sampling": {"stop": ["a", 1]}}, True),
        ("run", {"model": {}}, False),
        ("run", {"model": {"path": "m", "tiny": {"characters": "ab"}}}, False),
        ("run", {"model": {"path": "m", "tiny": None}}, True),
        ("run", {"model": {"path": None}}, False),
        ("run", {"model": {"path": "m", "share_prompt": "yes"}}, False),
        ("run", {"model": {"path": "m", "share_prompt": 1}}, False),
        ("run", {"algorithm": {"steps": 1, "batch_size": 1}}, False),
        ("run", {"algorithm": {"name": "sgd", "steps": 1, "batch_size": 1}}, False),
        ("run", {"algorithm": RUN["algorithm"] | {"optimizer": {"betas": [0, "0.9"]}}}, False),
        ("run", {"warm_start": {"steps": 1, "batch_size": 1}}, True),
        ("task", {"version": 2, "description": 1.5}, True),
        ("task", {"version": False}, False),
        ("task", {"name": "a b"}, False),
        ("task", {"id": 5}, True),
        ("task", {"generator": {"name": "chain"}}, False),
        ("task", {"generator": {"name": "chains", "seed": "0"}}, False),
        ("task", {"generator": None}, False),
        ("task", {"generator": None, "dataset": FILES}, True),
        ("task", {"dataset": FILES}, False),
        ("task", {"generator": None, "dataset": FILES | {"streaming": "yes"}}, False),
        ("task", {"generator": None, "dataset": FILES | {"skip_faulty": 0}}, False),
        ("task", {"generator": None, "dataset": FILES | {"rows": {"train": "5"}}}, False),
        ("task", {"generator": None, "dataset": FILES | {"where": {"a": [1, "b", None], "c": {"not": [1]}}}}, True),
        ("task", {"generator": None, "dataset": FILES | {"where": {"a": {"not": None}}}}, False),
        ("task", {"generator": None, "dataset": FILES | {"where": {"a": {"regex": "b"}}}}, False),
        ("task", {"reference": {}}, False),
        ("task", {"reference": {"column": "a", "template": "b"}}, False),
        ("task", {"reference": {"column": "a", "template": None}}, True),
        ("task", {"reference": {"column": 3}}, True),
        ("task", {"prompt": {"template": "x", "few_shot": {"response": "a"}}}, False),
        ("task", {"prompt": {"template": "x", "few_shot": {"response": "a", "rows": 2}}}, True),
        ("task", {"prompt": {"template": "x", "few_shot": {"response": "a", "rows": 2, "examples": [{}]}}}, False),
        ("task", {"verifiers": [{"name": "exact", "weight": "1"}]}, False),
        ("task", {"verifiers": []}, False),
    ],
)  # fmt: skip
def test_schema_and_loader_are_of_one_mind(kind: Kind, change: dict[str, Any], right: bool, tmp_path: Path) -> None:
    data = (RUN if kind == "run" else TASK) | change
    assert (faults(data, kind) == []) == right
    assert the_loader_takes(data, kind, tmp_path) == right


def test_what_extends_may_leave_out_and_take_away() -> None:
    assert faults({"extends": "base.yaml"}) == []
    assert faults({"extends": "base", "algorithm": {"steps": 3, "kl": {"estimator": None}}, "seed": None}) == []
    assert faults({"extends": "base", "algorithm": {"name": "sft", "batch_size": 3}}) == []
    assert faults({"extends": "base", "task": {"data_files": {"train": "a"}}, "model": {"dtype": "bfloat16"}}) == []
    assert faults({"extends": "base", "seeed": 3}) != []
    assert faults({"extends": "base", "algorithm": {"stepz": 3}}) != []
    assert faults({"extends": "base", "model": {"dtype": "int8"}}) != []
    assert faults({"extends": ["base"]}) != []
    assert faults({"name": "a"}) != []


def test_a_task_and_a_mixture() -> None:
    task = {"name": "a", "generator": {"name": "arithmetic"}, "prompt": {"template": "x"}}
    judge = {"name": "exact", "options": {"ignore_case": True}}
    assert faults(task | {"verifiers": [judge]}, "task") == []
    assert faults(task, "task") != []
    assert faults(task | {"verifiers": [{"weight": 1}]}, "task") != []
    assert faults({"name": "m", "mixture": [{"task": "a", "weight": 2}]}, "task") == []
    assert faults({"name": "m", "mixture": [{"tusk": "a"}]}, "task") != []
    assert faults({"extends": "a", "prompt": {"chat": True}}, "task") == []
    assert faults({"extends": "a", "verifiers": [{"weight": 1}]}, "task") != []  # a list's items are whole


def test_keys_are_described_by_the_docstrings() -> None:
    grpo = json_schema("run")["$defs"]["GRPOConfig"]
    assert grpo["description"].startswith("GRPO (Shao et al. 2024")
    assert "Attributes" not in grpo["description"]
    assert grpo["properties"]["std"]["description"].startswith("what the group's mean-centred rewards are divided by")
    assert grpo["properties"]["clip_high"]["description"].startswith("clip_low, clip_high: the ratio is clipped to")
    assert "title" not in grpo["properties"]["steps"]
    longest = json_schema("run")["$defs"]["TaskRef"]["properties"]["max_prompt_tokens"]["description"]
    assert longest.endswith("the run does not begin.")  # a sentence that goes on over two lines
    assert json.loads(to_text(json_schema("run"))) == json_schema("run")
