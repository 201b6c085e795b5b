import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reasonrl.algorithms.masking import masked
from reasonrl.algorithms.values import value_clipped, value_loss

# V, V_old = 1 and R = 2 throughout, ε = 0.5: moved down, not moved, within, beyond the clip toward R, beyond R
VALUES = [0.0, 1.0, 1.2, 1.8, 4.0]


@pytest.mark.parametrize(
    ("clip", "losses", "gradients", "held"),
    [
        (None, [2.0, 0.5, 0.32, 0.02, 2.0], [-2.0, -1.0, -0.8, -0.2, 2.0], [0, 0, 0, 0, 0]),
        # at 1.8 the clipped 1.5 is worse: no reward for having moved so far; at 0 and 4 the value itself is
        (0.5, [2.0, 0.5, 0.32, 0.125, 2.0], [-2.0, -1.0, -0.8, 0.0, 2.0], [0, 0, 0, 1, 0]),
        (0.0, [2.0, 0.5, 0.5, 0.5, 2.0], [-2.0, -1.0, 0.0, 0.0, 2.0], [0, 0, 1, 1, 0]),
    ],
)
def test_by_hand(clip: float | None, losses: list[float], gradients: list[float], held: list[int]) -> None:
    values = torch.tensor([VALUES], dtype=torch.float64).requires_grad_()
    old_values, returns = torch.full_like(values, 1.0), torch.full_like(values, 2.0)
    loss = value_loss(values, old_values, returns, clip=clip)
    assert loss[0].tolist() == pytest.approx(losses)
    holds = value_clipped(values, old_values, returns, clip=clip)
    assert holds[0].tolist() == [bool(h) for h in held]
    (gradient,) = torch.autograd.grad(loss.sum(), values)
    assert gradient[0].tolist() == pytest.approx(gradients)


@settings(deadline=None)
@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(-3, 3), st.floats(0.01, 2))
def test_the_gradient_is_zero_where_clipped_and_that_of_the_squared_error_elsewhere(
    value: float, old_value: float, ret: float, clip: float
) -> None:
    values, old_values, returns = (torch.tensor([[x]], dtype=torch.float64) for x in (value, old_value, ret))
    values.requires_grad_()
    bounds = [
        abs(abs(value - old_value) - clip),
        *(abs(abs(old_value + c - ret) - abs(value - ret)) for c in (-clip, clip)),
    ]
    assume(min(bounds) > 1e-9 or abs(value - old_value) < clip - 1e-9)
    loss = value_loss(values, old_values, returns, clip=clip)
    (gradient,) = torch.autograd.grad(loss.sum(), values)
    holds = value_clipped(values, old_values, returns, clip=clip)
    torch.testing.assert_close(gradient, torch.where(holds, 0.0, values.detach() - returns))
    assert loss.item() >= value_loss(values, old_values, returns).item() - 1e-12


@pytest.mark.parametrize("clip", [None, 0.5])
def test_the_target_and_the_old_values_are_constants(clip: float | None) -> None:
    values, old_values, returns = (torch.tensor([[x]]).requires_grad_() for x in (1.0, 1.3, 2.0))
    loss = value_loss(values, old_values, returns, clip=clip).sum()
    gradients = torch.autograd.grad(loss, [values, old_values, returns], allow_unused=True)
    assert gradients[0] is not None
    assert gradients[0].item() == -1.0
    assert [gradient is None for gradient in gradients[1:]] == [True, True]


@pytest.mark.parametrize("clip", [None, 0.5])
def test_nan_behind_the_mask_reaches_nothing(clip: float | None) -> None:
    mask = torch.tensor([[1, 0]])
    values = torch.tensor([[1.0, math.nan]], requires_grad=True)
    inputs = [
        masked(tensor, mask) for tensor in (values, torch.tensor([[1.0, math.inf]]), torch.tensor([[2, math.nan]]))
    ]
    loss = masked(value_loss(*inputs, clip=clip), mask)
    assert loss.tolist() == [[0.5, 0.0]]
    assert torch.autograd.grad(loss.sum(), values)[0].tolist() == [[-1.0, 0.0]]
    assert value_clipped(*inputs, clip=clip).tolist() == [[False, False]]


def test_shapes_and_clips_that_do_not_fit_are_an_error() -> None:
    zeros = torch.zeros(2, 3)
    for function in (value_loss, value_clipped):
        with pytest.raises(ValueError, match=r"old_values \(3,\)"):
            function(zeros, torch.zeros(3), zeros)
        with pytest.raises(ValueError, match=r"returns \(2, 1\)"):
            function(zeros, zeros, torch.zeros(2, 1))
        with pytest.raises(ValueError, match="must not be negative"):
            function(zeros, zeros, zeros, clip=-0.1)
