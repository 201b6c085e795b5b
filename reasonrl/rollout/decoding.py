"""A batch of responses being sampled: what the model sees at each step, and which rows are still in it."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reasonrl.errors import ReasonRLError
from reasonrl.rollout.attention import decoding
from reasonrl.rollout.cache import spread


class Decoder:
    """The forward passes of one batch. Every row is as many tokens into its response; finished rows are taken out.

    Args:
        model: a causal language model of transformers.
        prompts: Q prompts, as token ids; each is computed once.
        index: for each of B responses, its prompt.
        max_tokens: most tokens of a response.
        pad_id: fills shorter prompts.
        autocast: makes the context of mixed precision.

    Attributes:
        live: (n,), which of the B rows are still in the batch, in its order.
        hidden: (n, H), the last hidden state of each live row.

    Raises:
        ReasonRLError: the model keeps no KV cache.
    """

    def __init__(
        self,
        model: Any,
        prompts: Sequence[Sequence[int]],
        index: Sequence[int],
        *,
        max_tokens: int,
        pad_id: int,
        autocast: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self.model, self.autocast, device = model, autocast, model.device
        self._width = max(map(len, prompts))
        padded = torch.tensor([[pad_id] * (self._width - len(ids)) + list(ids) for ids in prompts], device=device)
        lengths = torch.tensor([len(ids) for ids in prompts], device=device)
        real = (torch.arange(self._width, device=device) >= self._width - lengths[:, None]).long()
        output = self._forward(input_ids=padded, attention_mask=real, position_ids=(real.cumsum(1) - 1).clamp(min=0))
        self._cache = output.past_key_values
        of_row = torch.tensor(index, device=device)
        limit = self._width + max_tokens - 1  # the last token sampled is never fed
        spread(self._cache, of_row, limit)
        self.live = torch.arange(len(of_row), device=device)
        self.hidden: Tensor = output.last_hidden_state[:, -1][of_row]
        self._lengths = lengths[of_row]
        # Where no prompt is padded, attention needs no mask.
        padding = any(len(ids) < self._width for ids in prompts)
        self._mask = torch.cat([real[of_row], real.new_ones(len(index), max_tokens - 1)], dim=1) if padding else None

    def feed(self, ids: Tensor) -> None:
        """Compute the next hidden states from the ids (n,) just sampled for the live rows."""
        self._width += 1
        self.hidden = self._forward(
            input_ids=ids[:, None],
            attention_mask=None if self._mask is None else self._mask[:, : self._width],
            position_ids=self._lengths[:, None],
            past_key_values=self._cache,
        ).last_hidden_state[:, -1]
        self._lengths = self._lengths + 1

    def keep(self, order: Tensor) -> None:
        """Let the rows order (m,) of the n live ones be the batch, in this order."""
        self._cache.batch_select_indices(order)
        self.live, self._lengths = self.live[order], self._lengths[order]
        if self._mask is not None:
            self._mask = self._mask[order]

    def _forward(self, **inputs: Any) -> Any:
        with self.autocast(), decoding(self.model):
            output = self.model.base_model(**inputs, use_cache=True)
        if getattr(output, "past_key_values", None) is None:
            raise ReasonRLError(f"{type(self.model).__name__} keeps no KV cache; this engine cannot sample from it")
        return output


def survivors(ended: np.ndarray[Any, np.dtype[np.bool_]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The rows that go on. The last of them stand where rows ended: as few as possible change places."""
    order = np.arange(np.count_nonzero(~ended))
    order[ended[: len(order)]] = len(order) + np.flatnonzero(~ended[len(order) :])
    return order
