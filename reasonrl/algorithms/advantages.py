"""Advantages: how much better a response was than what it is compared with."""

from typing import Literal

import torch
from torch import Tensor

GroupStd = Literal["population", "sample", "none"]

# what each standard deviation subtracts from the number of members; None: it does not divide at all
_DEGREES_LOST: dict[GroupStd, int | None] = {"population": 0, "sample": 1, "none": None}


def group_relative(
    rewards: Tensor,
    group_ids: Tensor,
    judged: Tensor,
    *,
    std: GroupStd = "population",
    eps: float = 1e-6,
) -> Tensor:
    """The advantage of GRPO: each reward against the mean of its group, in units of the group's spread.

        A_i = (r_i − mean r) / (std r + eps),  mean and std over the judged members of i's group

    std "population" divides the squares by n, "sample" by n − 1, "none" leaves r_i − mean r (Dr. GRPO).
    Exactly 0 for a group whose judged rewards are all equal, for a lone judged member and for an unjudged response.
    abs(A_i) ≤ √G but with "none".
    Papers: DeepSeekMath, arXiv 2402.03300, §4.1.2; Dr. GRPO, arXiv 2503.20783.
    Shapes: rewards (B,) floating, anything (NaN too) where unjudged; group_ids (B,) long, any ids in any order, groups
    of any size; judged (B,) bool -> (B,) in the type of rewards.
    Raises ValueError when the shapes differ, or when a judged reward is NaN or infinite; KeyError for an unknown std.
    """
    degrees_lost = _DEGREES_LOST[std]
    low, high = _extremes(rewards, group_ids, judged)
    centred, count = _centred(rewards, low, group_ids, judged)
    if degrees_lost is None:
        scale = torch.ones_like(rewards)
    else:
        squares = _group_sum(torch.where(judged, centred, 0).square(), group_ids)
        scale = (squares / (count - degrees_lost).clamp(min=1)).sqrt() + eps
    return torch.where(judged & (low < high), centred / scale, 0)


def leave_one_out(rewards: Tensor, group_ids: Tensor, judged: Tensor) -> Tensor:
    """The advantage of RLOO: each reward against the mean of the others' in its group.

        A_i = r_i − mean_{j ≠ i} r_j = n/(n − 1) · (r_i − mean r),  over the n judged members of i's group

    No reward is in its own baseline, so that the policy gradient stays unbiased.
    Exactly 0 for a group whose judged rewards are all equal, for a lone judged member and for an unjudged response.
    Papers: Ahmadian et al., arXiv 2402.14740; Kool et al. 2019, "Buy 4 REINFORCE Samples, Get a Baseline for Free!".
    Shapes: as in `group_relative` -> (B,) in the type of rewards.
    Raises ValueError when the shapes differ, or when a judged reward is NaN or infinite.
    """
    low, high = _extremes(rewards, group_ids, judged)
    centred, count = _centred(rewards, low, group_ids, judged)
    return torch.where(judged & (low < high), centred * count / (count - 1).clamp(min=1), 0)


def agreeing(rewards: Tensor, group_ids: Tensor, judged: Tensor) -> Tensor:
    """Where a response teaches nothing: its group's judged rewards have no spread, or it is unjudged itself.

        agreeing_i = not judged_i, or min r = max r over the judged members of i's group

    These are the responses whose `group_relative` and `leave_one_out` advantages are 0 for that reason, so a batch may
    drop them before any forward. (DAPO's dynamic sampling, arXiv 2503.14476, §3.2, drops such groups.)
    Shapes: rewards (B,) floating, group_ids (B,) long, judged (B,) bool -> (B,) bool.
    Raises ValueError when the shapes differ, or when a judged reward is NaN or infinite.
    """
    low, high = _extremes(rewards, group_ids, judged)
    return ~(judged & (low < high))


def _extremes(rewards: Tensor, group_ids: Tensor, judged: Tensor) -> tuple[Tensor, Tensor]:
    """The lowest and the highest judged reward of each response's group, (B,) each; +inf and −inf where none is."""
    if not rewards.shape == group_ids.shape == judged.shape or rewards.dim() != 1:
        shapes = tuple(rewards.shape), tuple(group_ids.shape), tuple(judged.shape)
        raise ValueError("rewards, group_ids and judged must be (B,) each; their shapes are {}, {}, {}".format(*shapes))
    if not bool((rewards.isfinite() | ~judged).all()):
        raise ValueError("a judged reward is NaN or infinite; a response that could not be judged has judged = False")
    groups, index = _indexed(group_ids)
    low = rewards.new_full((groups,), torch.inf)
    low = low.scatter_reduce(0, index, torch.where(judged, rewards, torch.inf), "amin")
    high = rewards.new_full((groups,), -torch.inf)
    high = high.scatter_reduce(0, index, torch.where(judged, rewards, -torch.inf), "amax")
    return low[index], high[index]


def _centred(rewards: Tensor, low: Tensor, group_ids: Tensor, judged: Tensor) -> tuple[Tensor, Tensor]:
    """Each reward minus the mean of its group's judged ones, and how many those are, (B,) each.

    The first means nothing where a response is unjudged.
    """
    # Measured from the group's lowest reward, not from 0: equal rewards become exact zeros at any offset (the mean of
    # seven 0.3 is not 0.3), and a large offset does not eat the digits of the differences.
    above_low = torch.where(judged, rewards - low, 0)
    count = _group_sum(judged.to(rewards.dtype), group_ids)
    return above_low - _group_sum(above_low, group_ids) / count.clamp(min=1), count


def _group_sum(values: Tensor, group_ids: Tensor) -> Tensor:
    """The sum over each response's group, (B,) -> (B,)."""
    groups, index = _indexed(group_ids)
    return values.new_zeros(groups).index_add(0, index, values)[index]


def _indexed(group_ids: Tensor) -> tuple[int, Tensor]:
    """The number of groups P, and the ids renumbered to 0 … P − 1: an id may be any integer, a hash for one."""
    ids, index = torch.unique(group_ids, return_inverse=True)
    return len(ids), index
