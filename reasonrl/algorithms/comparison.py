"""Is one system better than another on the same problems? Tests and intervals that count problems, not responses."""

import math
from collections.abc import Sequence
from fractions import Fraction

import torch
from torch import Tensor

_CELLS = 2 * 10**8  # problems × possible sums, up to which the test is exact: about a second


def sign_flip(differences: Sequence[Fraction], seed: int = 0, draws: int = 100_000) -> tuple[float, bool]:
    """The two-sided p-value of a paired difference of means: how often chance alone makes as large a one.

        p = P(|Σ_p s_p d_p| ≥ |Σ_p d_p|),  each sign s_p = ±1 with probability ½

    If the two systems are equally good at every problem, their results on it could as well be exchanged, which turns
    the sign of d_p. Nothing else is assumed. With d_p in −1, 0, 1 this is McNemar's exact test. All 2^P signs are
    counted exactly, by adding one problem after the other to the distribution of the sum, where its possible values are
    not too many; else signs are drawn, and p = (1 + hits)/(1 + draws).
    Source: Fisher, The Design of Experiments, §21; Phipson and Smyth 2010 (arXiv 1603.05766) for the drawn form.
    Shapes: differences P fractions, one a problem -> (p, was it exact?).
    Raises ValueError without a difference, or for fewer than one draw.
    """
    if not differences or draws < 1:
        raise ValueError(f"a test needs a difference and a draw; there are {len(differences)} and {draws}")
    unit = math.lcm(*(difference.denominator for difference in differences))
    whole = [int(difference * unit) for difference in differences if difference]
    unit = math.gcd(*whole)
    if not whole:
        return 1.0, True
    whole = [one // unit for one in whole]
    total, found = sum(map(abs, whole)), abs(sum(whole))
    if len(whole) * total > _CELLS:
        return _drawn(whole, found, seed, draws), False
    # probability of each sum of those whose sign is +; the signed sum is twice that, less the total
    chances = torch.zeros(total + 1, dtype=torch.float64)
    chances[0] = 1
    for size in map(abs, whole):
        added = chances / 2
        chances = added.clone()
        chances[size:] += added[: total + 1 - size]
    sums = (2 * torch.arange(total + 1) - total).abs()
    return min(1.0, float(chances[sums >= found].sum())), True


def ability_covariance(wins: Tensor, abilities: Tensor, *, prior: float = 0.0) -> Tensor:
    """The covariance of the log abilities that `bradley_terry_abilities` finds, problems being what was drawn.

        H = −∂²ℓ/∂λ²,  g_p = ∂ℓ_p/∂λ,  Cov = H⁺ (Σ_p (g_p − ḡ)(g_p − ḡ)ᵀ) H⁺,   λ = log θ of mean 0

    The wins of one problem belong together, however many responses to it were compared: the inverse of H alone would
    take each for a comparison of its own. H⁺ is the pseudo-inverse, since only differences of λ matter.
    Source: Huber's sandwich, with problems as clusters (Liang and Zeger 1986, Biometrika 73(1)).
    Shapes: wins (P, M, M), w_pij how often i beat j on problem p; abilities (M,), of the wins' sum and this prior
    -> (M, M) float64.
    Raises ValueError when the shapes differ or there is no problem.
    """
    if wins.dim() != 3 or wins.shape[1:] != (len(abilities), len(abilities)) or not len(wins):
        raise ValueError(f"wins are {tuple(wins.shape)}, abilities {tuple(abilities.shape)}; not (P, M, M) and (M,)")
    counts, theta = wins.double(), abilities.double()
    chances = theta.unsqueeze(1) / (theta.unsqueeze(1) + theta)
    gradients = (counts - (counts + counts.mT) * chances).sum(2)
    gradients = gradients - gradients.mean(0)
    games = (counts + counts.mT).sum(0) + 2 * prior
    information = -games * chances * chances.T
    information.fill_diagonal_(0)
    information -= torch.diag(information.sum(1))
    inverse = torch.linalg.pinv(information, hermitian=True)
    covariance: Tensor = inverse @ (gradients.T @ gradients) @ inverse
    return covariance


def _drawn(differences: Sequence[int], found: int, seed: int, draws: int) -> float:
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.tensor(differences, dtype=torch.float64)
    hits = 0
    for start in range(0, draws, 1000):
        signs = torch.randint(2, (min(1000, draws - start), len(sizes)), generator=generator, dtype=torch.float64)
        # rounding must not make a sum smaller than the found one that it equals
        hits += int((((2 * signs - 1) @ sizes).abs() >= found * (1 - 1e-12)).sum())
    return (1 + hits) / (1 + draws)
