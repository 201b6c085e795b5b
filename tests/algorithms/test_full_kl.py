"""The exact KL of two distributions of tokens, and its gradients."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from reasonrl.algorithms.kl import full_kl, kl_estimate

INF = math.inf
LOGITS = st.lists(st.floats(-30, 30), min_size=5, max_size=5)


def logits(probabilities: list[float], shift: float = 0.0) -> Tensor:
    return (torch.tensor(probabilities, dtype=torch.float64).log() + shift).requires_grad_()


@pytest.mark.parametrize(
    ("p", "q", "by_hand"),
    [
        ([0.5, 0.5], [0.25, 0.75], 0.5 * math.log(2) + 0.5 * math.log(2 / 3)),
        ([0.5, 0.5, 0.0], [0.25, 0.25, 0.5], math.log(2)),
        ([0.5, 0.5, 0.0], [0.25, 0.75, 0.0], 0.5 * math.log(2) + 0.5 * math.log(2 / 3)),
        ([0.0, 1.0], [0.0, 1.0], 0.0),
        ([0.5, 0.5], [1.0, 0.0], INF),
    ],
)
def test_by_hand(p: list[float], q: list[float], by_hand: float) -> None:
    assert full_kl(logits(p, 3.0), logits(q, -7.0)).item() == pytest.approx(by_hand)


def test_a_banned_token_has_no_gradient_and_spoils_no_other() -> None:
    p, q = logits([0.5, 0.5, 0.0, 0.0]), logits([0.25, 0.25, 0.5, 0.0])
    to_p, to_q = torch.autograd.grad(full_kl(p, q), [p, q])
    # dKL/dp_v = p_v (log p_v/q_v − KL), here log 2 − log 2;   dKL/dq_v = q_v − p_v
    assert to_p.tolist() == pytest.approx([0.0] * 4)
    assert to_q.tolist() == pytest.approx([-0.25, -0.25, 0.5, 0.0])


def test_the_gradient_goes_to_both() -> None:
    generator = torch.Generator().manual_seed(1)
    p, q = (torch.randn(2, 3, 5, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(2))
    assert torch.autograd.gradcheck(full_kl, (p, q))
    assert torch.autograd.gradgradcheck(full_kl, (p, q))


def test_its_curvature_where_both_are_equal_is_the_fisher_information() -> None:
    policy = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
    fisher = policy.diag() - policy.outer(policy)
    for moved in (0, 1):
        pair = [policy.log(), policy.log()]
        at = pair[moved].requires_grad_()
        (gradient,) = torch.autograd.grad(full_kl(*pair), at, create_graph=True)
        curvature = [torch.autograd.grad(slope, at, retain_graph=True)[0] for slope in gradient]
        torch.testing.assert_close(torch.stack(curvature), fisher)


def test_it_is_the_mean_of_its_estimate() -> None:
    p, q = logits([0.5, 0.3, 0.2]), logits([0.2, 0.2, 0.6])
    estimate = kl_estimate(p.log_softmax(-1), q.log_softmax(-1), "k1")
    torch.testing.assert_close(full_kl(p, q), (p.softmax(-1) * estimate).sum())


@settings(deadline=None)
@given(p=LOGITS, q=LOGITS, banned=st.sets(st.integers(0, 4), max_size=4), kept=st.sets(st.integers(0, 4)))
def test_it_is_never_negative_and_banning_in_both_is_leaving_out(
    p: list[float], q: list[float], banned: set[int], kept: set[int]
) -> None:
    left = [index for index in range(5) if index not in banned]
    whole = [torch.tensor(values, dtype=torch.float64) for values in (p, q)]
    with_banned = [values.clone() for values in whole]
    for values in with_banned:
        values[list(banned)] = -INF
    kl = full_kl(*with_banned)
    assert kl >= 0
    torch.testing.assert_close(kl, full_kl(*(values[left] for values in whole)))
    near = whole[0] + 1e-9 * torch.tensor([index in kept for index in range(5)])
    assert full_kl(whole[0].float(), near.float()) >= 0
    assert full_kl(whole[0], near) >= 0


@pytest.mark.parametrize("seed", range(5))
def test_a_gradient_step_on_it_lowers_it(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    policy, ref = torch.randn(2, 4, 6, generator=generator, dtype=torch.float64)
    for forward in (True, False):

        def kl(moved: Tensor, forward: bool = forward) -> Tensor:
            return (full_kl(moved, ref) if forward else full_kl(ref, moved)).mean()

        start = policy.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(kl(start), start)
        assert kl(policy - 0.1 * gradient) < kl(policy)


def test_shapes_that_would_broadcast_are_an_error() -> None:
    with pytest.raises(ValueError, match="logits_q"):
        full_kl(torch.zeros(2, 3), torch.zeros(3))
