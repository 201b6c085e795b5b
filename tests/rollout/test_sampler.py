"""Drawing a token: the right distribution, and the log-probability under exactly that one."""

import math

import pytest
import torch
from torch import Tensor
from transformers import MinPLogitsWarper

from reasonrl.rollout.engine import Sampling
from reasonrl.rollout.sampler import draw

LOGITS = torch.tensor([2.0, -1.0, 0.5, 3.0, 0.0, -torch.inf, 1.0])


def truncated(logits: Tensor, sampling: Sampling) -> Tensor:
    """The distribution by its definition, one token after the other."""
    p = (logits.double() / sampling.temperature).softmax(-1)
    order = sorted(range(len(p)), key=lambda i: -p[i].item())
    order = [i for i in order if p[i] >= sampling.min_p * p[order[0]]]
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
    Sampling(min_p=0.1), Sampling(temperature=0.6, min_p=0.1), Sampling(temperature=1.4, min_p=0.1),
    Sampling(min_p=1.0), Sampling(min_p=1e-30), Sampling(temperature=1.4, min_p=0.2, top_k=3, top_p=0.7),
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


@pytest.mark.parametrize(
    ("sampling", "possible"),
    [
        # p ∝ 8, 4, 2, 1.
        (Sampling(min_p=0.24), [8, 4, 2, 0]),
        (Sampling(min_p=0.26), [8, 4, 0, 0]),
        # At temperature 2 they are ∝ √8, √4, √2, 1, so that √2 / √8 = 0.5 stays; at ½, ∝ 64, 16, 4, 1.
        (Sampling(temperature=2.0, min_p=0.49), [8**0.5, 2, 2**0.5, 0]),
        (Sampling(temperature=0.5, min_p=0.2), [64, 16, 0, 0]),
        # top-p sees what min-p leaves: 8 + 4 are 0.857 of 14, not 0.8 of 15; 8 is 0.667 of 12, not 0.533 of 15.
        (Sampling(min_p=0.24, top_p=0.86), [8, 4, 2, 0]),
        (Sampling(min_p=0.24, top_p=0.85), [8, 4, 0, 0]),
        (Sampling(min_p=0.4, top_p=0.68), [8, 4, 0, 0]),
        (Sampling(min_p=0.4, top_p=0.66), [8, 0, 0, 0]),
        (Sampling(min_p=0.05, top_k=2), [8, 4, 0, 0]),
    ],
    ids=str,
)
def test_min_p_by_hand(sampling: Sampling, possible: list[float]) -> None:
    logits, n = torch.tensor([8.0, 4.0, 2.0, 1.0]).log() - 3, 1000
    ids, logprobs = draw(logits.expand(n, -1), (torch.arange(n) + 0.5) / n, sampling)
    expected = torch.tensor(possible) / sum(possible)
    assert (torch.bincount(ids, minlength=4) - expected * n).abs().max() <= 1.5
    torch.testing.assert_close(logprobs, expected.log()[ids])


@pytest.mark.parametrize("min_p", [0.003, 0.02, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.5])
def test_min_p_keeps_what_transformers_keeps(min_p: float, temperature: float) -> None:
    logits = 3 * torch.randn(64, 200, generator=torch.Generator().manual_seed(0))
    theirs = MinPLogitsWarper(min_p)(torch.zeros(64, 1, dtype=torch.long), logits / temperature).log_softmax(-1)
    ids, logprobs = draw(
        logits.repeat_interleave(400, 0), (torch.arange(400).repeat(64) + 0.5) / 400, Sampling(temperature, min_p=min_p)
    )
    drawn = torch.zeros(64, 200, dtype=torch.bool)
    drawn[torch.arange(64).repeat_interleave(400), ids] = True
    assert not drawn[theirs.isinf()].any()
    assert drawn[theirs > math.log(1 / 400) + 1e-3].all()
    torch.testing.assert_close(logprobs, theirs[torch.arange(64).repeat_interleave(400), ids], rtol=0, atol=1e-5)


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


@pytest.mark.parametrize("min_p", [0.0, 0.5])
def test_logits_that_are_not_numbers_show_in_the_logprob(min_p: float) -> None:
    ids, logprobs = draw(torch.tensor([[0.0, torch.nan], [0.0, 0.0]]), torch.tensor([0.5, 0.7]), Sampling(min_p=min_p))
    assert logprobs.isnan().tolist() == [True, False]
    assert ids[1] == 1


def test_half_precision_logits_are_scored_in_single() -> None:
    logits = torch.randn(4, 100, generator=torch.Generator().manual_seed(0)).bfloat16()
    ids, logprobs = draw(logits, torch.full((4,), 0.3), Sampling())
    expected = logits.float().log_softmax(-1).gather(-1, ids[:, None]).squeeze(-1)
    torch.testing.assert_close(logprobs, expected)


@pytest.mark.parametrize(
    "fault",
    [
        {"temperature": -1.0},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_k": -1},
        {"max_tokens": 0},
        {"min_p": -0.1},
        {"min_p": 1.1},
        {"temperature": math.nan},
        {"min_p": math.nan},
    ],
)
def test_numbers_out_of_range_are_errors(fault: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="sampling needs"):
        Sampling(**fault)  # type: ignore[arg-type]


def test_an_empty_stop_text_is_an_error() -> None:
    with pytest.raises(ValueError, match="empty stop"):
        Sampling(stop=("a", ""))
