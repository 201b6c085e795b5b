"""How much more, or less, likely the policy makes a whole response: one ratio a response, as GSPO clips it."""

from torch import Tensor

from reasonrl.algorithms.masking import masked, masked_mean


def sequence_ratio(logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor:
    """The likelihood ratio of a response, per token: the geometric mean of its tokens' ratios.

        s_i = (π_θ(y_i)/π_old(y_i))^{1/L_i} = exp((1/L_i) Σ_t log ρ_{i,t})

    The root makes responses of all lengths comparable: one range of the clip fits them all. 1 for a row without tokens.
    Paper: GSPO, arXiv 2507.18071, eq. 7.
    Shapes: logprobs and old_logprobs (B, T), anything (NaN too) behind the mask; mask (B, T) bool or 0/1 -> (B,), with
    a gradient to logprobs alone.
    Raises ValueError when the shapes differ.
    """
    return _mean_log_ratio(logprobs, old_logprobs, mask).exp()


def sequence_log_ratio(logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor:
    """log s_i on each token, with the gradient of that token's own log-probability.

        log s_{i,t} = sg(log s_i) + log π_θ − sg(log π_θ)

    Paper: GSPO, arXiv 2507.18071, eq. 14.
    Shapes: as in `sequence_ratio` -> (B, T), log s_i behind the mask too, but without a gradient there.
    Raises ValueError when the shapes differ.
    """
    own = masked(logprobs, mask)
    return _mean_log_ratio(own.detach(), old_logprobs, mask).unsqueeze(1) + (own - own.detach())


def _mean_log_ratio(logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor:
    """log s_i, (B,)."""
    if logprobs.shape != old_logprobs.shape:
        raise ValueError(f"logprobs are {tuple(logprobs.shape)} and old_logprobs {tuple(old_logprobs.shape)}")
    # π_old is a constant, also when it is given as the very same tensor. The mask of the mean is enough: a difference
    # is linear, so that no NaN behind it gets into a gradient.
    return masked_mean(logprobs - old_logprobs.detach(), mask, dim=1)
