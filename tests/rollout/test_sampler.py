"""Drawing a token: the right distribution, and the log-probability under exactly that one."""

import math

import pytest
import torch
from torch import Tensor

from reasonrl.rollout.engine import Sampling
from reasonrl.rollout.sampler import draw

LOGITS = torch.tensor([2.0, -1.0, 0.5, 3.0, 0.0, -torch.inf, 1.0])


def truncated(logits: Tensor, sampling: Sampling) -> Tensor:
    """The distribution by its definition, one token after the other."""
    p = (logits.double() / sampling.temperature).softmax(-1)
    order = sorted(range(len(p)), key=lambda i: -p[i].item())
    kept, mass = order[: sampling.top_k or len(p)], 0.0
    total = sum(p[i].item() for i in kept)
    nucleus = []
    for i in kept:
        if mass < sampling.top_p:
            nucleus.append(i)
        mass += p[i].item() / total
    q = torch.zeros_like(p)
    q[nucleus] = p[nucleus]
    return q / q.sum()


SETTINGS = [
    Sampling(), Sampling(temperature=0.6), Sampling(temperature=1.4), Sampling(top_k=3), Sampling(top_k=1),
    Sampling(top_p=0.8), Sampling(top_p=1e-6), Sampling(temperature=1.4, top_k=4, top_p=0.7), Sampling(top_k=100),
]  # fmt: skip


@pytest.mark.parametrize("sampling", SETTINGS, ids=str)
def test_draws_follow_the_distribution(sampling: Sampling) -> None:
    n = 50_000
    # Evenly spaced draws: each token comes as often as its probability says, up to one.
    uniforms = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    ids, logprobs = draw(LOGITS.expand(n, -1), uniforms, sampling)
    exact = truncated(LOGITS, sampling)
    counts = torch.bincount(ids, minlength=len(LOGITS))
    assert (counts - exact * n).abs().max() <= 1.5
    torch.testing.assert_close(logprobs.double(), exact.log()[ids], rtol=0, atol=1e-6)


def test_independent_draws_follow_the_distribution() -> None:
    n, sampling = 20_000, Sampling(temperature=1.4)
    uniforms = torch.rand(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ids, _ = draw(LOGITS.expand(n, -1), uniforms, sampling)
    expected = truncated(LOGITS, sampling) * n
    counts, possible = torch.bincount(ids, minlength=len(LOGITS)), expected > 0
    chi_square = ((counts - expected) ** 2 / expected)[possible].sum()
    assert counts[~possible].sum() == 0
    assert chi_square < 20.5  # 5 degrees of freedom: exceeded once in 1000 seeds


def test_greedy_takes_the_first_of_the_likeliest_and_scores_it_untempered() -> None:
    logits = torch.tensor([[1.0, 4.0, 4.0, 0.0]])
    ids, logprobs = draw(logits, torch.tensor([0.99]), Sampling(temperature=0))
    assert ids.tolist() == [1]
    assert logprobs.item() == pytest.approx(logits.log_softmax(-1)[0, 1].item(), abs=1e-6)


@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-53])
def test_the_extreme_draws_stay_inside_the_support(uniform: float) -> None:
    # Impossible tokens at both ends, and so many tokens that rounding shows.
    logits = torch.randn(1, 50_000, generator=torch.Generator().manual_seed(0))
    logits[0, :10] = logits[0, -10:] = -torch.inf
    ids, logprobs = draw(logits, torch.tensor([uniform], dtype=torch.float64), Sampling())
    assert 10 <= ids.item() < 50_000 - 10
    assert math.isfinite(logprobs.item())


def test_logits_that_are_not_numbers_show_in_the_logprob() -> None:
    ids, logprobs = draw(torch.tensor([[0.0, torch.nan], [0.0, 0.0]]), torch.tensor([0.5, 0.7]), Sampling())
    assert logprobs.isnan().tolist() == [True, False]
    assert ids[1] == 1


def test_half_precision_logits_are_scored_in_single() -> None:
    logits = torch.randn(4, 100, generator=torch.Generator().manual_seed(0)).bfloat16()
    ids, logprobs = draw(logits, torch.full((4,), 0.3), Sampling())
    expected = logits.float().log_softmax(-1).gather(-1, ids[:, None]).squeeze(-1)
    torch.testing.assert_close(logprobs, expected)


@pytest.mark.parametrize(
    "fault", [{"temperature": -1.0}, {"top_p": 0.0}, {"top_p": 1.1}, {"top_k": -1}, {"max_tokens": 0}]
)
def test_numbers_out_of_range_are_errors(fault: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="sampling needs"):
        Sampling(**fault)  # type: ignore[arg-type]


def test_an_empty_stop_text_is_an_error() -> None:
    with pytest.raises(ValueError, match="empty stop"):
        Sampling(stop=("a", ""))
