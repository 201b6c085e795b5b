"""KL divergences: estimated from the log-probabilities of sampled tokens, or exact from the logits of all."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor, expm1, where

KLEstimator = Literal["k1", "k2", "k3"]


def kl_estimate(logprobs: Tensor, ref_logprobs: Tensor, estimator: KLEstimator) -> Tensor:
    """How far the policy has moved from the reference on each sampled token, by one of three estimators.

        d = log π_θ − log π_ref;   k1 = d;   k2 = d²/2;   k3 = e^{−d} + d − 1

    For tokens sampled from π_θ, k1 and k3 are unbiased estimates of KL(π_θ ‖ π_ref); k2 and k3 are never negative.
    As a loss each has its own gradient, on average: that of k2 is the gradient of KL(π_θ ‖ π_ref), that of k3 (GRPO's)
    the gradient of KL(π_ref ‖ π_θ), that of k1 is 0. So k1 restrains the policy in the reward, but not in the loss.
    Sources: Schulman, joschu.net/blog/kl-approx; k3 in DeepSeekMath, arXiv 2402.03300, eq. 4.
    Shapes: logprobs and ref_logprobs (B, T), both `masked` beforehand where a padded value may be NaN -> (B, T).
    Raises ValueError when the shapes differ; KeyError for an unknown estimator.
    """
    if logprobs.shape != ref_logprobs.shape:
        raise ValueError(f"logprobs are {tuple(logprobs.shape)} and ref_logprobs {tuple(ref_logprobs.shape)}")
    return KL_ESTIMATORS[estimator](logprobs - ref_logprobs)


def full_kl(logits_p: Tensor, logits_q: Tensor) -> Tensor:
    """How far one next-token distribution is from another, exactly, over the whole vocabulary.

        KL(p ‖ q) = Σ_v p_v (log p_v − log q_v),   p = softmax(logits_p), q = softmax(logits_q)

    Never negative. A token that p never gives (logit −inf) adds nothing, whatever q gives it; one that q alone never
    gives makes the KL infinite. The gradient goes to both (`detach` the one that is a constant) and has a gradient of
    its own: twice differentiated at p = q this is the Fisher information.
    Paper: Kullback and Leibler 1951; in a policy's loss PPO, arXiv 1707.06347, eq. 8.
    Shapes: logits_p and logits_q (..., V), finite or −inf; a padded position gets any finite logits beforehand, not
    NaN -> (...).
    Raises ValueError when the shapes differ.
    """
    if logits_p.shape != logits_q.shape:
        raise ValueError(f"logits_p are {tuple(logits_p.shape)} and logits_q {tuple(logits_q.shape)}")
    log_p, log_q = logits_p.log_softmax(-1), logits_q.log_softmax(-1)
    # chosen before the difference, not after: −inf − −inf is NaN, and so would be its gradient
    given = log_p.isfinite()
    difference = where(given, log_p, 0) - where(given, log_q, 0)
    kl = (log_p.exp() * difference).sum(-1)
    # The sum may round to just below 0. Only the value is lifted: a clamp would also cut the gradient, and with it the
    # curvature at p = q.
    return kl + (-kl.detach()).relu()


def _k1(difference: Tensor) -> Tensor:
    return difference


def _k2(difference: Tensor) -> Tensor:
    return difference.square() / 2


def _k3(difference: Tensor) -> Tensor:
    # expm1: near the reference e^{−d} − 1 in float32 would lose all of d²/2, and even its sign
    return expm1(-difference) + difference


KL_ESTIMATORS: dict[KLEstimator, Callable[[Tensor], Tensor]] = {"k1": _k1, "k2": _k2, "k3": _k3}
