import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from reasonrl.algorithms.importance import log_importance, truncated_importance

NAN, INF = math.nan, math.inf
LOGPROB = st.floats(-50, 0, width=32)


def row(*values: float) -> Tensor:
    return torch.tensor([values], dtype=torch.float64)


def test_weights_by_hand() -> None:
    """π_old 0.2, 0.3, 0.9, 0.01 and μ 0.4, 0.2, 0.1, 0.01: ratios 1/2, 3/2, 9 and 1."""
    old, sampler = row(0.2, 0.3, 0.9, 0.01).log(), row(0.4, 0.2, 0.1, 0.01).log()
    mask = torch.ones(1, 4)
    torch.testing.assert_close(truncated_importance(old, sampler, mask, 2.0), row(0.5, 1.5, 2.0, 1.0))
    torch.testing.assert_close(truncated_importance(old, sampler, mask, 10.0), row(0.5, 1.5, 9.0, 1.0))
    torch.testing.assert_close(truncated_importance(old, sampler, mask, 1.0), row(0.5, 1.0, 1.0, 1.0))
    torch.testing.assert_close(log_importance(old, sampler, mask), row(0.5, 1.5, 9.0, 1.0).log())


def test_without_a_cap_that_binds_the_weighted_average_is_one_under_the_old_policy() -> None:
    """Σ_v μ(v)·w(v)·f(v) = Σ_v π_old(v)·f(v), over a whole vocabulary."""
    torch.manual_seed(0)
    old, sampler = (torch.randn(1, 7, dtype=torch.float64).log_softmax(-1) for _ in range(2))
    weights = truncated_importance(old, sampler, torch.ones(1, 7), 1e9)
    values = torch.randn(1, 7, dtype=torch.float64)
    torch.testing.assert_close((sampler.exp() * weights * values).sum(), (old.exp() * values).sum())


@given(st.lists(LOGPROB, min_size=1, max_size=8), st.floats(1, 8))
def test_equal_policies_have_weight_exactly_1(values: list[float], cap: float) -> None:
    logprobs = torch.tensor([values])
    assert torch.equal(
        truncated_importance(logprobs, logprobs, torch.ones(1, len(values)), cap), torch.ones(1, len(values))
    )


@given(st.lists(st.tuples(LOGPROB, LOGPROB), min_size=1, max_size=8), st.floats(1, 8))
def test_weights_lie_between_0_and_the_cap(pairs: list[tuple[float, float]], cap: float) -> None:
    old, sampler = (torch.tensor([side]) for side in zip(*pairs, strict=True))
    weights = truncated_importance(old, sampler, torch.ones(1, len(pairs)), cap)
    assert bool(((weights >= 0) & (weights <= torch.tensor(cap))).all())


@pytest.mark.parametrize("hidden", [NAN, INF, -INF])
@pytest.mark.parametrize("kind", [torch.bool, torch.long, torch.float32])
def test_nothing_behind_the_mask_leaks(hidden: float, kind: torch.dtype) -> None:
    mask = torch.tensor([[1, 0, 1, 0]], dtype=kind)
    old, sampler = row(-1.0, hidden, -2.0, -3.0).requires_grad_(), row(-1.5, -1.0, -2.0, hidden)
    weights = truncated_importance(old, sampler, mask, 2.0)
    torch.testing.assert_close(weights, row(math.exp(0.5), 0.0, 1.0, 0.0))
    torch.testing.assert_close(log_importance(old, sampler, mask), row(0.5, 0.0, 0.0, 0.0))


def test_a_weight_is_a_constant_of_the_loss() -> None:
    logprobs, sampler = row(-1.0, -2.0).requires_grad_(), row(-1.5, -1.0).requires_grad_()
    weights = truncated_importance(logprobs, sampler, torch.ones(1, 2), 2.0)
    assert not weights.requires_grad
    (weights * logprobs).sum().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(logprobs.grad, weights)
    assert sampler.grad is None


@pytest.mark.parametrize("missing", [NAN, INF, -INF])
def test_a_missing_sampler_logprob_is_an_error_and_never_0(missing: float) -> None:
    with pytest.raises(ValueError, match="no finite sampler log-probability"):
        truncated_importance(row(-1.0, -2.0), row(-1.0, missing), torch.ones(1, 2), 2.0)


def test_what_the_trainer_could_not_compute_shows() -> None:
    """A model whose logits are NaN must give a loss that the session skips, not a quiet weight."""
    weights = truncated_importance(row(NAN, -2.0), row(-1.0, -2.0), torch.ones(1, 2), 2.0)
    torch.testing.assert_close(weights, row(NAN, 1.0), equal_nan=True)


def test_faults_are_errors() -> None:
    with pytest.raises(ValueError, match="mask has shape"):
        truncated_importance(row(-1.0), row(-1.0), torch.ones(1, 2), 2.0)
    with pytest.raises(ValueError, match="mask has shape"):
        truncated_importance(row(-1.0, -1.0), row(-1.0), torch.ones(1, 2), 2.0)
    with pytest.raises(ValueError, match=r"cap .* is 0\.5; it must be at least 1"):
        truncated_importance(row(-1.0), row(-1.0), torch.ones(1, 1), 0.5)
