import math

import pytest
import torch
from torch import Tensor

from reasonrl.algorithms.aggregation import aggregate, count
from reasonrl.algorithms.kl import KL_ESTIMATORS, KLEstimator, kl_estimate
from reasonrl.algorithms.masking import masked

# a policy and a reference over a vocabulary of 5
POLICY = torch.tensor([1.0, -0.5, 0.3, 2.0, -1.0], dtype=torch.float64)
REF = torch.tensor([0.2, 0.4, -0.6, 0.5, 1.0], dtype=torch.float64).log_softmax(0)


def kl(p: Tensor, q: Tensor) -> Tensor:
    """KL(p ‖ q) of two vectors of log-probabilities."""
    return (p.exp() * (p - q)).sum()


def expected(estimator: KLEstimator, logprobs: Tensor, weights: Tensor) -> Tensor:
    """Σ_v w_v k(v): the estimator's mean over the vocabulary."""
    return (weights * kl_estimate(logprobs, REF, estimator)).sum()


@pytest.mark.parametrize(
    ("estimator", "by_hand"),
    [
        ("k1", [math.log(2), -math.log(2)]),
        ("k2", [math.log(2) ** 2 / 2] * 2),
        ("k3", [math.log(2) - 0.5, 1 - math.log(2)]),
    ],
)
def test_by_hand(estimator: KLEstimator, by_hand: list[float]) -> None:
    logprobs = torch.tensor([[0.5, 0.25]], dtype=torch.float64).log()
    ref_logprobs = torch.tensor([[0.25, 0.5]], dtype=torch.float64).log()
    assert kl_estimate(logprobs, ref_logprobs, estimator)[0].tolist() == pytest.approx(by_hand)


@pytest.mark.parametrize("estimator", KL_ESTIMATORS)
def test_a_policy_at_its_reference_has_none(estimator: KLEstimator) -> None:
    assert kl_estimate(REF, REF, estimator).tolist() == [0.0] * 5


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_k1_and_k3_are_unbiased(estimator: KLEstimator) -> None:
    logprobs = POLICY.log_softmax(0)
    assert expected(estimator, logprobs, logprobs.exp()).item() == pytest.approx(kl(logprobs, REF).item(), rel=1e-12)


def test_k3_keeps_its_digits_near_the_reference() -> None:
    difference = torch.logspace(-3, 0, 200, dtype=torch.float32)
    for d in (difference, -difference):
        exact = torch.expm1(-d.double()) + d.double()
        torch.testing.assert_close(kl_estimate(d, torch.zeros_like(d), "k3").double(), exact, rtol=2e-4, atol=0)
    assert (kl_estimate(difference * 1e-3, torch.zeros_like(difference), "k3") >= 0).all()


@pytest.mark.parametrize(("estimator", "forward"), [("k2", True), ("k3", False)])
def test_the_gradient_of_the_loss_is_that_of_the_kl_the_docstring_names(estimator: KLEstimator, forward: bool) -> None:
    logits = POLICY.clone().requires_grad_()
    logprobs = logits.log_softmax(0)
    (gradient,) = torch.autograd.grad(expected(estimator, logprobs, logprobs.detach().exp()), logits, retain_graph=True)
    exact = kl(logprobs, REF) if forward else kl(REF, logprobs)
    torch.testing.assert_close(gradient, torch.autograd.grad(exact, logits)[0])
    assert gradient.abs().max() > 0.01


def test_k1_as_a_loss_has_no_gradient_on_average() -> None:
    logits = POLICY.clone().requires_grad_()
    logprobs = logits.log_softmax(0)
    (gradient,) = torch.autograd.grad(expected("k1", logprobs, logprobs.detach().exp()), logits)
    torch.testing.assert_close(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize("estimator", ["k2", "k3"])
@pytest.mark.parametrize("seed", range(5))
def test_a_step_with_only_the_kl_term_lowers_the_kl(estimator: KLEstimator, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(5, generator=generator, dtype=torch.float64).requires_grad_()
    logprobs = logits.log_softmax(0)
    sampled = torch.multinomial(logprobs.detach().exp(), 64 * 32, replacement=True, generator=generator).view(64, 32)
    mask = torch.arange(32) < torch.randint(1, 33, (64, 1), generator=generator)
    sequences, tokens = count(mask)
    per_token = kl_estimate(masked(logprobs[sampled], mask), masked(REF[sampled], mask), estimator)
    loss = aggregate(per_token, mask, "token_mean", sequences=sequences, tokens=tokens)
    (gradient,) = torch.autograd.grad(loss, logits)
    after = (logits.detach() - 0.05 * gradient).log_softmax(0)
    assert kl(after, REF) < kl(logprobs, REF)
    assert kl(REF, after) < kl(REF, logprobs)


def test_shapes_that_would_broadcast_are_an_error() -> None:
    with pytest.raises(ValueError, match="ref_logprobs"):
        kl_estimate(torch.zeros(2, 3), torch.zeros(3), "k3")
