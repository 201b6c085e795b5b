"""Estimates of KL(π_θ ‖ π_ref) from the log-probabilities of sampled tokens."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor, expm1

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


def _k1(difference: Tensor) -> Tensor:
    return difference


def _k2(difference: Tensor) -> Tensor:
    return difference.square() / 2


def _k3(difference: Tensor) -> Tensor:
    # expm1: near the reference e^{−d} − 1 in float32 would lose all of d²/2, and even its sign
    return expm1(-difference) + difference


KL_ESTIMATORS: dict[KLEstimator, Callable[[Tensor], Tensor]] = {"k1": _k1, "k2": _k2, "k3": _k3}
