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
        self._laid_out = False

    def write(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Copy the weights into the memory, each before the next is asked for.

        Raises:
            ValueError: names or shapes are not those of the first write; names the first that differs. What came
                before it has been copied by then.
            OSError: shared memory is full.
        """
        if not self._laid_out:
            self.tensors = []
        given = 0
        for at, (name, tensor) in enumerate(weights):
            given += 1
            if not self._laid_out:
                self._append(name, tensor)
            if at < len(self.tensors):
                self._copy(self.tensors[at], name, tensor)
        if given != len(self.tensors):
            raise ValueError(f"a sync brings {given} weights where the first one brought {len(self.tensors)}")
        self._laid_out = True

    def close(self) -> None:
        """Give the memory back. Safe to call twice."""
        self._map = None  # unmapped with the last tensor over it
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            if sys.platform != "linux":
                self.path.unlink(missing_ok=True)

    def _append(self, name: str, tensor: Tensor) -> None:
        """Make room for a tensor behind those there are."""
        last = self.tensors[-1] if self.tensors else None
        offset = 0 if last is None else _aligned(last.offset + last.count * getattr(torch, last.dtype).itemsize)
        dtype = self._dtype if tensor.is_floating_point() else tensor.dtype
        shape = tuple(tensor.shape)
        self.tensors.append(SharedTensor(name, str(dtype).removeprefix("torch."), shape, tensor.numel(), offset))
        size = max(1, tensor.numel() * dtype.itemsize)
        os.posix_fallocate(self._descriptor, offset, size)  # now, rather than a bus error on the first touch
        self._map = mmap.mmap(self._descriptor, offset + size)

    @torch.no_grad()
    def _copy(self, one: SharedTensor, name: str, tensor: Tensor) -> None:
        shape = tuple(tensor.shape)
        if (one.name, one.shape) != (name, shape):
            raise ValueError(f"a sync brings {name} {shape} where the first one brought {one.name} {one.shape}")
        assert self._map is not None
        into = torch.frombuffer(self._map, dtype=getattr(torch, one.dtype), count=one.count, offset=one.offset)
        into.copy_(tensor.detach().reshape(-1))


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT
