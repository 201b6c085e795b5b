"""Heads that a checkpoint has beside its trunk and no class of transformers knows, such as those of process reward
models published with code of their own: linear layers, read from the file without running that code."""

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

from safetensors import safe_open
from torch import Tensor, nn
from transformers.utils import cached_file

from reasonrl.errors import ReasonRLError
from reasonrl.models.load import loading

_INDEX, _WHOLE = "model.safetensors.index.json", "model.safetensors"


def load_linear_head(
    path: str, prefix: str, inputs: int, outputs: int, *, revision: str | None = None, key: str
) -> nn.Sequential:
    """The linear layers whose names begin with a prefix, in order, a ReLU between two of them; in float32.

    `score.weight` is one layer, `score.0.weight` with `score.2.weight` are two (Qwen2.5-Math-PRM), `v_head.summary` is
    that of TRL's value head.

    Args:
        path, revision: a folder or hub id with weights in safetensors.
        prefix: of the names, without the dot behind it.
        inputs, outputs: numbers the first layer must take, and the last one give.
        key: where the path was given, for messages.

    Raises:
        ReasonRLError: there are no such layers, they do not follow one another, or take or give other numbers.
    """
    with loading(path, key) as source:
        weights = dict(_weights(source, revision, prefix))
    names = sorted((name for name in weights if name.endswith(".weight")), key=_numbers)
    if not names:
        raise ReasonRLError(f"{key}: {path} has no weights named {prefix}.…; it was never trained to score steps so")
    layers: list[nn.Module] = []
    for name in names:
        layers += [nn.ReLU(), _linear(weights[name], weights.get(name.removesuffix("weight") + "bias"), name, key)]
    linears = [layer for layer in layers if isinstance(layer, nn.Linear)]
    fits = all(one.out_features == other.in_features for one, other in itertools.pairwise(linears))
    if not fits or (linears[0].in_features, linears[-1].out_features) != (inputs, outputs):
        shapes = ", ".join(f"{name} {tuple(weights[name].shape)}" for name in names)
        raise ReasonRLError(f"{key}: the head of {path} is {shapes}; it must lead from {inputs} numbers to {outputs}")
    return nn.Sequential(*layers[1:]).requires_grad_(False).eval()


def _weights(source: str, revision: str | None, prefix: str) -> Iterator[tuple[str, Tensor]]:
    index = cached_file(source, _INDEX, revision=revision, _raise_exceptions_for_missing_entries=False)
    files = {_WHOLE}
    if index is not None:
        places: dict[str, str] = json.loads(Path(index).read_text(encoding="utf-8"))["weight_map"]
        files = {file for name, file in places.items() if name.startswith(f"{prefix}.")}
    for file in sorted(files):
        with safe_open(cached_file(source, file, revision=revision), framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118  (not a dict)
                if name.startswith(f"{prefix}."):
                    yield name, opened.get_tensor(name)


def _numbers(name: str) -> list[int]:
    """Layers are in the order of the numbers in their names: 10 comes after 2."""
    return [int(number) for number in re.findall(r"[0-9]+", name)]


def _linear(weight: Tensor, bias: Tensor | None, name: str, key: str) -> nn.Linear:
    if weight.dim() != 2:
        raise ReasonRLError(f"{key}: {name} is {tuple(weight.shape)}; only heads of linear layers are known")
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    layer.load_state_dict({"weight": weight.float()} | ({} if bias is None else {"bias": bias.float()}))
    return layer
