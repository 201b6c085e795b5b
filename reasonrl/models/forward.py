"""The training forward: hidden states of response positions only, a group's prompt computed once.

With the prompt shared, prompts go through one forward that keeps its KV cache (and its graph); the cache rows are
gathered for the responses, which go through a second forward. Per token of a group this costs (S/G + T) instead of
(S + T). Where that cannot be (gradient checkpointing drops the cache; sliding-window, hybrid and recurrent layers keep
another kind of it), the plain path feeds [prompt, response] rows.

Packed, all rows are laid end to end in one, without padding, and positions restart at each: transformers takes that for
sequences that do not see one another, and masks attention so (flash attention computes each by itself).
"""

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer

from reasonrl.batch import Batch, Row, collate
from reasonrl.errors import ReasonRLError


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


@torch.no_grad()
def check_packing(model: Any) -> None:
    """Compare a short response packed behind another one with the same response alone.

    Raises:
        ReasonRLError: its hidden states differ: the model carries a state along the row, or counts positions by itself.
    """
    ids = [token % model.config.get_text_config().vocab_size for token in range(13)]
    before, row = Row(tuple(ids[:4]), tuple(ids[4:8])), Row(tuple(ids[8:9]), tuple(ids[9:]), group=1)
    packed, alone = (
        response_hidden(model, collate(rows, pad_id=0).to(model.device), share_prompt=False, packed=packs)[-4:].float()
        for rows, packs in [([before, row], True), ([row], False)]
    )
    difference = float((packed - alone).norm() / alone.norm())
    rounded = torch.finfo(model.dtype).bits < 32 or torch.is_autocast_enabled(model.device.type)
    # SmolLM2-135M rounds by 2e-6, and by 1e-3 in bfloat16; what sees the response before it is off by 1.4.
    if not difference <= (2e-2 if rounded else 1e-4):
        raise ReasonRLError(
            f"{type(model).__name__} cannot be trained on packed demonstrations: what stands before a demonstration in "
            f"its row changes its hidden states (relative difference {difference:.2g}); set packing: false"
        )


def response_hidden(model: Any, batch: Batch, *, share_prompt: bool, packed: bool = False) -> Tensor:
    """Hidden states from which each response token is predicted: (N, H), N = response_mask.sum(), row by row.

    Args:
        model: a causal language model of transformers.
        batch: Q prompts (Q, S) and B responses (B, T).
        share_prompt: compute each prompt once, through its KV cache.
        packed: compute all rows end to end, without padding, whatever `share_prompt` says.
    """
    if packed:
        return _packed(model, batch)
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


def _packed(model: Any, batch: Batch) -> Tensor:
    response_mask = batch.response_mask.bool()
    # Of the last token of a response nothing is predicted: it is not fed.
    fed = torch.cat([batch.prompt_mask[batch.prompt_index].bool(), response_mask[:, 1:]], dim=1)
    ids = torch.cat([batch.prompt_ids[batch.prompt_index], batch.response_ids[:, :-1]], dim=1)
    output = model.base_model(
        input_ids=ids[fed][None],
        attention_mask=None,  # with a mask, or with a cache, transformers would not look where positions restart
        position_ids=_positions(fed)[fed][None],
        use_cache=False,
    )
    places = (fed.flatten().cumsum(0) - 1).view_as(fed)[:, batch.prompt_ids.shape[1] - 1 :]
    hidden: Tensor = output.last_hidden_state[0, places[response_mask]]
    return hidden


def _positions(mask: Tensor) -> Tensor:
    return (mask.cumsum(1) - 1).clamp(min=0)
