"""The KV cache that decoding writes in place: one copy a token, not a copy of everything that came before.

transformers' DynamicLayer concatenates at every step, so that n tokens cost O(n²) copies, and gathers all rows to drop
one. Here positions are reserved in blocks, and rows that stay where they are are not moved.
"""

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicLayer

BLOCK = 64  # positions reserved at least, when a layer has to grow
# Up to so many numbers per head (positions × width), on CPU, a layer is laid out position by position and attention
# is a handful of pointwise operations (`rollout.attention`): 1.2 × the tokens per second of a 1 M-parameter model.
# At twice as many, sdpa's kernel on rows is as fast; for long responses it is several times faster.
FEW = 1536


class GrowingLayer(DynamicLayer):  # type: ignore[misc]  # transformers is not typed
    """Keys and values of one attention layer. `keys` and `values` are views (B, heads, length, width) of its buffers.

    Args:
        keys, values: (Q, heads, length, width), of the prompts.
        index: (B,), the prompt of each row.
        limit: no row will have more positions than this, so none are reserved beyond.
    """

    def __init__(self, keys: Tensor, values: Tensor, index: Tensor, limit: int) -> None:
        super().__init__()
        self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True
        self.limit = limit
        self.rows, self.length = len(index), keys.shape[-2]
        full = keys.dtype in (torch.float32, torch.float64)
        self.by_position = full and keys.device.type == "cpu" and limit * keys.shape[-1] <= FEW
        self._buffers = [self._reserve(part[index]) for part in (keys, values)]
        self._show()

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append the states of new positions; keys and values of all positions so far."""
        start = self.length
        self.length += key_states.shape[-2]
        if self.length > self._buffers[0].shape[-2]:
            self._buffers = [self._reserve(buffer[: self.rows, :, :start]) for buffer in self._buffers]
        for buffer, states in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[: self.rows, :, start : self.length] = states
        self._show()
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """Make row i what row indices[i] was. Only rows that move are copied.

        Raises:
            ValueError: more rows are asked for than there are.
        """
        if len(indices) > self.rows:
            raise ValueError(f"a cache of {self.rows} rows cannot give {len(indices)}")
        moved = (indices != torch.arange(len(indices), device=indices.device)).nonzero().squeeze(1)
        for buffer in self._buffers:
            # The right side is gathered before anything is written, so that rows may change places.
            buffer[moved, :, : self.length] = buffer[indices[moved], :, : self.length]
        self.rows = len(indices)
        self._show()

    def _reserve(self, states: Tensor) -> Tensor:
        """The states in a buffer with room for half as many again: all growing together copies O(n) positions."""
        rows, heads, used, width = states.shape
        room = max(self.length, min(max(self.length + BLOCK, self.length * 3 // 2), self.limit))
        if self.by_position:
            buffer = states.new_empty((room, rows, heads, width)).permute(1, 2, 0, 3)
        else:
            buffer = states.new_empty((rows, heads, room, width))
        buffer[:, :, :used] = states
        return buffer

    def _show(self) -> None:
        self.keys, self.values = (buffer[: self.rows, :, : self.length] for buffer in self._buffers)


def spread(cache: Any, index: Tensor, limit: int) -> None:
    """Hand the prompts' cache to their responses, in place: row i becomes a copy of prompt index[i].

    Layers that are more than growing keys and values (sliding windows, recurrent states) stay what they are.

    Args:
        cache: a cache of transformers with one row per prompt.
        index: (B,), the prompt of each response.
        limit: most positions a row will have.
    """
    for at, layer in enumerate(cache.layers):
        if type(layer) is DynamicLayer:
            cache.layers[at] = GrowingLayer(layer.keys, layer.values, index, limit)
        else:
            layer.batch_select_indices(index)
