"""Importance weights: responses sampled from μ, another policy than the π_old that is to be improved."""

from torch import Tensor

from reasonrl.algorithms.masking import masked


def truncated_importance(old_logprobs: Tensor, sampler_logprobs: Tensor, mask: Tensor, cap: float) -> Tensor:
    """The weight of each sampled token in the loss: what makes an average over μ one over π_old, bounded by C.

        w_t = min(π_old(t)/μ(t), C)

    π_old are the trainer's log-probabilities at the step's start, μ those the sampler drew from: for the same weights
    they differ where the two compute with other kernels or another precision. Exactly 1 where the two are equal. The
    cap trades a little bias for a bounded variance: E_μ[π_old/μ] = 1, but the variance of the ratio has no bound.
    Papers: truncated importance sampling, Ionides 2008, J. Comput. Graph. Stat. 17(2); for a sampler that differs from
    the trainer, Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy RL training".
    Shapes: old_logprobs and sampler_logprobs (B, T), anything (NaN too) behind the mask; mask (B, T) bool or 0/1
    -> (B, T), 0 behind the mask, without a gradient.
    Raises ValueError as `log_importance` does, and for a cap below 1: equal policies would not have weight 1.
    """
    if cap < 1:
        raise ValueError(f"the cap of importance weights is {cap}; it must be at least 1")
    return masked(log_importance(old_logprobs, sampler_logprobs, mask).exp().clamp(max=cap), mask)


def log_importance(old_logprobs: Tensor, sampler_logprobs: Tensor, mask: Tensor) -> Tensor:
    """How far apart the two policies are on each sampled token, in nats.

        log π_old(t) − log μ(t)

    Shapes: as in `truncated_importance` -> (B, T), 0 behind the mask, without a gradient.
    Raises ValueError when the shapes differ, or when a sampler log-probability in front of the mask is NaN or infinite:
    it is missing, and a weight made up for it would be wrong in silence. One of π_old is left to show in the loss.
    """
    sampler = masked(sampler_logprobs.detach(), mask)
    if not bool(sampler.isfinite().all()):
        raise ValueError("a response token has no finite sampler log-probability; its importance weight is unknown")
    return masked(old_logprobs.detach(), mask) - sampler
