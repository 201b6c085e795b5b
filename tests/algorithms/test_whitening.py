import math

import pytest
import torch
from torch import Tensor

from reasonrl.algorithms.whitening import explained_variance, whiten

NAN, INF = float("nan"), float("inf")
# the tokens 1, 2, 3 and 6 have mean 3 and variance 3.5
VALUES = torch.tensor([[1.0, NAN, 2], [INF, 3, 6]], dtype=torch.float64)
MASK = torch.tensor([[1, 0, 1], [0, 1, 1]])


def test_by_hand() -> None:
    expected = torch.tensor([[-2.0, 0, -1], [0, 0, 3]], dtype=torch.float64)
    torch.testing.assert_close(whiten(VALUES, MASK, eps=0.0), expected / math.sqrt(3.5), rtol=0, atol=1e-12)
    torch.testing.assert_close(whiten(VALUES, MASK, eps=0.5), expected / (math.sqrt(3.5) + 0.5), rtol=0, atol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.3, 1 / 3, 1e6 + 0.3, -1e20, 1e-300])
@pytest.mark.parametrize("size", [1, 7, 10, 99991])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("eps", [0.0, 1e-8])
def test_equal_values_give_exactly_zero(value: float, size: int, dtype: torch.dtype, eps: float) -> None:
    values, mask = torch.full((1, size), value, dtype=dtype), torch.ones(1, size)
    assert not whiten(values, mask, eps=eps).any()
    assert explained_variance(torch.linspace(0, 1, size)[None], values, mask).item() == 0


def test_a_large_offset_does_not_eat_the_differences() -> None:
    # 2^20 and eighths are exact in float32, and so are squares of the differences, but not those of the values
    eighths = torch.tensor([[1.0, 2, 3, 6]]) / 8
    near_zero, far = whiten(eighths, torch.ones(1, 4)), whiten(2**20 + eighths, torch.ones(1, 4))
    assert torch.equal(near_zero, far)
    huge = torch.tensor([[1.0, 2, 3, 6]], dtype=torch.float64) + 2**50
    expected = torch.tensor([[-2.0, -1, 0, 3]], dtype=torch.float64) / math.sqrt(3.5)
    torch.testing.assert_close(whiten(huge, torch.ones(1, 4), eps=0.0), expected, rtol=0, atol=1e-12)


def test_no_token_gives_zero() -> None:
    nothing = torch.zeros_like(MASK)
    assert whiten(VALUES, nothing).tolist() == [[0] * 3] * 2
    assert whiten(VALUES, nothing, eps=0.0).tolist() == [[0] * 3] * 2
    assert explained_variance(VALUES, VALUES, nothing).item() == 0
    assert whiten(VALUES[:, :0], MASK[:, :0]).shape == (2, 0)


def test_type_stays_and_no_gradient_flows() -> None:
    values = VALUES.float().requires_grad_()
    whitened = whiten(values, MASK)
    assert whitened.dtype == torch.float32
    assert not whitened.requires_grad
    assert not explained_variance(values, values, MASK).requires_grad


@pytest.mark.parametrize(
    ("values", "by_hand"),
    [
        ([1.0, 2, 3, 6], 1),
        ([11.0, 12, 13, 16], 1),  # a constant error explains as much
        ([5.0, 5, 5, 5], 0),
        ([2.0, 4, 6, 12], 0),  # what is left is the returns, negated
        ([-1.0, -2, -3, -6], -3),  # twice the returns are left: four times the variance
        ([1.0, 2, 3, 4], 1 - 0.75 / 3.5),  # 0, 0, 0, 2 are left
    ],
)
def test_explained_variance_by_hand(values: list[float], by_hand: float) -> None:
    critic = torch.tensor([[values[0], INF, values[1]], [NAN, *values[2:]]], dtype=torch.float64)
    assert explained_variance(critic, VALUES, MASK).item() == pytest.approx(by_hand, abs=1e-12)


def test_a_sum_over_processes_is_asked_for_in_float64_with_every_part_of_the_batch() -> None:
    asked: list[Tensor] = []

    def doubled(total: Tensor) -> Tensor:
        """The sum over two processes that hold the same."""
        asked.append(total)
        return 2 * total

    torch.testing.assert_close(whiten(VALUES.float(), MASK, sum_over=doubled), whiten(VALUES.float(), MASK))
    assert [(total.dtype, total.shape) for total in asked] == [(torch.float64, (2,))] * 2
    assert asked[0].tolist() == [4, 12]


def test_shapes_that_would_broadcast_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"mask has shape \(2, 3\)"):
        whiten(VALUES[:1], MASK)
    with pytest.raises(ValueError, match=r"mask has shape \(2, 3\)"):
        explained_variance(VALUES[:, :1], VALUES, MASK)
