"""What a trainer changes from step to step: as JSON and tensors for a checkpoint, and back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from reasonrl.checkpoint import randomness
from reasonrl.checkpoint.folder import Place
from reasonrl.errors import ReasonRLError
from reasonrl.trainers.coefficients import Coefficient
from reasonrl.trainers.session import Session


@dataclass(frozen=True)
class Trained:
    """What a phase changes from step to step, by name.

    Attributes:
        sessions: each with what it trains, its optimiser and its place in the schedule.
        coefficients: those that may adapt.
        data: a digest of what the steps up to one have been given.
    """

    sessions: Mapping[str, Session]
    coefficients: Mapping[str, Coefficient] = field(default_factory=dict)
    data: Callable[[int], str] = lambda step: ""


Random = tuple[dict[str, Any], dict[str, Tensor]]


def held(trained: Trained, step: int, randoms: Sequence[Random]) -> tuple[dict[str, Any], dict[str, dict[str, Tensor]]]:
    """What a checkpoint holds of a trainer: what is JSON of it, and groups of tensors.

    Args:
        trained: what it changes.
        step: the last one.
        randoms: the generators of every process.
    """
    tensors: dict[str, dict[str, Tensor]] = {}
    for name, session in trained.sessions.items():
        tensors[name] = dict(zip(session.names, session.parameters, strict=True))
        tensors[f"{name}-optimizer"] = moments(session)
    tensors["random"] = {f"{rank}.{key}": one for rank, (_, parts) in enumerate(randoms) for key, one in parts.items()}
    return {
        "sessions": {
            name: {"done": one.done, "skipped": one.skipped, "skipped_in_a_row": one.skipped_in_a_row}
            for name, one in trained.sessions.items()
        },
        "coefficients": {name: one.value for name, one in trained.coefficients.items()},
        "data": trained.data(step),
        "random": [numbers for numbers, _ in randoms],
    }, tensors


def restore(trained: Trained, place: Place, rank: int) -> None:
    """Bring back what a checkpoint holds of a trainer.

    Raises:
        ReasonRLError: the checkpoint is damaged, or of another model or other data.
    """
    state = place.state
    if state["data"] != trained.data(place.step):
        raise ReasonRLError(
            f"this run cannot be resumed: the training data up to step {place.step} of {place.phase} is not what it "
            "was. Bring it back, or start another run without --resume"
        )
    for name, session in trained.sessions.items():
        restore_session(session, place, name, state["sessions"][name])
    for name, coefficient in trained.coefficients.items():
        coefficient.value = state["coefficients"][name]
    if rank < len(state["random"]):  # with more processes than before, the others begin with the seed
        own = {key.partition(".")[2]: one for key, one in place.tensors("random").items() if key.startswith(f"{rank}.")}
        randomness.restore(state["random"][rank], own)


def moments(session: Session) -> dict[str, Tensor]:
    """The optimiser's numbers for each parameter, by its name; none before the first update."""
    found = session.optimizer.state_dict()["state"]
    return {f"{session.names[at]}.{key}": one for at, kept in found.items() for key, one in kept.items()}


def restore_session(session: Session, place: Place, name: str, counters: Mapping[str, int]) -> None:
    """Set a session's parameters, its optimiser and its counters to what a checkpoint holds."""
    weights, kept = place.tensors(name), place.tensors(f"{name}-optimizer")
    shapes = {key: tensor.shape for key, tensor in weights.items()}
    expected = {key: p.shape for key, p in zip(session.names, session.parameters, strict=True)}
    if shapes != expected:
        differing = sorted(key for key in {**shapes, **expected} if shapes.get(key) != expected.get(key))
        raise ReasonRLError(f"{place.path}: {name} has other parameters than the model, as {differing[0]}")
    by_name: dict[str, dict[str, Tensor]] = {}
    for key, tensor in kept.items():
        parameter, _, part = key.rpartition(".")
        by_name.setdefault(parameter, {})[part] = tensor
    for key, parameter in zip(session.names, session.parameters, strict=True):
        parameter.data.copy_(weights[key])
    groups = session.optimizer.state_dict()["param_groups"]
    indexed = {index: by_name[key] for index, key in enumerate(session.names) if key in by_name}
    session.optimizer.load_state_dict({"state": indexed, "param_groups": groups})
    session.done, session.skipped = counters["done"], counters["skipped"]
    session.skipped_in_a_row = counters["skipped_in_a_row"]
