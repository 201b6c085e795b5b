import pytest
import torch
from torch import Tensor

from reasonrl.algorithms.returns import gae, returns_to_go

NAN, INF = float("nan"), float("inf")
MASK = torch.tensor([[1, 1, 1, 0, 0], [0, 1, 0, 1, 1], [0, 0, 0, 0, 0]])
# the same three tokens in both rows: what stands between and around them is behind the mask
REWARDS = torch.tensor([[1.0, 2, 3, NAN, INF], [NAN, 1, INF, 2, 3], [NAN] * 5], dtype=torch.float64)
VALUES = torch.tensor([[4.0, 5, 6, INF, NAN], [INF, 4, NAN, 5, 6], [NAN] * 5], dtype=torch.float64)


def spread(three: list[float]) -> list[list[float]]:
    """Numbers of the three tokens, where they stand."""
    return [[*three, 0, 0], [0, three[0], 0, *three[1:]], [0] * 5]


@pytest.mark.parametrize(("gamma", "by_hand"), [(1.0, [6, 5, 3]), (0.5, [2.75, 3.5, 3]), (0.0, [1, 2, 3])])
def test_returns_by_hand(gamma: float, by_hand: list[float]) -> None:
    assert returns_to_go(REWARDS, MASK, gamma=gamma).tolist() == spread(by_hand)


def test_the_discount_is_one_if_not_given() -> None:
    assert returns_to_go(REWARDS, MASK).tolist() == spread([6, 5, 3])


@pytest.mark.parametrize(
    ("bootstrap", "by_hand"),
    [
        # δ = 1 + 5/2 − 4, 2 + 6/2 − 5, 3 − 6; each A is its δ and a quarter of the next A
        (None, [-0.6875, -0.75, -3]),
        (0.0, [-0.6875, -0.75, -3]),
        # the last δ is 3 + 8/2 − 6
        (8.0, [-0.4375, 0.25, 1]),
    ],
)
def test_gae_by_hand(bootstrap: float | None, by_hand: list[float]) -> None:
    after = None if bootstrap is None else torch.tensor([bootstrap, bootstrap, NAN], dtype=torch.float64)
    advantages, returns = gae(REWARDS, VALUES, MASK, gamma=0.5, lam=0.5, bootstrap=after)
    assert advantages.tolist() == spread(by_hand)
    assert returns.tolist() == spread([a + v for a, v in zip(by_hand, [4, 5, 6], strict=True)])


def test_each_response_has_its_own_bootstrap() -> None:
    after = torch.tensor([8.0, 0, -5], dtype=torch.float64)
    advantages, _ = gae(REWARDS, VALUES, MASK, gamma=0.5, lam=0.5, bootstrap=after)
    assert advantages.tolist() == [[-0.4375, 0.25, 1, 0, 0], [0, -0.6875, 0, -0.75, -3], [0] * 5]


def test_with_lambda_zero_it_is_the_td_error() -> None:
    advantages, _ = gae(REWARDS, VALUES, MASK, gamma=0.5, lam=0.0)
    assert advantages.tolist() == spread([-0.5, 0, -3])


def test_with_lambda_one_it_is_return_minus_value() -> None:
    advantages, returns = gae(REWARDS, VALUES, MASK, gamma=0.5, lam=1.0)
    assert returns.tolist() == spread([2.75, 3.5, 3])
    assert advantages.tolist() == spread([-1.25, -1.5, -3])


def test_a_critic_that_knows_the_returns_leaves_no_advantage() -> None:
    values = returns_to_go(REWARDS, MASK, gamma=0.5)
    advantages, returns = gae(REWARDS, values, MASK, gamma=0.5, lam=0.7)
    assert advantages.tolist() == spread([0, 0, 0])
    assert torch.equal(returns, values)


def test_no_gradient_flows() -> None:
    rewards, values = REWARDS.clone().requires_grad_(), VALUES.clone().requires_grad_()
    after = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    for found in (*gae(rewards, values, MASK, gamma=0.9, lam=0.9, bootstrap=after), returns_to_go(rewards, MASK)):
        assert not found.requires_grad


@pytest.mark.parametrize("dtypes", [(torch.float64, torch.float32), (torch.float32, torch.float64)])
def test_float64_beside_float32_stays_float64(dtypes: tuple[torch.dtype, torch.dtype]) -> None:
    rewards, values = torch.full((1, 2), 0.5, dtype=dtypes[0]), torch.full((1, 2), 0.5, dtype=dtypes[1])
    advantages, returns = gae(rewards, values, torch.ones(1, 2), gamma=0.9, lam=0.95)
    assert advantages.tolist() == [[pytest.approx(0.45, abs=1e-12), 0]]
    assert returns.dtype == torch.float64


@pytest.mark.parametrize("mask", [MASK[:, :0], MASK[:0]])
def test_empty(mask: Tensor) -> None:
    nothing = torch.empty(mask.shape)
    assert returns_to_go(nothing, mask).shape == mask.shape
    assert [found.shape for found in gae(nothing, nothing, mask, gamma=1.0, lam=1.0)] == [mask.shape] * 2


def test_shapes_that_would_broadcast_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"mask has shape \(3, 5\) and the values have \(1, 5\)"):
        returns_to_go(REWARDS[:1], MASK)
    with pytest.raises(ValueError, match=r"mask has shape \(3, 5\) and the values have \(3, 4\)"):
        gae(REWARDS, VALUES[:, :4], MASK, gamma=1.0, lam=1.0)
    with pytest.raises(ValueError, match=r"mask has shape \(3, 5\) and the values have \(1, 5\)"):
        gae(REWARDS[:1], VALUES, MASK, gamma=1.0, lam=1.0)
    with pytest.raises(ValueError, match=r"bootstrap is \(3, 1\) and the mask \(3, 5\)"):
        gae(REWARDS, VALUES, MASK, gamma=1.0, lam=1.0, bootstrap=torch.zeros(3, 1))
