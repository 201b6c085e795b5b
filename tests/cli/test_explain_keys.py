"""Every key of an algorithm is part of the text of `reasonrl explain`, or is said to have no effect."""

from typing import Any, Literal, get_args, get_origin

import pytest
from explain_runs import KINDS, LEARNING, NO_EFFECT, PAPER, keys_of, run_of, sections_of, task_of

from reasonrl.config import PolicyConfig, RunConfig
from reasonrl.explain.facts import Facts, sampling_of
from reasonrl.explain.text import shown
from reasonrl.explain.unused import without_effect

# Keys that are no part of the objective, whatever they are set to.
SILENT = {
    "micro_batch_tokens": "how much is computed at once; the gradient is the same",
    "packing": "how it is laid out; the gradient is the same",
    "entropy": "whether it is measured beside the loss",
    "evaluate_every": "how often it is measured",
}
# What a key, or all that begin so, need beside them to have an effect.
BESIDE: dict[str, dict[str, Any]] = {
    "std": {"advantage": "group_relative", "std": "population", "group_size": 4},
    "clip": {"loss": "clip"},
    "dual_clip": {"loss": "clip"},
    "kl.": {"kl.coefficient": 0.05},
    "kl.horizon": {"kl.coefficient": 0.05, "kl.target": 0.1},
    "advantage": {"group_size": 4},
    "refills": {"group_size": 4},
    "overlong_buffer": {"margin": 0.2},  # pairs of right and wrong use no rewards
    "process": {"advantage": "group_relative", "group_size": 4, "overlong_buffer": None},
    "process.": {
        "advantage": "group_relative",
        "group_size": 4,
        "overlong_buffer": None,
        "process.steps": "paragraphs",
    },
    "process.separator": {
        "advantage": "group_relative",
        "group_size": 4,
        "overlong_buffer": None,
        "process.steps": "separator",
        "process.separator": "a",
    },
    "process_weight": {},
    "penalty.": {"loss": "penalty"},
    "value_coefficient": {"critic.shared": True},
    "critic.revision": {"critic.path": "v"},
    "optimizer.final_ratio": {"optimizer.schedule": "linear"},
    "critic.optimizer.final_ratio": {"critic.optimizer.schedule": "linear"},
}
# Where another value of the type is not enough.
VALUES: dict[str, Any] = {
    "process": {},
    "problems_per_step": 6,
    "minibatches": 4,
    "dual_clip": 3.5,
    "label_smoothing": 0.1,
    "held_out_files": ["b.parquet"],
}


def objective_of(run: RunConfig) -> dict[str, str]:
    """The sections that say what is optimised, not how that compares."""
    return {title: text for title, text in sections_of(run).items() if title not in (PAPER, NO_EFFECT)}


def other(value: Any, annotation: Any) -> Any:
    """Another value than this, as the type allows."""
    kinds = (annotation, *get_args(annotation))
    choices = [choice for one in kinds if get_origin(one) is Literal for choice in get_args(one)]
    if choices:
        return next(choice for choice in choices if choice != value)
    if isinstance(value, tuple):
        return tuple("other" if isinstance(one, str) else one / 2 for one in value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if float in kinds:
        return value / 2 if value else 0.5
    return "other" if str in kinds else 2


def beside(key: str) -> dict[str, Any]:
    """The settings that the longest entry of BESIDE has for a key."""
    fitting = [start for start in BESIDE if key.startswith(start)]
    return BESIDE[max(fitting, key=len)] if fitting else {}


def value_of(config: Any, key: str) -> Any:
    for part in key.split("."):
        config = None if config is None else getattr(config, part)
    return config


CASES = [(name, key, kind) for name in KINDS for key, kind in keys_of(KINDS[name]) if key != "name"]


@pytest.mark.parametrize(("name", "key", "annotation"), CASES, ids=[f"{name}-{key}" for name, key, _ in CASES])
def test_every_key_of_an_algorithm_is_part_of_the_text(name: str, key: str, annotation: Any) -> None:
    given = {at: value for at, value in beside(key).items() if at.split(".")[0] in KINDS[name].model_fields}
    base = run_of(name, given)
    value = VALUES.get(key, other(value_of(base.algorithm, key), annotation))
    changed = run_of(name, given | {key: value})
    assert value_of(changed.algorithm, key) != value_of(base.algorithm, key)
    assert (objective_of(changed) == objective_of(base)) == (key in SILENT)


@pytest.mark.parametrize("sampler_is_policy", [True, None])
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((name, {}) for name in LEARNING if name != "ppo"),
        ("ppo", {"critic.optimizer.learning_rate": 1e-5}),
        ("grpo", {"std": "none"}),
        ("grpo", {"minibatches": 1}),
        ("grpo", {"kl.coefficient": 0.1}),
        ("ppo", {"loss": "penalty", "critic.optimizer.learning_rate": 1e-5}),
        ("ppo", {"critic.shared": True}),
    ],
)
def test_what_is_said_to_have_no_effect_changes_no_formula(
    name: str, settings: dict[str, Any], sampler_is_policy: bool | None
) -> None:
    run = run_of(name, settings)
    task = task_of("arithmetic")
    assert isinstance(run.algorithm, PolicyConfig)
    facts = Facts(run, run.algorithm, task, sampling_of(task, run), sampler_is_policy)
    kinds = dict(keys_of(KINDS[name]))
    unused = [key for key in without_effect(facts) if key in kinds and key not in ("kl.target", "dual_clip")]
    assert unused
    before = sections_of(run, sampler_is_policy=sampler_is_policy)
    for key in unused:
        value = VALUES.get(key, other(value_of(run.algorithm, key), kinds[key]))
        after = sections_of(run_of(name, settings | {key: value}), sampler_is_policy=sampler_is_policy)
        assert f"{key} {shown(value)}: " in after.pop(NO_EFFECT)
        assert after == {title: text for title, text in before.items() if title != NO_EFFECT}
