"""Attention for decoding, one query position a row: query heads that share keys are computed together.

With a padding mask, transformers' sdpa attention repeats keys and values for every query head of a group, which copies
the whole cache in every layer at every step (4 × the time of the attention itself for 9 heads on 3, on CPU).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "reasonrl_decoding"


def decoding_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, None]:
    """What transformers' sdpa attention gives, faster where there is one query position.

    Args:
        module: the attention layer.
        query: (B, heads, T, width).
        key, value: (B, key heads, S, width).
        attention_mask: (B, 1, T, S) of bool, None if nothing is masked.
        kwargs: `scaling`, and what else the family passes.

    Returns:
        (B, T, heads, width of values), and no attention weights.
    """
    plain = not kwargs.get("dropout") and kwargs.get("position_bias") is None and kwargs.get("cache") is None
    one_mask = attention_mask is None or (attention_mask.shape[1] == 1 and attention_mask.dtype == torch.bool)
    if query.shape[2] != 1 or not plain or not one_mask:
        other: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
        return other
    batch, heads, _, width = query.shape
    # The query heads of a key head stand where query positions stand: they see the same keys, under the same mask.
    grouped = query.reshape(batch, key.shape[1], heads // key.shape[1], width)
    scale = kwargs.get("scaling")
    if key.stride(2) > key.stride(0):  # laid out position by position, see `rollout.cache`
        output = _by_position(grouped, key, value, attention_mask, width**-0.5 if scale is None else scale)
    else:
        output = scaled_dot_product_attention(grouped, key, value, attn_mask=attention_mask, scale=scale)
    return output.reshape(batch, 1, heads, value.shape[-1]), None


def _by_position(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """Attention of (B, key heads, group, width) queries, summed over positions in the order they lie in memory."""
    keys, values = (states.permute(2, 0, 1, 3)[:, :, :, None] for states in (key, value))  # (S, B, heads, 1, width)
    scores = (query * scale * keys).sum(-1)
    if mask is not None:
        scores = scores.masked_fill(~mask[:, 0, 0].T[:, :, None, None], -torch.inf)
    return (scores.softmax(0)[..., None] * values).sum(0)


AttentionInterface.register(NAME, decoding_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)


@contextmanager
def decoding(model: Any) -> Iterator[None]:
    """For one forward pass, let a model that attends by sdpa attend as above; and let it keep its cache.

    A model that trains with gradient checkpointing drops its cache, so it leaves training mode meanwhile.
    """
    by_sdpa = model.config._attn_implementation == "sdpa"
    drops_cache = model.training and model.is_gradient_checkpointing
    if by_sdpa:
        model.config._attn_implementation = NAME
    if drops_cache:
        model.eval()
    try:
        yield
    finally:
        if by_sdpa:
            model.config._attn_implementation = "sdpa"
        if drops_cache:
            model.train()
