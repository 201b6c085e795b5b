import pytest
import torch

from reasonrl.algorithms.masking import masked, masked_mean, masked_sum

NAN, INF = float("nan"), float("inf")


def test_by_hand() -> None:
    values = torch.tensor([[1.0, 2.0, NAN], [4.0, INF, -INF], [NAN, NAN, NAN]])
    mask = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 0, 0]])
    assert masked(values, mask).tolist() == [[1, 2, 0], [4, 0, 0], [0, 0, 0]]
    assert masked_sum(values, mask).item() == 7
    assert masked_sum(values, mask, dim=1).tolist() == [3, 4, 0]
    assert masked_mean(values, mask).item() == pytest.approx(7 / 3)
    assert masked_mean(values, mask, dim=1).tolist() == [1.5, 4, 0]


@pytest.mark.parametrize("dtype", [torch.bool, torch.long, torch.float32, torch.bfloat16])
def test_a_mask_may_be_of_any_type(dtype: torch.dtype) -> None:
    values = torch.tensor([[1.0, 2.0, NAN]])
    assert masked_mean(values, torch.tensor([[1, 1, 0]]).to(dtype)).item() == 1.5


def test_a_long_bfloat16_mask_is_counted_exactly() -> None:
    assert masked_mean(torch.ones(1, 1001), torch.ones(1, 1001, dtype=torch.bfloat16)).item() == 1.0


def test_the_type_of_the_values_stays() -> None:
    flags = torch.tensor([[True, True, False, True]])
    mask = torch.tensor([[1, 1, 1, 0]])
    assert masked(flags, mask).tolist() == [[True, True, False, False]]
    assert masked(flags, mask).dtype == torch.bool
    assert masked_mean(flags, mask).item() == pytest.approx(2 / 3)


def test_the_gradient_behind_the_mask_is_zero_even_of_exp_and_nan() -> None:
    values = torch.tensor([[0.5, NAN, INF, -INF]], requires_grad=True)
    mask = torch.tensor([[1, 0, 0, 0]])
    (gradient,) = torch.autograd.grad(masked(masked(values, mask).exp(), mask).sum(), values)
    assert gradient.tolist() == [[pytest.approx(1.6487213), 0, 0, 0]]


def test_a_mask_on_the_output_alone_leaks_as_the_docstring_warns() -> None:
    values = torch.tensor([[0.5, NAN]], requires_grad=True)
    (gradient,) = torch.autograd.grad(masked(values.exp(), torch.tensor([[1, 0]])).sum(), values)
    assert gradient.isnan().tolist() == [[False, True]]


def test_a_mask_that_would_broadcast_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"shape \(3,\) and the values have \(2, 3\)"):
        masked(torch.ones(2, 3), torch.ones(3))
