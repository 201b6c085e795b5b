"""Advantages from rewards of steps: a token answers for the steps that end at it or later, and for none before it."""

import torch
from torch import Tensor

from reasonrl.algorithms.advantages import GroupStd, agreeing, group_relative
from reasonrl.algorithms.masking import masked
from reasonrl.algorithms.steps import at_ends, of_response, same_length


def process_relative(
    step_rewards: Tensor,
    step_responses: Tensor,
    step_ends: Tensor,
    group_ids: Tensor,
    judged: Tensor,
    mask: Tensor,
    *,
    std: GroupStd = "population",
    eps: float = 1e-6,
) -> Tensor:
    """The advantage of GRPO with process supervision: of each token, what its step and all later ones earn.

        z_i^(j) = (r_i^(j) − mean R) / (std R + eps),  R = all step rewards of the judged responses of i's group
        A_{i,t} = Σ_{j: end(j) ≥ t} z_i^(j)

    std as in `group_relative`, which this is when every response has one step that ends at its last token.
    Exactly 0 for a group whose step rewards are all equal, for a response without steps or unjudged, for the tokens
    after a response's last step and behind the mask. Nothing of the steps of an unjudged response is read but whose
    they are: reward and end may be anything.
    Paper: DeepSeekMath, arXiv 2402.03300, §4.1.3.
    Shapes: step_rewards (N,) floating, step_responses and step_ends (N,) long as in `Steps`; group_ids (B,) long, any
    ids in any order; judged (B,) bool; mask (B, T) bool or 0/1 -> (B, T) in the type of step_rewards.
    Raises ValueError when the shapes differ; when a step's response is outside the batch; when a judged step's reward
    is NaN or infinite; and when its end is outside the batch, or not on one of its response's tokens in front of the
    mask, unless there are none; KeyError for an unknown std.
    """
    same_length(step_rewards=step_rewards, step_responses=step_responses, step_ends=step_ends)
    same_length(group_ids=group_ids, judged=judged)
    if mask.dim() != 2 or len(mask) != len(judged):
        raise ValueError(f"judged is {tuple(judged.shape)} and the mask {tuple(mask.shape)}; not (B,) and (B, T)")
    known = of_response(judged, step_responses)
    rewards, responses, ends = step_rewards[known], step_responses[known], step_ends[known]
    z = group_relative(rewards, of_response(group_ids, responses), known[known], std=std, eps=eps)
    # summed from the end, so that what stands after the last step is a sum of exact zeros
    return masked(at_ends(z, responses, ends, mask).flip(1).cumsum(1).flip(1), mask)


def process_agreeing(step_rewards: Tensor, step_responses: Tensor, group_ids: Tensor, judged: Tensor) -> Tensor:
    """Where a response teaches nothing: its group's step rewards have no spread, it is unjudged, or it has no steps.

        process_agreeing_i = not judged_i, or i has no steps, or min R = max R

    These are the responses whose `process_relative` advantages are 0 for that reason, so a batch may drop them before
    any forward.
    Shapes: step_rewards (N,) floating, step_responses (N,) long as in `Steps`, group_ids (B,) long, judged (B,) bool
    -> (B,) bool.
    Raises ValueError when the shapes differ, when a step's response is outside the batch, or when a judged step's
    reward is NaN or infinite.
    """
    same_length(step_rewards=step_rewards, step_responses=step_responses)
    same_length(group_ids=group_ids, judged=judged)
    group_of_step, known = of_response(group_ids, step_responses), of_response(judged, step_responses)
    teaching = step_responses[~agreeing(step_rewards, group_of_step, known)]
    return torch.ones_like(judged).index_fill(0, teaching, False)
