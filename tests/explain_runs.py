"""What tests of `reasonrl explain` share: small runs by algorithm and dotted key, and their sections."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel

from reasonrl import tasks
from reasonrl.config import RunConfig
from reasonrl.config.run import Algorithm
from reasonrl.explain import explain
from reasonrl.tasks import Mixture, Task

KINDS: dict[str, Any] = {kind.model_fields["name"].default: kind for kind in get_args(Algorithm)}
SUPERVISED: dict[str, dict[str, Any]] = {"sft": {"batch_size": 4}, "dpo": {"batch_size": 4, "pairs": ["a.parquet"]}}
SCORERS = {"reward_model": {"pairs": ["a.parquet"]}, "process_reward_model": {"labels": ["a.parquet"]}}
LEARNING = [name for name in KINDS if name not in (*SUPERVISED, *SCORERS, "online_dpo")]  # with advantages
PAPER, NO_EFFECT = "not as in the paper", "no effect"


def run_of(name: str, settings: Mapping[str, Any] | None = None, **others: Any) -> RunConfig:
    """A small run of an algorithm, with settings of it by dotted key, and others of the run."""
    algorithm: dict[str, Any] = {"name": name, "steps": 3} | SUPERVISED.get(name, {"problems_per_step": 4})
    about: dict[str, Any] = {"name": "x", "task": "arithmetic", "model": {"path": "m"}}
    if name in SCORERS:
        algorithm, about["task"] = {"name": name, "steps": 3, "batch_size": 4, **SCORERS[name]}, None
    if "minibatches" in KINDS[name].model_fields:
        algorithm["minibatches"] = 2
    for key, value in (settings or {}).items():
        *way, last = key.split(".")
        at = algorithm
        for part in way:
            at = at.setdefault(part, {})
        at[last] = dict(value) if isinstance(value, dict) else value
    return RunConfig.model_validate(about | {"algorithm": algorithm} | others)


@cache
def task_of(name: str) -> Task | Mixture:
    """A task, loaded once."""
    return tasks.load(name)


def sections_of(run: RunConfig, *, sampler_is_policy: bool | None = None) -> dict[str, str]:
    """The sections by title."""
    task = None if run.task is None else task_of(run.task.name)
    found = explain(run, task, sampler_is_policy=sampler_is_policy)
    return {section.title: "\n".join(section.lines) for section in found}


def keys_of(kind: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every key of a record, and of the records in it, with its type."""
    for name, field in kind.model_fields.items():
        inner = [one for one in (field.annotation, *get_args(field.annotation)) if _is_record(one)]
        if field.annotation not in inner:
            yield f"{prefix}{name}", field.annotation
        for record in inner:
            yield from keys_of(record, f"{prefix}{name}.")


def _is_record(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
