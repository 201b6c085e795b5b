"""Rewards per token, as PPO and REINFORCE++ want them: KL on every token, the outcome on the last, steps on theirs."""

from torch import Tensor, where

from reasonrl.algorithms.masking import masked
from reasonrl.algorithms.steps import Steps, at_ends


def token_rewards(
    mask: Tensor, *, outcome: Tensor, kl: Tensor | None, beta: float, steps: Steps | None = None
) -> Tensor:
    """What each token earns: less the further it strayed, plus what its response and the steps ending at it earn.

        r_t = −β·kl_t + [t is the last response token]·outcome + Σ_{j: end(j) = t} r^(j)

    A response of which the mask leaves no token earns 0 everywhere: so is an unjudged one left out, whose outcome and
    steps may be anything.
    Paper: Ouyang et al., arXiv 2203.02155, eq. 2 (with its KL per token); process rewards as in `process_relative`.
    Shapes: mask (B, T) bool or 0/1; outcome (B,) floating; kl (B, T), anything (NaN too) behind the mask; `steps` as in
    `Steps` -> (B, T), 0 behind the mask, without a gradient.
    Raises ValueError when the shapes differ, when a response that has tokens has an outcome that is NaN or infinite,
    and as `at_ends` does.
    """
    if outcome.shape != mask.shape[:1]:
        raise ValueError(f"outcome is {tuple(outcome.shape)} and the mask {tuple(mask.shape)}; not (B,) and (B, T)")
    present = mask.bool()
    outcome = where(present.any(dim=1), outcome.detach(), 0)
    if not bool(outcome.isfinite().all()):
        raise ValueError("an outcome is NaN or infinite; a response that could not be judged has mask 0 everywhere")
    rewards = where(_last(present), outcome[:, None], 0)
    if kl is not None:
        rewards = rewards - beta * masked(kl.detach(), mask)
    if steps is not None:
        rewards = rewards + at_ends(steps.rewards.detach(), steps.responses, steps.ends, mask)
    return rewards


def _last(present: Tensor) -> Tensor:
    """Where the last token of each row stands, (B, T) -> (B, T) bool; nowhere in a row without any."""
    following = present.flip(1).long().cumsum(1).flip(1)  # this token and those after it
    return present & (following == 1)
