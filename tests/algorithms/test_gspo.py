import math

import pytest
import torch
from torch import Tensor

from reasonrl.algorithms.aggregation import AGGREGATIONS, AggregationMode, aggregate, count
from reasonrl.algorithms.gspo import sequence_log_ratio, sequence_ratio
from reasonrl.algorithms.losses import gspo, gspo_clipped

NAN = math.nan
# Token ratios 2 and 1/2, whose geometric mean is 1; 1.2 and 1.2; 0.9 alone; a response without a token.
RATIOS = torch.tensor([[2.0, 0.5], [1.2, 1.2], [0.9, NAN], [NAN, NAN]], dtype=torch.float64)
MASK = torch.tensor([[1, 1], [1, 1], [1, 0], [0, 0]])


def at_ratios() -> tuple[Tensor, Tensor]:
    """logprobs and old_logprobs (4, 2) with the ratios above."""
    old_logprobs = torch.full_like(RATIOS, -1.5)
    return (old_logprobs + RATIOS.log()).requires_grad_(), old_logprobs


def test_the_ratio_is_the_geometric_mean_of_the_tokens_ratios() -> None:
    logprobs, old_logprobs = at_ratios()
    ratio = sequence_ratio(logprobs, old_logprobs, MASK)
    assert ratio.tolist() == pytest.approx([1.0, 1.2, 0.9, 1.0])
    (gradient,) = torch.autograd.grad(ratio.sum(), logprobs)
    torch.testing.assert_close(gradient, torch.tensor([[0.5, 0.5], [0.6, 0.6], [0.9, 0.0], [0.0, 0.0]]).double())


def test_on_a_token_it_has_the_value_of_the_sequence_and_the_gradient_of_the_token() -> None:
    logprobs, old_logprobs = at_ratios()
    log_ratio = sequence_log_ratio(logprobs, old_logprobs, MASK)
    assert log_ratio.exp().flatten().tolist() == pytest.approx([1, 1, 1.2, 1.2, 0.9, 0.9, 1, 1])
    (gradient,) = torch.autograd.grad(log_ratio.sum(), logprobs)
    assert torch.equal(gradient, MASK.double())


@pytest.mark.parametrize(
    ("advantages", "losses", "held"),
    [
        ([2.0, 2.0, 2.0, NAN], [[-2.0, -2.0], [-2.2, -2.2], [-1.8, 0.0], [0.0, 0.0]], [0, 1, 0, 0]),
        ([-2.0, -2.0, -2.0, NAN], [[2.0, 2.0], [2.4, 2.4], [1.9, 0.0], [0.0, 0.0]], [0, 0, 1, 0]),
    ],
)
def test_by_hand(advantages: list[float], losses: list[list[float]], held: list[int]) -> None:
    logprobs, old_logprobs = at_ratios()
    inputs = (logprobs, old_logprobs, torch.tensor(advantages, dtype=torch.float64), MASK)
    loss = gspo(*inputs, clip_low=0.05, clip_high=0.1)
    torch.testing.assert_close(loss, torch.tensor(losses, dtype=torch.float64))
    holds = gspo_clipped(*inputs, clip_low=0.05, clip_high=0.1)
    assert torch.equal(holds, torch.tensor(held)[:, None].bool() & MASK.bool())
    # NaN behind the mask reaches no gradient; one the clip holds has none
    (gradient,) = torch.autograd.grad(loss.sum(), logprobs)
    torch.testing.assert_close(gradient, torch.where(holds, 0.0, loss.detach()))


@pytest.mark.parametrize("mode", AGGREGATIONS)
def test_the_gradient_is_that_of_equation_5(mode: AggregationMode) -> None:
    """What the tokens carry adds up to the gradient of −min(s_i A, clip(s_i) A) through s_i itself."""
    generator = torch.Generator().manual_seed(0)
    logprobs = torch.randn(6, 5, generator=generator, dtype=torch.float64).requires_grad_()
    old_logprobs = logprobs.detach() + 0.3 * torch.randn(6, 5, generator=generator, dtype=torch.float64)
    advantages = torch.randn(6, generator=generator, dtype=torch.float64)
    mask = torch.arange(5) < torch.tensor([5, 1, 3, 2, 4, 5])[:, None]
    sequences, tokens = count(mask)

    def gradient(per_token: Tensor) -> Tensor:
        loss = aggregate(per_token, mask, mode, sequences=sequences, tokens=tokens, max_length=8)
        return torch.autograd.grad(loss, logprobs)[0]

    ratio = sequence_ratio(logprobs, old_logprobs, mask)
    sequence = -torch.minimum(ratio * advantages, ratio.clamp(1 - 0.03, 1 + 0.04) * advantages)
    by_token = gspo(logprobs, old_logprobs, advantages, mask, clip_low=0.03, clip_high=0.04)
    holds = gspo_clipped(logprobs, old_logprobs, advantages, mask, clip_low=0.03, clip_high=0.04).any(1)
    assert 0 < holds.sum() < 6
    torch.testing.assert_close(by_token, torch.where(mask, sequence[:, None], 0))
    torch.testing.assert_close(gradient(by_token), gradient(sequence[:, None].expand(6, 5)), rtol=1e-12, atol=1e-15)


def test_sequence_mean_of_it_is_the_mean_over_responses() -> None:
    logprobs, old_logprobs = at_ratios()
    advantages = torch.tensor([1.0, -2.0, 3.0, 4.0], dtype=torch.float64)
    loss = gspo(logprobs, old_logprobs, advantages, MASK, clip_low=0.2, clip_high=0.3)
    sequences, tokens = count(MASK)
    by_hand = (-1.0 + 2.4 - 2.7) / 3
    mean = aggregate(loss, MASK, "sequence_mean", sequences=sequences, tokens=tokens)
    assert mean.item() == pytest.approx(by_hand)


def test_an_advantage_a_token_reaches_its_own_token_only() -> None:
    logprobs, old_logprobs = at_ratios()
    advantages = torch.tensor([[1.0, -3.0], [1.0, -3.0], [-2.0, NAN], [NAN, NAN]], dtype=torch.float64)
    inputs = (logprobs, old_logprobs, advantages, MASK)
    loss = gspo(*inputs, clip_low=0.2, clip_high=0.1)
    torch.testing.assert_close(loss, torch.tensor([[-1.0, 3.0], [-1.1, 3.6], [1.8, 0.0], [0.0, 0.0]]).double())
    (gradient,) = torch.autograd.grad(loss.sum(), logprobs)
    torch.testing.assert_close(gradient, torch.tensor([[-1.0, 3.0], [0.0, 3.6], [1.8, 0.0], [0.0, 0.0]]).double())
    assert gspo_clipped(*inputs, clip_low=0.2, clip_high=0.1).nonzero().tolist() == [[1, 0]]


def test_the_old_policy_is_a_constant() -> None:
    logprobs = torch.full((2, 3), -1.0, dtype=torch.float64).requires_grad_()
    loss = gspo(logprobs, logprobs, torch.tensor([1.0, -2.0]), torch.ones(2, 3), clip_low=0.1, clip_high=0.1)
    (gradient,) = torch.autograd.grad(loss.sum(), logprobs)
    assert gradient.tolist() == [[-1.0] * 3, [2.0] * 3]


def test_shapes_that_do_not_fit_are_an_error() -> None:
    zeros, mask = torch.zeros(2, 3), torch.ones(2, 3)
    for function in (gspo, gspo_clipped):
        with pytest.raises(ValueError, match=r"advantages are \(3,\)"):
            function(zeros, zeros, torch.zeros(3), mask, clip_low=0.1, clip_high=0.1)
        with pytest.raises(ValueError, match="old_logprobs"):
            function(zeros, torch.zeros(3), torch.zeros(2), mask, clip_low=0.1, clip_high=0.1)
        with pytest.raises(ValueError, match="mask"):
            function(zeros, zeros, torch.zeros(2), torch.ones(2, 1), clip_low=0.1, clip_high=0.1)
    with pytest.raises(ValueError, match="old_logprobs"):
        sequence_ratio(zeros, torch.zeros(2, 1), mask)
