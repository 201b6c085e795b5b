import math

import pytest
import torch
from torch import Tensor

from reasonrl.algorithms.losses import cispo, cispo_clipped
from reasonrl.algorithms.masking import masked

RATIOS = [0.1, 0.75, 1.0, 1.4, 6.0]


def at_ratios() -> tuple[Tensor, Tensor]:
    """logprobs and old_logprobs (1, 5) with the ratios above; log π_θ = −1.5 throughout."""
    logprobs = torch.full((1, 5), -1.5, dtype=torch.float64)
    return logprobs.requires_grad_(), logprobs.detach() - torch.tensor(RATIOS, dtype=torch.float64).log()


@pytest.mark.parametrize(
    ("clip_low", "weights", "held"),
    [(0.2, [0.8, 0.8, 1.0, 1.4, 1.5], [1, 1, 0, 0, 1]), (1.0, [0.1, 0.75, 1.0, 1.4, 1.5], [0, 0, 0, 0, 1])],
)
@pytest.mark.parametrize("advantage", [2.0, -2.0, 0.0])
def test_by_hand(clip_low: float, weights: list[float], held: list[int], advantage: float) -> None:
    logprobs, old_logprobs = at_ratios()
    inputs = (logprobs, old_logprobs, torch.tensor([advantage], dtype=torch.float64))
    loss = cispo(*inputs, clip_low=clip_low, clip_high=0.5)
    assert loss[0].tolist() == pytest.approx([1.5 * weight * advantage for weight in weights])
    # a token whose weight is held keeps its gradient
    (gradient,) = torch.autograd.grad(loss.sum(), logprobs)
    assert gradient[0].tolist() == pytest.approx([-weight * advantage for weight in weights])
    holds = cispo_clipped(*inputs, clip_low=clip_low, clip_high=0.5)
    assert holds[0].tolist() == [bool(h) for h in held]


def test_an_advantage_a_token_is_its_own() -> None:
    logprobs, old_logprobs = at_ratios()
    advantages = torch.tensor([[1.0, 2.0, 3.0, -1.0, -2.0]], dtype=torch.float64)
    loss = cispo(logprobs, old_logprobs, advantages, clip_low=0.2, clip_high=0.5)
    (gradient,) = torch.autograd.grad(loss.sum(), logprobs)
    assert gradient[0].tolist() == pytest.approx([-0.8, -1.6, -3.0, 1.4, 3.0])


def test_the_old_policy_and_the_advantages_are_constants() -> None:
    logprobs = torch.full((1, 2), -1.0, dtype=torch.float64).requires_grad_()
    loss = cispo(logprobs, logprobs, logprobs, clip_low=0.2, clip_high=0.2)
    assert torch.autograd.grad(loss.sum(), logprobs)[0].tolist() == [[1.0, 1.0]]


def test_nan_behind_the_mask_reaches_nothing() -> None:
    mask = torch.tensor([[1, 1, 0]])
    logprobs = torch.tensor([[-1.0, -2.0, math.nan]], requires_grad=True)
    old_logprobs = torch.tensor([[-1.0, -2.1, -math.inf]])
    advantages = torch.tensor([[1.0, -1.0, math.nan]])
    inputs = [masked(tensor, mask) for tensor in (logprobs, old_logprobs, advantages)]
    loss = masked(cispo(*inputs, clip_low=0.2, clip_high=0.2), mask)
    (gradient,) = torch.autograd.grad(loss.sum(), logprobs)
    assert loss[0].tolist() == pytest.approx([1.0, -2 * math.exp(0.1), 0.0])
    assert gradient[0].tolist() == pytest.approx([-1.0, math.exp(0.1), 0.0])


def test_shapes_that_do_not_fit_are_an_error() -> None:
    zeros = torch.zeros(2, 3)
    for function in (cispo, cispo_clipped):
        with pytest.raises(ValueError, match=r"advantages are \(3,\)"):
            function(zeros, zeros, torch.zeros(3), clip_low=0.2, clip_high=0.2)
        with pytest.raises(ValueError, match="old_logprobs"):
            function(zeros, torch.zeros(3), torch.zeros(2), clip_low=0.2, clip_high=0.2)
