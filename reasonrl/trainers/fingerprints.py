"""What a run depends on, in a form that shows whether it is still the same when the run is resumed."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from typing import Any

import torch

from reasonrl.batch import Row
from reasonrl.config import RunConfig
from reasonrl.errors import ReasonRLError
from reasonrl.evaluation.evaluate import Prompted
from reasonrl.rollout.engine import Sampling
from reasonrl.scoring import WeightedVerifier
from reasonrl.trainers.preferences import TokenPair
from reasonrl.trainers.process_reward_model import LabelledIds
from reasonrl.trainers.reward_model import ScoredPair
from reasonrl.types import Problem

# What may change between the two halves of a run: how long it goes on, and what decides how fast or where, not what.
# A guard trains nothing.
# Data files may have moved: what is in them is compared by itself.
_FREE = (
    "algorithm.evaluate_every",
    "algorithm.steps",
    "checkpoint",
    "engine",
    "evaluation.every",
    "guard",
    "name",
    "runs",
    "stall_minutes",
    "task.data_files",
    "threads",
    "verification",
)
_SAMPLED = 256  # numbers of each tensor
_SHOWN = 5


def of_problems(problems: Iterable[Problem]) -> str:
    """A digest of problems, all that a prompt or a verifier may read of them."""
    return _digest((one.task, one.id, one.prompt, one.reference, one.metadata) for one in problems)


def of_prompted(prompted: Iterable[Prompted]) -> str:
    """A digest of problems and of the token ids of their prompts."""
    found = list(prompted)
    return _digest([of_problems(one.problem for one in found), [one.prompt_ids for one in found]])


def of_demonstrations(rows: Iterable[Row]) -> str:
    """A digest of token ids to imitate."""
    return _digest((row.prompt_ids, row.response_ids) for row in rows)


def of_pairs(pairs: Iterable[TokenPair]) -> str:
    """A digest of token ids to prefer and to reject."""
    return _digest((pair.prompt_ids, pair.chosen_ids, pair.rejected_ids) for pair in pairs)


def of_examples(examples: Iterable[ScoredPair | LabelledIds]) -> str:
    """A digest of what a reward model or a process reward model learns from, or is evaluated on."""
    return _digest(astuple(one) for one in examples)


def of_verifiers(verifiers: Sequence[WeightedVerifier], sampling: Sampling) -> dict[str, str]:
    """Who judges, and how responses are sampled, as text: a difference can be shown. Secrets are not in it."""
    judges = [f"{v.task and f'{v.task}: '}{v.weight:g} × {v.name} {v.version} {v.options!r}" for v in verifiers]
    return {"verifiers": "; ".join(judges), "sampling": repr(sampling)}


@torch.no_grad()
def of_model(model: Any) -> str:
    """A digest of some of the numbers of each parameter, since all of them would take long."""
    found = hashlib.blake2b(digest_size=16)
    for name, parameter in model.named_parameters():
        flat = parameter.detach().flatten()
        some = flat[:: max(1, len(flat) // _SAMPLED)].float().cpu()
        found.update(f"{name} {tuple(parameter.shape)} {parameter.dtype}".encode())
        found.update(some.numpy().tobytes())
    return found.hexdigest()


def check_config(saved: Mapping[str, Any], config: RunConfig) -> None:
    """May a run that began with one config go on with another?

    Raises:
        ReasonRLError: it may not; names each key with both values.
    """
    before, now = _flat(saved), _flat(config.model_dump(mode="json"))
    keys = [key for key in {**before, **now} if before.get(key) != now.get(key) and not _is_free(key)]
    if keys:
        differences = [f"{key} was {_shown(before, key)}, is {_shown(now, key)}" for key in keys[:_SHOWN]]
        more = f"; and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
        raise ReasonRLError(
            f"this run cannot be resumed with another config: {'; '.join(differences)}{more}. Take these back, or "
            f"start another run without --resume. What may change: {', '.join(_FREE)}"
        )


def check_fingerprints(saved: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Is what a run depends on still what it was?

    Raises:
        ReasonRLError: it is not; says what differs.
    """
    for name in saved.keys() | now.keys():
        if saved.get(name) != now.get(name):
            raise ReasonRLError(
                f"this run cannot be resumed: the {name} are not those it began with (were {saved.get(name)}, are "
                f"{now.get(name)}). Bring them back, or start another run without --resume"
            )


def _is_free(key: str) -> bool:
    return any(key == free or key.startswith(f"{free}.") for free in _FREE)


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= (
            _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) and value else {f"{prefix}{name}": value}
        )
    return found


def _shown(values: Mapping[str, Any], key: str) -> str:
    return json.dumps(values[key], ensure_ascii=False) if key in values else "not given"


def _digest(values: Iterable[Any]) -> str:
    found = hashlib.blake2b(digest_size=16)
    for value in values:
        found.update(json.dumps(value, default=repr, sort_keys=True).encode())
        found.update(b"\n")
    return found.hexdigest()
