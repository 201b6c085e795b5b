"""The sign-flip test and the covariance of abilities, by hand and against what else computes them."""

import itertools
import math
from fractions import Fraction

import pytest
import torch

from reasonrl.algorithms.comparison import ability_covariance, sign_flip
from reasonrl.algorithms.preference import bradley_terry_abilities

F = Fraction


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([F(1)], 1.0),  # +1 and −1: both as large
        ([F(1), F(1)], 0.5),  # ++ and −− of four
        ([F(1), F(1), F(1), F(0)], 0.25),  # a tie says nothing
        ([F(1), F(1), F(-1)], 1.0),  # |Σ| = 1, and no sum of three is less
        ([F(1, 2), F(1, 4), F(1, 4)], 0.25),  # 1 only by +++ and −−−
        ([F(1, 2), F(1, 4), F(-1, 4)], 6 / 8),  # |½ ± ¼ ± ¼| ≥ ½ in 6 of 8
        ([F(0), F(0)], 1.0),
    ],
)
def test_sign_flips_by_hand(differences: list[Fraction], p: float) -> None:
    found, exact = sign_flip(differences)
    assert exact
    assert found == pytest.approx(p, abs=1e-15)
    assert sign_flip([-one for one in differences])[0] == sign_flip(differences)[0]


def test_all_signs_counted_one_by_one() -> None:
    differences = [F(c, 12) for c in (5, -3, 8, 0, 1, -12, 7, 7, 2, -1)]
    found = abs(sum(differences, F(0)))
    every = itertools.product((1, -1), repeat=10)
    sums = [abs(sum((s * d for s, d in zip(signs, differences, strict=True)), F(0))) for signs in every]
    assert sign_flip(differences)[0] == pytest.approx(sum(one >= found for one in sums) / 2**10, abs=1e-15)


def test_with_one_response_each_it_is_mcnemar_s_exact_test() -> None:
    better, worse = 31, 15
    tail = sum(math.comb(better + worse, k) for k in range(better, better + worse + 1)) / 2 ** (better + worse)
    found, exact = sign_flip([F(1)] * better + [F(-1)] * worse + [F(0)] * 400)
    assert exact
    assert found == pytest.approx(2 * tail, rel=1e-12)


def test_drawn_signs_agree_with_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    differences = [F(c, 8) for c in (3, -1, 2, 4, -2, 1, 5, -3, 2, 2)]
    p, exact = sign_flip(differences)
    assert exact
    monkeypatch.setattr("reasonrl.algorithms.comparison._CELLS", 0)
    drawn, exact = sign_flip(differences, seed=1)
    assert not exact
    assert drawn == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / 100_000))
    assert sign_flip(differences, seed=1)[0] == drawn
    assert sign_flip([F(1)] * 60, draws=999)[0] == 1 / 1000, "never 0 where none was drawn"


def test_what_cannot_be_tested() -> None:
    with pytest.raises(ValueError, match="there are 0 and"):
        sign_flip([])


def wins_of(solved: list[list[int]]) -> torch.Tensor:
    """(P, M, M) from which of M systems solved each problem."""
    right = torch.tensor(solved, dtype=torch.float64)
    return right.unsqueeze(2) * (1 - right).unsqueeze(1)


def test_two_systems_have_the_variance_of_a_log_odds_ratio() -> None:
    b, c = 12, 5
    wins = wins_of([[1, 0]] * b + [[0, 1]] * c + [[1, 1]] * 30 + [[0, 0]] * 7)
    abilities = bradley_terry_abilities(wins.sum(0))
    assert float(abilities.log()[0] - abilities.log()[1]) == pytest.approx(math.log(b / c))
    covariance = ability_covariance(wins, abilities)
    # λ₁ − λ₂ has variance 1/b + 1/c; both are half of it away from 0
    assert covariance[0, 0].item() == pytest.approx((1 / b + 1 / c) / 4)
    torch.testing.assert_close(covariance.sum(1), torch.zeros(2, dtype=torch.float64), atol=1e-12, rtol=0)


def test_ten_equal_responses_to_a_problem_are_no_more_sure_than_one() -> None:
    wins = wins_of([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1]] * 4)
    abilities = bradley_terry_abilities(wins.sum(0))
    torch.testing.assert_close(ability_covariance(10 * wins, abilities), ability_covariance(wins, abilities))
    twice = torch.cat([wins, wins])
    torch.testing.assert_close(ability_covariance(twice, abilities), ability_covariance(wins, abilities) / 2)


def test_resampled_problems_spread_as_the_covariance_says() -> None:
    generator = torch.Generator().manual_seed(0)
    chances = torch.tensor([0.7, 0.5, 0.4], dtype=torch.float64)
    ease = torch.rand(300, 1, generator=generator, dtype=torch.float64) * 0.6 - 0.3
    right = torch.rand(300, 3, generator=generator, dtype=torch.float64) < chances + ease
    wins = wins_of(right.int().tolist())
    prior = 0.5
    covariance = ability_covariance(wins, bradley_terry_abilities(wins.sum(0), prior=prior), prior=prior)
    logs = []
    for _ in range(200):
        drawn = wins[torch.randint(300, (300,), generator=generator)].sum(0)
        logs.append(bradley_terry_abilities(drawn, prior=prior, tolerance=1e-6).log())
    spread = torch.stack(logs).T.cov()
    torch.testing.assert_close(covariance.diagonal().sqrt(), spread.diagonal().sqrt(), rtol=0.2, atol=0)


def test_shapes_that_do_not_belong_together() -> None:
    with pytest.raises(ValueError, match=r"not \(P, M, M\) and \(M,\)"):
        ability_covariance(torch.zeros(4, 2, 2), torch.ones(3))
    with pytest.raises(ValueError, match=r"not \(P, M, M\)"):
        ability_covariance(torch.zeros(0, 2, 2), torch.ones(2))
