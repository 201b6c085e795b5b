"""Steps of responses and what they earn, in flat lists over the batch: responses have unequal numbers of them."""

from typing import NamedTuple

import torch
from torch import Tensor

from reasonrl.algorithms.masking import masked


class Steps(NamedTuple):
    """N steps of B responses, in any order; a tuple, so that `*steps` passes its three parts on.

    A step's end is the index of its last token in its response. Several steps may end at the same token.
    """

    rewards: Tensor  # (N,) floating
    responses: Tensor  # (N,) long: the row of the batch, 0 … B − 1
    ends: Tensor  # (N,) long: the column of the batch, 0 … T − 1


def at_ends(step_values: Tensor, step_responses: Tensor, step_ends: Tensor, mask: Tensor) -> Tensor:
    """The values of steps on the last token of each; where several steps end, their sum.

        x_{i,t} = Σ_{j: end(j) = t} x_i^(j)

    A response of which the mask leaves no token gets 0 everywhere, whatever its steps.
    Shapes: step_values (N,) floating, step_responses and step_ends (N,) long as in `Steps`, mask (B, T) bool or 0/1
    -> (B, T) in the type of step_values.
    Raises ValueError when the shapes differ; when a response or an end is outside the batch; and when a step of a
    response that has tokens in front of the mask ends elsewhere, or has a value that is NaN or infinite.
    """
    same_length(step_values=step_values, step_responses=step_responses, step_ends=step_ends)
    present = mask.bool()
    on_tokens = of_response(present.any(dim=1), step_responses)
    outside = (step_ends < 0) | (step_ends >= mask.shape[1])
    _refuse(outside, step_responses, step_ends, f"which is outside the batch's {mask.shape[1]} tokens")
    _refuse(on_tokens & ~present[step_responses, step_ends], step_responses, step_ends, "which is behind the mask")
    _refuse(on_tokens & ~step_values.isfinite(), step_responses, step_ends, "and its value is NaN or infinite")
    placed = step_values.new_zeros(mask.shape).index_put((step_responses, step_ends), step_values, accumulate=True)
    return masked(placed, mask)


def of_response(values: Tensor, step_responses: Tensor) -> Tensor:
    """For each step the value of its response, (B,) -> (N,). Raises ValueError for a response outside the batch."""
    outside = (step_responses < 0) | (step_responses >= len(values))
    if bool(outside.any()):  # a negative index would silently count from the end
        response = step_responses[outside][0].item()
        raise ValueError(f"a step is of response {response}; the batch has responses 0 to {len(values) - 1}")
    return values[step_responses]


def same_length(**tensors: Tensor) -> None:
    """Raises ValueError unless all are flat and as long as one another: what broadcasts belongs to something else."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if len(set(shapes.values())) != 1 or any(len(shape) != 1 for shape in shapes.values()):
        raise ValueError(f"{', '.join(f'{name} is {shape}' for name, shape in shapes.items())}; not flat of one length")


def _refuse(bad: Tensor, step_responses: Tensor, step_ends: Tensor, why: str) -> None:
    if bool(bad.any()):
        step = int(torch.nonzero(bad)[0])
        response, end = step_responses[step].item(), step_ends[step].item()
        raise ValueError(f"step {step}, of response {response}, ends at token {end}, {why}")
