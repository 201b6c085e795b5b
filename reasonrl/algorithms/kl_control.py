"""What a measured KL changes from one update to the next: the weight β of the KL term, and whether to stop."""

import math


def adapted_coefficient(beta: float, kl: float, *, target: float, count: int, horizon: int) -> float:
    """β after a batch of `count` responses: a proportional controller that draws the measured KL toward a target.

        β ← β·(1 + clip(KL/target − 1, ±0.2)·count/horizon)

    The clip bounds a batch's change: within `horizon` responses β grows by about a fifth at most.
    Paper: Ziegler et al. 2019, arXiv 1909.08593, §2.2; its gain of 0.1 a batch is count/horizon here.
    Units: kl and target in nats, both per token or both per response.
    Raises ValueError for a KL that is NaN, a target or horizon that is not positive, or a count that is negative or so
    large (5 horizons and more) that β would lose its sign.
    """
    _check(kl, target)
    if horizon <= 0 or not 0 <= count < 5 * horizon:
        raise ValueError(
            f"a batch of {count} responses does not fit a horizon of {horizon}; β needs 0 ≤ n < 5 horizons"
        )
    error = min(max(kl / target - 1, -0.2), 0.2)
    return beta * (1 + error * count / horizon)


def penalty_coefficient(beta: float, kl: float, *, target: float) -> float:
    """β after an iteration of PPO-Penalty: doubled or halved when the KL of the step missed its target d by far.

        β ← β/2 where KL < d/1.5,   2β where KL > 1.5 d,   else β

    Paper: PPO, arXiv 1707.06347, §4.
    Units: kl, the mean KL(π_old ‖ π_θ), and target in nats per token.
    Raises ValueError for a KL that is NaN or a target that is not positive.
    """
    _check(kl, target)
    if kl < target / 1.5:
        return beta / 2
    if kl > target * 1.5:
        return beta * 2
    return beta


def beyond_target(kl: float, target_kl: float) -> bool:
    """Has the policy moved so far from π_old that the rest of the iteration's updates should be skipped?

        KL > 1.5·target_kl

    Source: Spinning Up's PPO (OpenAI 2018), which stops its epochs there.
    Units: kl, the mean KL(π_old ‖ π_θ) of a minibatch, and target_kl in nats per token.
    Raises ValueError for a KL that is NaN or a target that is not positive.
    """
    _check(kl, target_kl)
    return kl > 1.5 * target_kl


def _check(kl: float, target: float) -> None:
    # every comparison with NaN is false: a broken update would pass for one on target
    if math.isnan(kl):
        raise ValueError("the measured KL is NaN; no coefficient follows from it")
    if not target > 0:
        raise ValueError(f"the target KL is {target}; it must be positive")
