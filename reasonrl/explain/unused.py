"""Keys that a run's other keys leave without effect."""

from functools import reduce
from typing import Any

from reasonrl.config import CriticFreeConfig, OptimizerConfig, PenaltyConfig, PPOConfig, UpdatesConfig
from reasonrl.explain.facts import Facts
from reasonrl.explain.text import shown


def without_effect(facts: Facts) -> dict[str, str]:
    """The keys of the algorithm that change nothing in this run, each with the reason."""
    config = facts.algorithm
    found = _of_kl(facts) | _of_loss(facts)
    if facts.corrects is False:
        found["importance.cap"] = "no token has a weight"
    if isinstance(config, PPOConfig):
        found |= _of_critic(config)
    elif config.advantage != "group_relative":
        found |= dict.fromkeys(("std", "std_epsilon"), f"the advantage {config.advantage} has another scale")
    elif config.std == "none":
        found["std_epsilon"] = "there is no std"
    if isinstance(config, UpdatesConfig):
        found |= _of_optimizer("optimizer", config.optimizer)
        if config.on_policy:
            found["target_kl"] = "the first update of a step is always taken, and there is no other"
    return found


def _of_kl(facts: Facts) -> dict[str, str]:
    config = facts.algorithm.kl
    if not facts.has_reference:
        return dict.fromkeys(("kl.estimator", "kl.place", "kl.target", "kl.horizon"), "there is no KL term, for β = 0")
    return {"kl.horizon": "β stays as it is without kl.target"} if config.target is None else {}


def _of_loss(facts: Facts) -> dict[str, str]:
    config = facts.algorithm
    found = {}
    if isinstance(config, CriticFreeConfig | PPOConfig):
        if config.loss in ("importance_weighted", "penalty"):
            found = dict.fromkeys(("clip_low", "clip_high"), f"the loss {config.loss} has no clip")
        if config.loss != "clip":
            found["dual_clip"] = f"the loss {config.loss} has no such bound"
    if isinstance(config, PPOConfig) and config.loss != "penalty":
        found |= {f"penalty.{key}": f"the loss is {config.loss}" for key in PenaltyConfig.model_fields}
    return found


def _of_critic(config: PPOConfig) -> dict[str, str]:
    if not config.critic.shared:
        found = {"value_coefficient": "the critic is a model of its own"}
        if config.critic.path is None:
            found["critic.revision"] = "critic.path is null"
        return found | _of_optimizer("critic.optimizer", config.critic.optimizer)
    keys = [f"optimizer.{key}" for key in OptimizerConfig.model_fields]
    return {f"critic.{key}": "the critic is trained in the policy's updates" for key in ("revision", *keys)}


def _of_optimizer(prefix: str, config: OptimizerConfig) -> dict[str, str]:
    return {f"{prefix}.final_ratio": "the rate stays constant"} if config.schedule == "constant" else {}


def changed_without_effect(facts: Facts) -> list[str]:
    """Those of them that are not at their default: somebody meant something by them."""
    lines = []
    for key, reason in without_effect(facts).items():
        if not hasattr_at(facts.algorithm, key):
            continue
        value = value_at(facts.algorithm, key)
        if value != default_at(type(facts.algorithm), key):
            lines.append(f"{key} {shown(value)}: {reason}")
    return lines


def hasattr_at(config: Any, key: str) -> bool:
    """Has the record a value at this dotted key?"""
    first, _, rest = key.partition(".")
    return hasattr(config, first) and (not rest or hasattr_at(getattr(config, first), rest))


def value_at(config: Any, key: str) -> Any:
    """The value at a dotted key."""
    return reduce(getattr, key.split("."), config)


def default_at(kind: type[Any], key: str) -> Any:
    """The default of a dotted key in a kind of record."""
    first, _, rest = key.partition(".")
    default = kind.model_fields[first].get_default(call_default_factory=True)
    return value_at(default, rest) if rest else default
