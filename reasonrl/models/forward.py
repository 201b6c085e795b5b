"""The training forward: hidden states of response positions only, a group's prompt computed once.

With the prompt shared, prompts go through one forward that keeps its KV cache (and its graph); the cache rows are
gathered for the responses, which go through a second forward. Per token of a group this costs (S/G + T) instead of
(S + T). Where that cannot be (gradient checkpointing drops the cache; sliding-window, hybrid and recurrent layers keep
another kind of it), the plain path feeds [prompt, response] rows.
"""

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer

from reasonrl.batch import Batch


@torch.no_grad()
def can_share_prompt(model: Any) -> bool:
    """Does the model keep a plain, growing KV cache in every layer while it trains?"""
    if getattr(model, "is_gradient_checkpointing", False):
        return False
    ids = torch.zeros((1, 2), dtype=torch.long, device=model.device)
    cache: Any = getattr(model.base_model(input_ids=ids, use_cache=True), "past_key_values", None)
    if type(cache) is not DynamicCache:
        return False
    return all(type(layer) is DynamicLayer for layer in cache.layers)


def response_hidden(model: Any, batch: Batch, *, share_prompt: bool) -> Tensor:
    """Hidden states from which each response token is predicted: (N, H), N = response_mask.sum(), row by row.

    Args:
        model: a causal language model of transformers.
        batch: Q prompts (Q, S) and B responses (B, T).
        share_prompt: compute each prompt once, through its KV cache.
    """
    hidden = _shared(model, batch) if share_prompt else _plain(model, batch)
    return hidden[batch.response_mask.bool()]


def _shared(model: Any, batch: Batch) -> Tensor:
    prompt = model.base_model(
        input_ids=batch.prompt_ids,
        attention_mask=batch.prompt_mask,
        position_ids=_positions(batch.prompt_mask),
        use_cache=True,
    )
    # The last prompt token predicts the first response token.
    first: Tensor = prompt.last_hidden_state[batch.prompt_index, -1:]
    fed, fed_mask = batch.response_ids[:, :-1], batch.response_mask[:, :-1]
    if fed.shape[1] == 0:
        return first
    cache = prompt.past_key_values
    cache.batch_select_indices(batch.prompt_index)
    prompt_mask = batch.prompt_mask[batch.prompt_index]
    rest = model.base_model(
        input_ids=fed,
        attention_mask=torch.cat([prompt_mask, fed_mask], dim=1),
        # Counted by the mask: padding behind a short response to a long prompt must not pass the last position.
        position_ids=prompt_mask.sum(1, keepdim=True) + _positions(fed_mask),
        past_key_values=cache,
        use_cache=True,
    )
    hidden: Tensor = torch.cat([first, rest.last_hidden_state], dim=1)
    return hidden


def _plain(model: Any, batch: Batch) -> Tensor:
    mask = torch.cat([batch.prompt_mask[batch.prompt_index], batch.response_mask[:, :-1]], dim=1)
    output = model.base_model(
        input_ids=torch.cat([batch.prompt_ids[batch.prompt_index], batch.response_ids[:, :-1]], dim=1),
        attention_mask=mask,
        position_ids=_positions(mask),
        use_cache=False,
    )
    hidden: Tensor = output.last_hidden_state[:, batch.prompt_ids.shape[1] - 1 :]
    return hidden


def _positions(mask: Tensor) -> Tensor:
    return (mask.cumsum(1) - 1).clamp(min=0)
