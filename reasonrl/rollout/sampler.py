"""Drawing a token: temperature, min-p, top-k and top-p, and the log-probability under the distribution drawn from.

They act in this order, as in vLLM: each on what the one before leaves, renormalised.
"""

import math

import torch
from torch import Tensor

from reasonrl.rollout.engine import Sampling


def draw(logits: Tensor, uniforms: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Draw one token per row by inverting the cumulative distribution.

    Args:
        logits: (B, V).
        uniforms: (B,) in [0, 1), one draw per row.
        sampling: temperature, min_p, top_k, top_p.

    Returns:
        ids (B,) and logprobs (B,): of the drawn tokens under the distribution they were drawn from; for greedy
        sampling (temperature 0) under the untempered one.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if sampling.temperature == 0:
        ids = logits.argmax(-1)
        return ids, torch.log_softmax(logits, -1).gather(-1, ids[:, None]).squeeze(-1)
    log_p = torch.log_softmax(_truncate(logits / sampling.temperature, sampling), -1)
    cumulative = log_p.double().exp().cumsum(-1)
    # The sum ends near 1, not at 1: scaled by it every draw lies below it, so that some token's sum is above the draw.
    points = uniforms.double()[:, None] * cumulative[:, -1:]
    ids = torch.searchsorted(cumulative, points, right=True).squeeze(-1)
    ids = ids.clamp(max=logits.shape[-1] - 1)  # no sum is above NaN; the log-probability then says so
    return ids, log_p.gather(-1, ids[:, None]).squeeze(-1)


def _truncate(logits: Tensor, sampling: Sampling) -> Tensor:
    """Set the logits of tokens outside min-p, top-k and top-p to −inf.

    min-p (Nguyen et al. 2024, arXiv 2407.01082) drops the tokens with p < min_p · max p.
    """
    if sampling.min_p > 0:
        # Among logits, where no small probability is rounded to 0 and nothing need be normalised.
        limit = logits.amax(-1, keepdim=True) + math.log(sampling.min_p)
        logits = logits.masked_fill(logits < limit, -torch.inf)
    if 0 < sampling.top_k < logits.shape[-1]:
        kept = logits.topk(sampling.top_k, dim=-1)
        logits = torch.full_like(logits, -torch.inf).scatter(-1, kept.indices, kept.values)
    if sampling.top_p < 1:
        ordered, order = logits.sort(dim=-1, descending=True, stable=True)
        mass = ordered.softmax(-1)
        # A token stays if the tokens before it have less than top_p; so the likeliest always stays.
        dropped = mass.cumsum(-1) - mass >= sampling.top_p
        logits = logits.masked_fill(torch.zeros_like(dropped).scatter(-1, order, dropped), -torch.inf)
    return logits
