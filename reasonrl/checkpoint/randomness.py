"""The state of every random generator of a process: Python's, numpy's, torch's. None of it is a pickle."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor


def state() -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What is JSON of it, and torch's part: bytes for the CPU and for each GPU."""
    kind, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)
    numbers = {
        "python": random.getstate(),
        "numpy": [kind, np.asarray(keys).tolist(), int(position), int(has_gauss), float(gauss)],
    }
    tensors = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors |= {f"cuda{index}": one for index, one in enumerate(torch.cuda.get_rng_state_all())}
    return numbers, tensors


def restore(numbers: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Set all generators to what `state` gave."""
    version, internal, gauss = numbers["python"]
    random.setstate((version, tuple(internal), gauss))
    kind, keys, *rest = numbers["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(tensors["cpu"])
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        if f"cuda{index}" in tensors:
            torch.cuda.set_rng_state(tensors[f"cuda{index}"], index)
