"""Log-probabilities and entropies of response tokens, without ever holding all their logits."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from reasonrl.algorithms.kl import full_kl
from reasonrl.batch import Batch
from reasonrl.models.forward import response_hidden
from reasonrl.models.heads import logits


@dataclass(frozen=True)
class TokenScores:
    """Of each response token, all 0 behind the mask and (B, T); None where it was not asked for.

    Attributes:
        logprobs: log-probability, with a gradient.
        entropy: of the distribution it was drawn from (nats).
        divergence: KL(π_old ‖ π_θ) over the whole vocabulary (nats), with a gradient.
        hidden: (N, H), the hidden states it was predicted from, row by row, N = response_mask.sum(); with a gradient.
    """

    logprobs: Tensor
    entropy: Tensor | None
    divergence: Tensor | None
    hidden: Tensor


def response_logprobs(
    model: Any,
    batch: Batch,
    *,
    temperature: float,
    share_prompt: bool,
    packed: bool = False,
    logits_chunk: int = 2**26,
    entropy: bool = False,
    entropy_gradient: bool = False,
    old_model: Any | None = None,
    old_hidden: Tensor | None = None,
) -> TokenScores:
    """Score the response tokens of a batch under the distribution they are sampled from, softmax(logits / temperature).

    Args:
        model: a causal language model of transformers.
        batch: Q prompts and B responses of up to T tokens.
        temperature: divides the logits; must be positive.
        share_prompt: compute each prompt once (`models.forward`).
        packed: compute all rows end to end, without padding, whatever `share_prompt` says.
        logits_chunk: most logits (tokens × vocabulary) in memory at once; beyond, they are recomputed in backward.
        entropy: also give entropies, `entropy_gradient`: with a gradient.
        old_model: π_old, to give the divergence from.
        old_hidden: its hidden states (N, H) for this batch, where they are known; else they are computed.

    Raises:
        ValueError: the temperature is not positive.
    """
    if temperature <= 0:
        raise ValueError(f"log-probabilities need a positive temperature, not {temperature}")
    hidden_of = partial(response_hidden, batch=batch, share_prompt=share_prompt, packed=packed)
    hidden = hidden_of(model)
    if old_model is not None and old_hidden is None:
        with torch.no_grad():  # where π_old is still π_θ, one forward is enough
            old_hidden = hidden if old_model is model else hidden_of(old_model)
    mask = batch.response_mask.bool()
    targets = batch.response_ids[mask]
    size = max(1, logits_chunk // model.config.get_text_config().vocab_size)
    scorer = _Scorer(model, temperature, entropy, entropy_gradient, old_model)
    scores: list[tuple[Tensor, Tensor, Tensor]] = []
    for start in range(0, len(targets), size):
        part = slice(start, start + size)
        given = (hidden[part], targets[part], None if old_hidden is None else old_hidden[part])
        recompute = len(targets) > size and torch.is_grad_enabled()
        scores.append(checkpoint(scorer, *given, use_reentrant=False) if recompute else scorer(*given))
    logprobs, entropies, divergences = (torch.cat(parts) for parts in zip(*scores, strict=True))
    return TokenScores(
        logprobs=_scatter(logprobs, mask),
        entropy=_scatter(entropies, mask) if entropy else None,
        divergence=_scatter(divergences, mask) if old_model is not None else None,
        hidden=hidden,
    )


@dataclass(frozen=True)
class _Scorer:
    """Scores some tokens: hidden states (n, H) and ids (n,) -> log-probability, entropy, divergence, (n,) or (0,)."""

    model: Any
    temperature: float
    entropy: bool
    entropy_gradient: bool
    old_model: Any | None

    def __call__(self, hidden: Tensor, targets: Tensor, old_hidden: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        log_p = self._log_p(self.model, hidden)
        chosen = log_p.gather(-1, targets[:, None]).squeeze(-1)
        entropy = divergence = chosen.new_empty(0)
        if self.entropy:
            free = log_p if self.entropy_gradient else log_p.detach()
            # p·log p → 0 as p → 0, but 0 · (−inf) would be NaN.
            entropy = -(free.exp() * free.clamp(min=torch.finfo(free.dtype).min)).sum(-1)
        if old_hidden is not None:
            with torch.no_grad():
                old_log_p = self._log_p(self.old_model, old_hidden)
            divergence = full_kl(old_log_p, log_p)
        return chosen, entropy, divergence

    def _log_p(self, model: Any, hidden: Tensor) -> Tensor:
        return torch.log_softmax(logits(model, hidden) / self.temperature, dim=-1)


def _scatter(values: Tensor, mask: Tensor) -> Tensor:
    return torch.zeros(mask.shape, dtype=values.dtype, device=values.device).masked_scatter(mask, values)
