"""Log-probabilities and entropies of response tokens, without ever holding all their logits."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from reasonrl.batch import Batch
from reasonrl.models.forward import response_hidden
from reasonrl.models.heads import logits


@dataclass(frozen=True)
class TokenScores:
    """Of each response token: its log-probability and the entropy of the distribution it was drawn from (nats).

    Attributes:
        logprobs: (B, T), 0 behind the mask.
        entropy: (B, T), 0 behind the mask, no gradient; None if it was not asked for.
    """

    logprobs: Tensor
    entropy: Tensor | None


def response_logprobs(
    model: Any,
    batch: Batch,
    *,
    temperature: float,
    share_prompt: bool,
    logits_chunk: int = 2**26,
    entropy: bool = False,
) -> TokenScores:
    """Score the response tokens of a batch under the distribution they are sampled from, softmax(logits / temperature).

    Args:
        model: a causal language model of transformers.
        batch: Q prompts and B responses of up to T tokens.
        temperature: divides the logits; must be positive.
        share_prompt: compute each prompt once (`models.forward`).
        logits_chunk: most logits (tokens × vocabulary) in memory at once; beyond, they are recomputed in backward.
        entropy: also give entropies.

    Raises:
        ValueError: the temperature is not positive.
    """
    if temperature <= 0:
        raise ValueError(f"log-probabilities need a positive temperature, not {temperature}")
    hidden = response_hidden(model, batch, share_prompt=share_prompt)
    mask = batch.response_mask.bool()
    targets = batch.response_ids[mask]
    size = max(1, logits_chunk // model.config.get_text_config().vocab_size)
    scores, entropies = [], []
    for start in range(0, len(targets), size):
        part = (model, hidden[start : start + size], targets[start : start + size], temperature, entropy)
        recompute = len(targets) > size and torch.is_grad_enabled()
        score, ent = checkpoint(_score, *part, use_reentrant=False) if recompute else _score(*part)
        scores.append(score)
        entropies.append(ent)
    return TokenScores(
        logprobs=_scatter(torch.cat(scores), mask),
        entropy=_scatter(torch.cat(entropies), mask) if entropy else None,
    )


def _score(model: Any, hidden: Tensor, targets: Tensor, temperature: float, entropy: bool) -> tuple[Tensor, Tensor]:
    log_p = torch.log_softmax(logits(model, hidden) / temperature, dim=-1)
    chosen = log_p.gather(-1, targets[:, None]).squeeze(-1)
    if not entropy:
        return chosen, chosen.new_empty(0)
    free = log_p.detach()
    # p·log p → 0 as p → 0, but 0 · (−inf) would be NaN.
    return chosen, -(free.exp() * free.clamp(min=torch.finfo(free.dtype).min)).sum(-1)


def _scatter(values: Tensor, mask: Tensor) -> Tensor:
    return torch.zeros(mask.shape, dtype=values.dtype, device=values.device).masked_scatter(mask, values)
