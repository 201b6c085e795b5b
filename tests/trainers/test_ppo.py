"""PPO's rewards, advantages and returns by hand; when a step's updates stop; how β of PPO-Penalty adapts."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from plain_ppo import Case, case_of, config, estimated, plain_distributions, ppo_of, unchanged
from small_runs import judged, new_critic, ppo_run, tiny_policy, weights_of
from torch import Tensor

from reasonrl.batch import Batch
from reasonrl.config import PPOConfig
from reasonrl.models.critic import Critic
from reasonrl.trainers.metrics import TokenStats
from reasonrl.trainers.objective import objective_of
from reasonrl.trainers.policy import paying
from reasonrl.trainers.ppo import PPO, VALUE_MEANS, adapt_penalty, policy_loss, with_gae
from reasonrl.trainers.sample import Sample, Step, row_of
from reasonrl.trainers.updates import Updates, update_all

POLICY = tiny_policy()


class Tenths(Critic):
    """Values each token with a tenth of its id, and with NaN what is behind the mask."""

    def values(self, batch: Batch, *, share_prompt: bool) -> Tensor:
        return torch.where(batch.response_mask.bool(), batch.response_ids / 10, math.nan)


def tenths(wanted: PPOConfig, **parts: Any) -> PPO:
    critic = new_critic(POLICY)
    return ppo_run(wanted, POLICY, Tenths(critic.model, critic.head, False), **parts)


def sample(ids: Sequence[int], reward: float | None, *, steps: Sequence[Step] = (), **row: Any) -> Sample:
    one = judged(0, 0, ids, reward)
    known = reward is not None
    return Sample(one, replace(row_of(one, 0), **row), reward or 0.0, tuple(steps), counted=known, learns=known)


def hand(**settings: Any) -> PPOConfig:
    return config(**{"discount": 1.0, "gae_lambda": 1.0, "whiten": False} | settings)


# --- rewards, advantages, returns ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "charges"),
    [("k1", (0.5, -1.0, 0.0)), ("k2", (0.125, 0.5, 0.0)), ("k3", (math.exp(-0.5) - 0.5, math.e - 2, 0.0))],
)
def test_every_token_pays_for_its_kl_and_the_outcome_and_steps_stand_on_theirs(
    estimator: str, charges: tuple[float, ...]
) -> None:
    # With V = 0 and λ = 0 a token's advantage is its reward.
    wanted = hand(gae_lambda=0.0, process_weight=0.5, kl={"coefficient": 0.2, "estimator": estimator})
    ppo = ppo_run(wanted, POLICY, new_critic(POLICY), reference=POLICY.model)
    steps = [Step(0.4, 0), Step(-0.6, 1), Step(0.1, 1)]
    bare = sample((3, 4, 5), 1.0, steps=steps, ref_logprobs=(-1.5, -1.0, -0.5))
    one = paying(ppo.run, bare, (-1.0, -2.0, -0.5))
    [found] = with_gae(ppo, [one])[0]
    expected = [0.5 * 0.4 - 0.2 * charges[0], 0.5 * (-0.6 + 0.1) - 0.2 * charges[1], 1.0 - 0.2 * charges[2]]
    assert found.row.advantages == pytest.approx(expected, abs=1e-12)
    assert found.row.returns == pytest.approx(expected, abs=1e-12)
    ppo.run.beta.value = 0.0
    [free] = with_gae(ppo, [one])[0]
    assert free.row.advantages == pytest.approx([0.2, -0.25, 1.0], abs=1e-12)


def test_generalised_advantages_by_hand() -> None:
    ppo = tenths(hand(discount=0.9, gae_lambda=0.5))
    found, explained = with_gae(ppo, [sample((3, 5), 1.0), sample((4,), 0.0), sample((9, 9, 9), None)])
    # δ = (0 + 0.9·0.5 − 0.3, 1 − 0.5) = (0.15, 0.5);   A₀ = 0.15 + 0.45·0.5;   one token: A = 0 − 0.4
    assert found[0].row.values == pytest.approx((0.3, 0.5))
    assert found[0].row.advantages == pytest.approx((0.375, 0.5))
    assert found[0].row.returns == pytest.approx((0.675, 1.0))
    assert found[1].row.advantages == pytest.approx((-0.4,))
    assert found[1].row.returns == pytest.approx((0.0,))
    assert found[2].row.advantages == (0.0, 0.0, 0.0), "could not be judged"
    assert [s.learns for s in found] == [True, True, False]
    # R̂ = (0.675, 1, 0), R̂ − V = (0.375, 0.5, −0.4)
    squares = (0.675**2 + 1) / 3 - (1.675 / 3) ** 2
    left = (0.375**2 + 0.5**2 + 0.4**2) / 3 - (0.475 / 3) ** 2
    assert explained == pytest.approx(1 - left / squares)


def test_advantages_are_whitened_over_the_tokens_and_returns_are_not() -> None:
    plain, _ = with_gae(tenths(hand()), [sample((3, 5), 1.0), sample((4,), 0.0), sample((9,), None)])
    white, _ = with_gae(tenths(hand(whiten=True)), [sample((3, 5), 1.0), sample((4,), 0.0), sample((9,), None)])
    # A = (1 − 0.3, 1 − 0.5, −0.4): mean 0.8/3
    assert [a for s in plain for a in s.row.advantages] == pytest.approx([0.7, 0.5, -0.4, 0.0])
    mean = 0.8 / 3
    std = math.sqrt((0.7**2 + 0.5**2 + 0.4**2) / 3 - mean**2)
    expected = [(0.7 - mean) / std, (0.5 - mean) / std, (-0.4 - mean) / std, 0.0]
    assert [a for s in white for a in s.row.advantages] == pytest.approx(expected, rel=1e-6)
    assert [s.row.returns for s in white] == [s.row.returns for s in plain]


def test_a_critic_that_is_right_explains_all_and_leaves_no_advantage() -> None:
    found, explained = with_gae(tenths(hand(value_clip=None)), [sample((10,), 1.0), sample((5, 5), 0.5)])
    assert explained == pytest.approx(1)
    assert [a for s in found for a in s.row.advantages] == pytest.approx([0, 0, 0], abs=1e-7)


@pytest.mark.parametrize("shared", [False, True])
def test_a_new_critic_expects_nothing_so_that_advantages_are_returns(shared: bool) -> None:
    ppo = ppo_run(hand(shared=shared), POLICY, new_critic(POLICY, shared=shared))
    found, explained = with_gae(ppo, [sample((3, 5, 7), 1.0), sample((4,), -0.5)])
    assert [s.row.values for s in found] == [(0.0, 0.0, 0.0), (0.0,)]
    assert [s.row.advantages for s in found] == [(1.0, 1.0, 1.0), (-0.5,)]
    assert [s.row.returns for s in found] == [(1.0, 1.0, 1.0), (-0.5,)]
    assert explained == 0


# --- early stop ------------------------------------------------------------------------------------------------------

CASE = case_of(shared=False)
CUTS = [frozenset(groups) for groups in ((0, 1), (2, 3), (0, 2), (1, 3))]


def updated(case: Case, wanted: PPOConfig, cuts: Sequence[frozenset[int]]) -> tuple[Updates, PPO, list[float]]:
    """Updates on these minibatches, and the mean KL(π_old ‖ π_θ) that each of them had."""
    samples, _ = estimated(case, wanted)
    ppo = ppo_of(case, case.critic, wanted)
    objective = objective_of(wanted, reference=False, corrects_sampler=False)
    stats, measured = objective.stats, []

    class Listening(TokenStats):
        def mark(self) -> None:
            if hasattr(self, "_marked"):
                measured.append(self.mean_since_mark("approx_kl", ppo.run.session))
            super().mark()

    stats.__class__ = Listening
    loss = partial(policy_loss, ppo, objective, None, stats, TokenStats(VALUE_MEANS))
    done = update_all(ppo.run, samples, cuts, loss, stats)
    stats.mark()
    return done, ppo, measured[1:]


def fast(**settings: Any) -> PPOConfig:
    return config(epochs=2, minibatches=2, optimizer={"learning_rate": 0.01, "schedule": "linear"}, **settings)


def near(case: Case) -> Case:
    """With the policy's own log-probabilities for π_old."""
    responses = []
    for one in case.responses:
        ids = list(one.rollout.response_ids)
        own = plain_distributions(case.policy.model, one)[range(len(ids)), ids]
        responses.append(replace(one, rollout=replace(one.rollout, logprobs=tuple(own.tolist()))))
    return replace(case, responses=responses)


def test_a_minibatch_beyond_the_target_changes_no_weight_and_those_after_it_are_skipped() -> None:
    case = near(CASE)
    with unchanged(case):
        done, ppo, kls = updated(case, fast(), CUTS)
        assert (len(done.taken), done.stopped, ppo.run.session.done) == (4, 0, 4)
        rate = ppo.run.session.learning_rate
    assert kls[0] == pytest.approx(0, abs=1e-9)
    stops = max(range(1, 4), key=kls.__getitem__)
    assert stops > 0
    assert kls[stops] > 1.01 * max(kls[:stops])
    with unchanged(case):
        done, ppo, _ = updated(case, fast(target_kl=1.01 * kls[stops] / 1.5), CUTS)
        assert done.stopped == 0
    with unchanged(case):
        updated(case, fast(), CUTS[:stops])
        expected = weights_of(case.policy.model)
    with unchanged(case):
        done, ppo, _ = updated(case, fast(target_kl=0.999 * kls[stops] / 1.5), CUTS)
        assert (len(done.taken), done.stopped) == (stops, 4 - stops)
        metrics = done.metrics(ppo.run.session)
        assert (metrics["updates"], metrics["stopped_updates"]) == (stops, 4 - stops)
        weights = weights_of(case.policy.model)
        assert all(torch.equal(weights[name], expected[name]) for name in expected)
        assert (ppo.run.session.done, ppo.run.session.learning_rate) == (4, rate)
    with unchanged(case):
        done, ppo, _ = updated(case, fast(target_kl=1e-12), CUTS)
        assert (len(done.taken), done.stopped) == (1, 3), "the first is on policy"
        assert (ppo.run.session.done, ppo.run.session.learning_rate) == (4, rate), "the schedule moves on"


def test_a_sampler_that_is_another_policy_stops_no_first_update() -> None:
    with unchanged(CASE):
        done, _, kls = updated(CASE, fast(target_kl=1e-3), CUTS)
    assert kls[0] > 1e-2
    assert (len(done.taken), done.stopped) == (1, 3)
    with unchanged(CASE):
        done, _, _ = updated(CASE, fast(target_kl=1e-3), [frozenset(), *CUTS])
    assert done.taken[0] is None
    assert (len(done.taken), done.stopped) == (2, 3)
    on_policy = config(optimizer={"learning_rate": 0.01}, target_kl=1e-3)
    with unchanged(CASE):
        done, _, _ = updated(CASE, on_policy, [frozenset(range(4))])
    assert (len(done.taken), done.stopped) == (1, 0)


# --- PPO-Penalty -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("target", "factor"), [(0.65, 2.0), (0.68, 1.0), (1.49, 1.0), (1.52, 0.5)])
def test_the_penalty_doubles_or_halves_by_the_kl_that_the_updates_led_to(target: float, factor: float) -> None:
    exact = [
        float((old.exp() * (old - new)).sum(-1)[t])
        for one in CASE.responses
        if one.scored.reward is not None
        for old, new in [[plain_distributions(m, one).detach() for m in (CASE.old, CASE.policy.model)]]
        for t in range(len(old))
    ]
    kl = sum(exact) / len(exact)
    wanted = config(loss="penalty", epochs=2, penalty={"coefficient": 0.3, "target": kl * target})
    ppo, samples = ppo_of(CASE, CASE.critic, wanted), estimated(CASE, wanted)[0]
    said = adapt_penalty(ppo, CASE.old, samples, moved=True)
    assert said == {"penalty_kl": pytest.approx(kl, rel=1e-4), "penalty_coefficient": 0.3}
    assert ppo.penalty.value == pytest.approx(0.3 * factor)


def test_the_penalty_stays_where_no_update_moved_the_policy() -> None:
    wanted = config(loss="penalty", epochs=2, penalty={"coefficient": 0.3, "target": 1.0})
    ppo, samples = ppo_of(CASE, CASE.critic, wanted), estimated(CASE, wanted)[0]
    said = adapt_penalty(ppo, CASE.policy.model, samples, moved=False)
    assert said == {"penalty_kl": pytest.approx(0, abs=1e-9), "penalty_coefficient": 0.3}
    assert ppo.penalty.value == 0.3
