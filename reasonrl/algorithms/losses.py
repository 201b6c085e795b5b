"""Policy losses per token, to be minimised; `aggregation` makes a scalar of them, `POLICY_LOSSES` names them.

What is (B, T) is `masked` beforehand where a padded value may be NaN: a mask on the loss alone would leave NaN in the
gradient. Advantages are (B,), one a response, or (B, T). Every gradient goes to logprobs alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, maximum, minimum, where, zeros_like

from reasonrl.algorithms.gspo import sequence_log_ratio
from reasonrl.algorithms.masking import masked

LossName = Literal["clip", "gspo", "cispo", "importance_weighted"]


def clip(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None = None,
    delta: float | None = None,
) -> Tensor:
    """The clipped surrogate of PPO and GRPO: no reward for moving a token's probability further than the clip.

        ρ = π_θ/π_old;   ℓ = −min(ρA, clip(ρ, 1 − clip_low, 1 + clip_high)·A)
        with dual_clip c, where A < 0:   ℓ = −max(min(…), cA)
        with delta δ, the two-sided clip:   ℓ = −min(min(ρ, δ)·A, clip(ρ, …)·A)

    clip_high > clip_low is DAPO's clip-higher. For c = δ > 1 + clip_high the last two are the same function: they hold
    the ratio only where A < 0. The KL term is not in here: add `beta * kl_estimate(…)` per token.
    Papers: PPO, arXiv 1707.06347, eq. 7; dual clip, arXiv 1912.09729; clip-higher (DAPO), arXiv 2503.14476, §3.1;
    two-sided clip (INTELLECT-2), arXiv 2505.07291.
    Shapes: logprobs and old_logprobs (B, T); advantages (B,) or (B, T) -> (B, T).
    Raises ValueError when the shapes do not fit, for a dual_clip of 1 or less, or for a delta of 1 + clip_high or less.
    """
    _check_bounds(dual_clip, delta, clip_high)
    ratio = _ratio(logprobs, old_logprobs)
    per_token = _per_token(advantages, logprobs)
    unclipped = ratio if delta is None else ratio.clamp(max=delta)
    objective = minimum(unclipped * per_token, ratio.clamp(1 - clip_low, 1 + clip_high) * per_token)
    if dual_clip is not None:
        objective = where(per_token < 0, maximum(objective, dual_clip * per_token), objective)
    return -objective


def clipped(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None = None,
    delta: float | None = None,
) -> Tensor:
    """Where the clip holds and `clip` therefore gives no gradient; its mean over the tokens is the clip fraction.

        A > 0 and ρ > 1 + clip_high,   or A < 0 and ρ < 1 − clip_low,   or, with c or δ, A < 0 and ρ > min(c, δ)

    Shapes: as in `clip` -> (B, T) bool.
    Raises ValueError as `clip` does.
    """
    _check_bounds(dual_clip, delta, clip_high)
    ratio = _ratio(logprobs.detach(), old_logprobs)
    per_token = _per_token(advantages, logprobs)
    held_down = ratio < 1 - clip_low
    for bound in (dual_clip, delta):
        if bound is not None:
            held_down = held_down | (ratio > bound)
    return ((per_token > 0) & (ratio > 1 + clip_high)) | ((per_token < 0) & held_down)


def importance_weighted(logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor) -> Tensor:
    """The surrogate without a clip: what PPO-Penalty adds its KL to, and what TRPO maximises within its trust region.

        ρ = π_θ/π_old;   ℓ = −ρA

    Papers: TRPO, arXiv 1502.05477, eq. 14; PPO, arXiv 1707.06347, eq. 6 and 8.
    Shapes: logprobs and old_logprobs (B, T); advantages (B,) or (B, T) -> (B, T).
    Raises ValueError when the shapes do not fit.
    """
    return -_ratio(logprobs, old_logprobs) * _per_token(advantages, logprobs)


def gspo(
    logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, mask: Tensor, *, clip_low: float, clip_high: float
) -> Tensor:
    """The clipped surrogate with one ratio a response, that of `sequence_ratio`, put on each of its tokens.

        ℓ_{i,t} = −min(s_{i,t} A, clip(s_{i,t}, 1 − clip_low, 1 + clip_high)·A),   s_{i,t} = sg(s_i)·π_θ/sg(π_θ)

    s_{i,t} has the value of s_i, and with one advantage a response the loss has, under every aggregation, the gradient
    it would have with s_i itself: "sequence_mean" gives eq. 5. An advantage a token reaches its own token only
    (GSPO-token). The clip is of another order than that of `clip`: the paper's is 3e-4 and 4e-4.
    Paper: GSPO, arXiv 2507.18071, eq. 5, 13 and 14.
    Shapes: logprobs, old_logprobs and mask (B, T), the mask bool or 0/1; advantages (B,) or (B, T); anything (NaN too)
    behind the mask -> (B, T), 0 behind the mask.
    Raises ValueError when the shapes do not fit.
    """
    log_ratio, per_token = _sequence_inputs(logprobs, old_logprobs, advantages, mask)
    return clip(log_ratio, zeros_like(log_ratio), per_token, clip_low=clip_low, clip_high=clip_high)


def gspo_clipped(
    logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, mask: Tensor, *, clip_low: float, clip_high: float
) -> Tensor:
    """Where the clip of `gspo` holds: all tokens of a response, where it has one advantage.

        A > 0 and s_i > 1 + clip_high,   or A < 0 and s_i < 1 − clip_low

    Shapes: as in `gspo` -> (B, T) bool, False behind the mask.
    Raises ValueError when the shapes do not fit.
    """
    log_ratio, per_token = _sequence_inputs(logprobs, old_logprobs, advantages, mask)
    return clipped(log_ratio, zeros_like(log_ratio), per_token, clip_low=clip_low, clip_high=clip_high)


def cispo(logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, *, clip_low: float, clip_high: float) -> Tensor:
    """REINFORCE with a bounded importance weight: every token keeps a gradient, only its weight is clipped.

        ℓ = −sg(clip(ρ, 1 − clip_low, 1 + clip_high))·A·log π_θ

    The weight is a constant, so the value of the loss says little; its gradient is what counts. A clip_low of 1 leaves
    the weight without a lower bound, as the paper trains.
    Paper: CISPO (MiniMax-M1), arXiv 2506.13585, eq. 4 and 5.
    Shapes: logprobs and old_logprobs (B, T); advantages (B,) or (B, T) -> (B, T).
    Raises ValueError when the shapes do not fit.
    """
    weight = _ratio(logprobs.detach(), old_logprobs).clamp(1 - clip_low, 1 + clip_high)
    return -weight * _per_token(advantages, logprobs) * logprobs


def cispo_clipped(
    logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, *, clip_low: float, clip_high: float
) -> Tensor:
    """Where the weight of `cispo` is held at a bound; the token has a gradient all the same, unless A = 0.

        ρ < 1 − clip_low   or   ρ > 1 + clip_high

    Shapes: as in `cispo` -> (B, T) bool.
    Raises ValueError when the shapes do not fit.
    """
    _per_token(advantages, logprobs)
    ratio = _ratio(logprobs.detach(), old_logprobs)
    return (ratio < 1 - clip_low) | (ratio > 1 + clip_high)


def _ratio(logprobs: Tensor, old_logprobs: Tensor) -> Tensor:
    """π_θ/π_old per token, (B, T)."""
    if logprobs.shape != old_logprobs.shape:
        raise ValueError(f"logprobs are {tuple(logprobs.shape)} and old_logprobs {tuple(old_logprobs.shape)}")
    # π_old is a constant. On policy it is natural to pass the logprobs themselves, and without this `detach` the two
    # gradients would cancel to a silent 0.
    return (logprobs - old_logprobs.detach()).exp()


def _per_token(advantages: Tensor, logprobs: Tensor) -> Tensor:
    """The advantages as (B, 1) or (B, T), and as constants."""
    if advantages.shape == logprobs.shape:
        return advantages.detach()
    if advantages.shape == logprobs.shape[:1]:
        return advantages.detach().unsqueeze(1)
    raise ValueError(f"advantages are {tuple(advantages.shape)}; logprobs {tuple(logprobs.shape)} want (B,) or (B, T)")


def _sequence_inputs(logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """log s_{i,t} and the advantages of `gspo`; behind the mask A = 0, and so is the loss."""
    log_ratio = sequence_log_ratio(logprobs, old_logprobs, mask)
    return log_ratio, masked(_per_token(advantages, logprobs).expand_as(log_ratio), mask)


def _check_bounds(dual_clip: float | None, delta: float | None, clip_high: float) -> None:
    if dual_clip is not None and dual_clip <= 1:
        raise ValueError(f"dual_clip is {dual_clip}; it bounds the ratio from above and must be greater than 1")
    if delta is not None and delta <= 1 + clip_high:
        raise ValueError(f"delta is {delta}; it lies beyond the clip and must be greater than {1 + clip_high}")


@dataclass(frozen=True)
class PolicyLoss:
    """The loss of each token, (B, T), and where its clip holds.

    Both are called with logprobs, old_logprobs, advantages, mask, and the limits by name: clip_low, clip_high and, for
    "clip", dual_clip.
    """

    loss: Callable[..., Tensor]
    clipped: Callable[..., Tensor]


def _without_mask(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def call(logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, mask: Tensor, **limits: float) -> Tensor:
        return function(logprobs, old_logprobs, advantages, **limits)

    return call


def _without_clip(function: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def call(logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, mask: Tensor, **limits: float) -> Tensor:
        return function(logprobs, old_logprobs, advantages)

    return call


def _nowhere(logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor) -> Tensor:
    return zeros_like(logprobs).bool()


POLICY_LOSSES: dict[LossName, PolicyLoss] = {
    "clip": PolicyLoss(_without_mask(clip), _without_mask(clipped)),
    "gspo": PolicyLoss(gspo, gspo_clipped),
    "cispo": PolicyLoss(_without_mask(cispo), _without_mask(cispo_clipped)),
    "importance_weighted": PolicyLoss(_without_clip(importance_weighted), _without_clip(_nowhere)),
}
