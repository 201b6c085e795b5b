"""Weights handed to another process through shared memory: copied once a sync, never to a disk."""

import mmap
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from reasonrl.rollout.messages import SharedTensor

_ALIGNMENT = 64  # bytes


class SharedWeights:
    """Memory that holds a model's weights, laid out at the first write.

    On Linux it is a file without a name, which is gone with the processes that have it open, however they end.

    Args:
        dtype: what floating-point weights are stored as.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self.tensors: list[SharedTensor] = []
        if sys.platform == "linux":
            self._descriptor = os.memfd_create("reasonrl-weights")
            self.path = Path(f"/proc/{os.getpid()}/fd/{self._descriptor}")
        else:
            self._descriptor, name = tempfile.mkstemp(prefix="reasonrl-weights-")
            self.path = Path(name)
        self._map: mmap.mmap | None = None

    def write(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Copy the weights into the memory.

        Raises:
            ValueError: names or shapes are not those of the first write; names the first that differs.
            OSError: shared memory is full.
        """
        given = list(weights)
        if self._map is None:
            self._lay_out(given)
        if difference := _difference([(one.name, one.shape) for one in self.tensors], given):
            raise ValueError(difference)
        assert self._map is not None
        with torch.no_grad():
            for one, (_, tensor) in zip(self.tensors, given, strict=True):
                dtype = getattr(torch, one.dtype)
                into = torch.frombuffer(self._map, dtype=dtype, count=one.count, offset=one.offset)
                into.copy_(tensor.detach().reshape(-1))

    def close(self) -> None:
        """Give the memory back. Safe to call twice."""
        self._map = None  # unmapped with the last tensor over it
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            if sys.platform != "linux":
                self.path.unlink(missing_ok=True)

    def _lay_out(self, weights: list[tuple[str, Tensor]]) -> None:
        offset = 0
        for name, tensor in weights:
            dtype = self._dtype if tensor.is_floating_point() else tensor.dtype
            shape = tuple(tensor.shape)
            self.tensors.append(SharedTensor(name, str(dtype).removeprefix("torch."), shape, tensor.numel(), offset))
            offset += -(-tensor.numel() * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        os.posix_fallocate(self._descriptor, 0, max(offset, 1))  # now, rather than a bus error on the first touch
        self._map = mmap.mmap(self._descriptor, max(offset, 1))


def _difference(expected: list[tuple[str, tuple[int, ...]]], given: list[tuple[str, Tensor]]) -> str | None:
    found = [(name, tuple(tensor.shape)) for name, tensor in given]
    for wanted, got in zip(expected, found, strict=False):
        if wanted != got:
            return f"a sync brings {got[0]} {got[1]} where the first one brought {wanted[0]} {wanted[1]}"
    if len(expected) != len(found):
        return f"a sync brings {len(found)} weights where the first one brought {len(expected)}"
    return None
