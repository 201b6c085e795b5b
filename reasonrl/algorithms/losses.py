"""Policy losses per token, to be minimised; `aggregation` makes a scalar of them."""

from torch import Tensor, maximum, minimum, where


def clip(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None = None,
) -> Tensor:
    """The clipped surrogate of PPO and GRPO: no reward for moving a token's probability further than the clip.

        ρ = π_θ/π_old;   ℓ = −min(ρA, clip(ρ, 1 − clip_low, 1 + clip_high)·A)
        with dual_clip c, where A < 0:   ℓ = −max(min(…), cA)

    clip_high > clip_low is DAPO's clip-higher. The KL term is not in here: add `beta * kl_estimate(…)` per token.
    Papers: PPO, arXiv 1707.06347, eq. 7; dual clip, arXiv 1912.09729; clip-higher (DAPO), arXiv 2503.14476, §3.1.
    Shapes: logprobs and old_logprobs (B, T); advantages (B,), one a response, or (B, T) -> (B, T). What is (B, T) is
    `masked` beforehand where a padded value may be NaN: a mask on the loss alone would leave NaN in the gradient. The
    gradient goes to logprobs alone.
    Raises ValueError when the shapes do not fit, or for a dual_clip of 1 or less.
    """
    ratio = _ratio(logprobs, old_logprobs)
    per_token = _per_token(advantages, logprobs)
    objective = minimum(ratio * per_token, ratio.clamp(1 - clip_low, 1 + clip_high) * per_token)
    if dual_clip is not None:
        _check_dual_clip(dual_clip)
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
) -> Tensor:
    """Where the clip holds and `clip` therefore gives no gradient; its mean over the tokens is the clip fraction.

        A > 0 and ρ > 1 + clip_high,   or A < 0 and ρ < 1 − clip_low,   or, with dual_clip c, A < 0 and ρ > c

    Shapes: as in `clip` -> (B, T) bool.
    Raises ValueError when the shapes do not fit, or for a dual_clip of 1 or less.
    """
    ratio = _ratio(logprobs.detach(), old_logprobs)
    per_token = _per_token(advantages, logprobs)
    too_low = ratio < 1 - clip_low
    if dual_clip is not None:
        _check_dual_clip(dual_clip)
        too_low = too_low | (ratio > dual_clip)
    return ((per_token > 0) & (ratio > 1 + clip_high)) | ((per_token < 0) & too_low)


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


def _check_dual_clip(dual_clip: float) -> None:
    if dual_clip <= 1:
        raise ValueError(f"dual_clip is {dual_clip}; it bounds the ratio from above and must be greater than 1")
