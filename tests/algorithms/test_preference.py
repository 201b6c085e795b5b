import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import logsigmoid

from reasonrl.algorithms.preference import (
    accuracy,
    bradley_terry_abilities,
    dpo,
    hinge,
    implicit_rewards,
    ipo,
    margins,
    reward_model_loss,
)

Loss = Callable[..., Tensor]


def pair(*numbers: float) -> list[Tensor]:
    return [torch.tensor([number], dtype=torch.float64).requires_grad_() for number in numbers]


# log π_w, log π_l, log ref_w, log ref_l with Δ = (−3 + 4) − (−6 + 5) = 2; β = ln(3)/2, so that βΔ = ln 3 and σ = 3/4
PAIR, BETA = (-3.0, -6.0, -4.0, -5.0), math.log(3) / 2


@pytest.mark.parametrize(
    ("loss", "by_hand", "slope"),
    [
        (dpo, math.log(4 / 3), -BETA / 4),
        (ipo, (2 - 1 / math.log(3)) ** 2, 2 * (2 - 1 / math.log(3))),
        (hinge, 0.0, 0.0),
    ],
)
def test_by_hand(loss: Loss, by_hand: float, slope: float) -> None:
    inputs = pair(*PAIR)
    value = loss(*inputs, beta=BETA)
    assert value.tolist() == [pytest.approx(by_hand)]
    to = torch.autograd.grad(value.sum(), inputs, allow_unused=True)
    assert [to[0], to[1]] == [pytest.approx(slope), pytest.approx(-slope)]
    assert [gradient is None for gradient in to[2:]] == [True, True]  # the reference is a constant


def test_smoothed_labels_by_hand() -> None:
    smoothed = dpo(*pair(*PAIR), beta=BETA, label_smoothing=0.1)
    assert smoothed.item() == pytest.approx(0.9 * math.log(4 / 3) + 0.1 * math.log(4))
    # its minimum is where the policy is as sure as the labels are: σ(βΔ) = 1 − s
    inputs = pair(math.log(9), 0.0, 0.0, 0.0)
    loss = dpo(*inputs, beta=1.0, label_smoothing=0.1)
    assert torch.autograd.grad(loss.sum(), inputs[0])[0].item() == pytest.approx(0, abs=1e-15)


def test_a_pair_within_the_hinge() -> None:
    inputs = pair(-3.0, -6.0, -4.0, -5.0)
    loss = hinge(*inputs, beta=0.2)
    assert loss.item() == pytest.approx(0.6)
    assert torch.autograd.grad(loss.sum(), inputs[0])[0].item() == pytest.approx(-0.2)


def test_ipo_is_content_at_its_margin() -> None:
    assert ipo(*pair(-3.0, -6.0, -4.0, -5.0), beta=0.25).item() == 0


@settings(deadline=None)
@given(
    logprobs=st.lists(st.tuples(st.floats(-500, 0), st.floats(-500, 0)), min_size=1, max_size=5),
    beta=st.floats(0.01, 5),
    smoothing=st.floats(0, 0.49),
)
def test_at_the_reference_dpo_is_log_2(logprobs: list[tuple[float, float]], beta: float, smoothing: float) -> None:
    chosen, rejected = torch.tensor(logprobs, dtype=torch.float64).T
    loss = dpo(chosen, rejected, chosen, rejected, beta=beta, label_smoothing=smoothing)
    torch.testing.assert_close(loss, torch.full_like(loss, math.log(2)))
    assert hinge(chosen, rejected, chosen, rejected, beta=beta).eq(1).all()
    expected = torch.full_like(loss, 1 / (4 * beta**2))
    torch.testing.assert_close(ipo(chosen, rejected, chosen, rejected, beta=beta), expected)


@settings(deadline=None)
@given(numbers=st.lists(st.floats(-400, 0), min_size=4, max_size=4), beta=st.floats(0.01, 2), shift=st.floats(-50, 50))
def test_dpo_is_the_reward_model_loss_of_its_implicit_rewards(numbers: list[float], beta: float, shift: float) -> None:
    policy_chosen, policy_rejected, ref_chosen, ref_rejected = pair(*numbers)
    chosen = implicit_rewards(policy_chosen, ref_chosen, beta=beta)
    rejected = implicit_rewards(policy_rejected, ref_rejected, beta=beta)
    loss = dpo(policy_chosen, policy_rejected, ref_chosen, ref_rejected, beta=beta)
    torch.testing.assert_close(loss, reward_model_loss(chosen, rejected))
    # a constant of the prompt does not matter
    torch.testing.assert_close(loss, reward_model_loss(chosen + shift, rejected + shift), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_very_sure_pairs_stay_finite(dtype: torch.dtype) -> None:
    right, wrong = torch.tensor([8000.0], dtype=dtype), torch.tensor([-8000.0], dtype=dtype, requires_grad=True)
    zero = torch.zeros(1, dtype=dtype)
    assert dpo(right, zero, zero, zero, beta=1.0, label_smoothing=0.25).item() == 2000
    loss = dpo(wrong, zero, zero, zero, beta=1.0)
    assert loss.item() == 8000
    assert torch.autograd.grad(loss.sum(), wrong)[0].item() == -1
    assert reward_model_loss(wrong, right).item() == 16000
    assert reward_model_loss(right, wrong).item() == 0


def test_rewards_margins_and_accuracy_by_hand() -> None:
    policy, ref = torch.tensor([-3.0, -6.0, -2.0]), torch.tensor([-4.0, -5.0, -2.0])
    rewards = implicit_rewards(policy, ref, beta=0.5)
    assert rewards.tolist() == [0.5, -0.5, 0.0]
    rejected = torch.tensor([0.25, 0.5, 0.0])
    assert margins(rewards, rejected).tolist() == [0.25, -1.0, 0.0]
    assert accuracy(rewards, rejected).tolist() == [1.0, 0.0, 0.0]  # a tie is not right


def test_the_reward_model_by_hand() -> None:
    chosen, rejected = pair(math.log(3) + 1, 1.0)
    assert reward_model_loss(chosen, rejected).item() == pytest.approx(math.log(4 / 3))
    margin = torch.tensor([math.log(3)], dtype=torch.float64)
    assert reward_model_loss(chosen, rejected, margin=margin).item() == pytest.approx(math.log(2))
    centred = reward_model_loss(chosen, rejected, center=0.1)
    assert centred.item() == pytest.approx(math.log(4 / 3) + 0.1 * (math.log(3) + 2) ** 2)
    to = torch.autograd.grad(centred.sum(), [chosen, rejected])
    pull = 2 * 0.1 * (math.log(3) + 2)
    assert [gradient.item() for gradient in to] == pytest.approx([-0.25 + pull, 0.25 + pull])


@pytest.mark.parametrize("loss", [dpo, ipo, hinge])
def test_numbers_that_do_not_fit_a_loss_are_an_error(loss: Loss) -> None:
    zeros = torch.zeros(2)
    with pytest.raises(ValueError, match="beta is 0"):
        loss(zeros, zeros, zeros, zeros, beta=0.0)
    for index in range(4):
        inputs = [torch.zeros(2, 1) if i == index else zeros for i in range(4)]
        with pytest.raises(ValueError, match=r"\(2, 1\)"):
            loss(*inputs, beta=0.1)


def test_numbers_that_do_not_fit_are_an_error() -> None:
    zeros = torch.zeros(2)
    for smoothing in (-0.1, 0.5):
        with pytest.raises(ValueError, match="label_smoothing"):
            dpo(zeros, zeros, zeros, zeros, beta=0.1, label_smoothing=smoothing)
    with pytest.raises(ValueError, match="center"):
        reward_model_loss(zeros, zeros, center=-1.0)
    with pytest.raises(ValueError, match=r"\(1,\)"):
        reward_model_loss(zeros, zeros, margin=torch.zeros(1))
    with pytest.raises(ValueError, match=r"\(3,\)"):
        accuracy(zeros, torch.zeros(3))


def probabilities(abilities: Tensor) -> Tensor:
    """P(i ≻ j), (M, M)."""
    return abilities[:, None] / (abilities[:, None] + abilities)


@pytest.mark.parametrize(("won", "lost", "prior"), [(3, 1, 0.0), (1, 1, 0.0), (10, 0, 0.5), (0, 0, 1.0)])
def test_two_players_by_hand(won: int, lost: int, prior: float) -> None:
    """The ratio of their abilities is that of their wins."""
    abilities = bradley_terry_abilities(torch.tensor([[0, won], [lost, 0]]), prior=prior)
    root = math.sqrt((won + prior) / (lost + prior))
    assert abilities.dtype == torch.float64
    assert abilities.tolist() == pytest.approx([root, 1 / root])


def test_a_cycle_of_three_by_hand() -> None:
    """Each wins twice and loses once: equal. With a chain of 2:1, 2:1 and nothing else: 2, 1, 1/2."""
    assert bradley_terry_abilities(torch.tensor([[0, 2, 1], [1, 0, 2], [2, 1, 0]])).tolist() == pytest.approx([1.0] * 3)
    chain = bradley_terry_abilities(torch.tensor([[0, 2, 0], [1, 0, 2], [0, 1, 0]]))
    assert chain.tolist() == pytest.approx([2.0, 1.0, 0.5])


def test_a_lone_player_is_of_ability_1() -> None:
    assert bradley_terry_abilities(torch.zeros(1, 1)).tolist() == [1.0]


@settings(deadline=None, max_examples=50)
@given(players=st.integers(2, 7), seed=st.integers(0, 10_000), prior=st.sampled_from([0.0, 0.3]))
def test_the_gradient_of_the_likelihood_is_zero_there(players: int, seed: int, prior: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    wins = torch.randint(1 if prior == 0 else 0, 12, (players, players), generator=generator).double()
    wins.fill_diagonal_(0)
    abilities = bradley_terry_abilities(wins, prior=prior)
    assert abilities.log().mean().item() == pytest.approx(0, abs=1e-12)
    scores = abilities.log().requires_grad_()
    others = 1 - torch.eye(players, dtype=torch.float64)
    likelihood = ((wins + prior * others) * logsigmoid(scores[:, None] - scores)).sum()
    (gradient,) = torch.autograd.grad(likelihood, scores)
    torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-7)


def test_expected_wins_give_back_the_abilities() -> None:
    known = torch.tensor([0.1, 0.5, 1.0, 2.0, 10.0], dtype=torch.float64)
    games = torch.tensor([[0, 9, 1, 0, 4], [9, 0, 3, 0, 0], [1, 3, 0, 5, 0], [0, 0, 5, 0, 7], [4, 0, 0, 7, 0]]).double()
    abilities = bradley_terry_abilities(games * probabilities(known))
    torch.testing.assert_close(abilities, known, rtol=1e-7, atol=0)
    # in any order of the players
    order = [3, 0, 4, 1, 2]
    reordered = bradley_terry_abilities((games * probabilities(known))[order][:, order])
    torch.testing.assert_close(reordered, known[order], rtol=1e-7, atol=0)


def test_many_games_recover_the_abilities() -> None:
    known = torch.tensor([0.25, 0.5, 1.0, 2.0, 4.0], dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    chance = probabilities(known).expand(4_000, 5, 5)
    upper = torch.bernoulli(chance, generator=generator).sum(0).triu(1)
    wins = upper + (4_000 - upper).T.tril(-1)
    # some three standard errors of a log ability with 16,000 games a player
    torch.testing.assert_close(bradley_terry_abilities(wins).log(), known.log(), rtol=0, atol=0.06)


@pytest.mark.parametrize(
    ("wins", "i", "j"),
    [
        ([[0, 3], [0, 0]], 1, 0),  # never beaten
        ([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]], 0, 2),  # two halves that never met
        ([[0, 1, 1], [0, 0, 1], [0, 1, 0]], 1, 0),  # one-sided: nobody but 0 ever beats 0
        ([[0, 0], [0, 0]], 0, 1),
    ],
)
def test_wins_without_a_most_likely_ability_are_an_error(wins: list[list[int]], i: int, j: int) -> None:
    counts = torch.tensor(wins)
    with pytest.raises(ValueError, match=f"no chain of wins leads from player {i} to player {j}.*give a prior above 0"):
        bradley_terry_abilities(counts)
    abilities = bradley_terry_abilities(counts, prior=0.1)
    assert abilities.isfinite().all()
    assert (abilities > 0).all()


def test_a_long_chain_of_wins_is_enough() -> None:
    """Each beat the next, and the last the first: 9 wins on the way from the second to the first."""
    wins = torch.eye(10).roll(1, dims=1)
    assert bradley_terry_abilities(wins).tolist() == pytest.approx([1.0] * 10)
    wins[9, 0] = 0
    with pytest.raises(ValueError, match="from player 1 to player 0"):
        bradley_terry_abilities(wins)


@pytest.mark.parametrize(
    ("wins", "prior", "message"),
    [
        ([[0.0, 1.0]], 0.0, r"\(M, M\)"),
        ([[0.0, -1.0], [1.0, 0.0]], 0.0, "not negative"),
        ([[0.0, math.nan], [1.0, 0.0]], 0.0, "finite"),
        ([[1.0, 1.0], [1.0, 0.0]], 0.0, "oneself"),
        ([[0.0, 1.0], [1.0, 0.0]], -0.1, "prior"),
    ],
)
def test_wins_that_are_none_are_an_error(wins: list[list[float]], prior: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bradley_terry_abilities(torch.tensor(wins), prior=prior)


def test_too_few_iterations_are_an_error() -> None:
    wins = torch.tensor([[0, 2, 0], [1, 0, 2], [0, 1, 0]])
    with pytest.raises(RuntimeError, match="in 2 iterations"):
        bradley_terry_abilities(wins, iterations=2)
