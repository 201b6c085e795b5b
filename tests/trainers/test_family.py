"""Each critic-free algorithm's update equals, in loss and all gradients, its plain formulas."""

import math
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from plain_family import PRESETS, config_of, family_samples, family_update, plain_update, run_of, token_advantages
from plain_grpo import REWARDS, assert_same, responses_of
from small_runs import grpo_objective, judged, relative_difference, tiny_policy, token_stats
from small_runs import with_advantages as advantages_of

from reasonrl.evaluation.evaluate import Judged
from reasonrl.models.load import Policy, reference_of
from reasonrl.trainers import policy as policy_runs
from reasonrl.trainers.grpo import loss
from reasonrl.trainers.updates import Updates, minibatches, update_all

BETA = {"coefficient": 0.1}
IMPORTANCE = {"none": {"mode": "none"}, "truncated": {"mode": "truncated", "cap": 1.2}}


@pytest.fixture(scope="module")
def start() -> Policy:
    """The policy that a step begins with."""
    return tiny_policy(0)


@pytest.fixture(scope="module")
def moved(start: Policy) -> Policy:
    """The same after an update."""
    policy = replace(start, model=deepcopy(start.model))
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter += 0.2 * parameter.abs().mean() * torch.randn(parameter.shape, generator=draw)
    return policy


@pytest.fixture(scope="module")
def reference() -> Any:
    return reference_of(tiny_policy(1).model)


@pytest.fixture(scope="module")
def responses(start: Policy) -> list[Judged]:
    return responses_of(start)


@pytest.mark.parametrize("importance", IMPORTANCE)
@pytest.mark.parametrize("epochs", [1, 2], ids=["on policy", "off policy"])
@pytest.mark.parametrize("name", PRESETS)
def test_an_update_is_what_the_formulas_say(
    start: Policy, moved: Policy, reference: Any, responses: list[Judged], name: str, epochs: int, importance: str
) -> None:
    """Off policy, the second update of a step. β acts as the preset places and estimates it."""
    wanted = config_of(name, epochs=epochs, importance=IMPORTANCE[importance], kl=BETA)
    samples = family_samples(start, reference, responses, wanted)
    policy = start if wanted.on_policy else moved
    found, measured = family_update(policy, reference, samples, wanted)
    assert_same(found, plain_update(policy, reference, responses, wanted, start))
    if epochs == 2 and wanted.loss in ("clip", "gspo"):
        assert measured["clip_fraction"] > 0


@pytest.mark.parametrize("name", PRESETS)
def test_without_a_reference_too(
    start: Policy, moved: Policy, reference: Any, responses: list[Judged], name: str
) -> None:
    wanted = config_of(name, epochs=2, importance={"mode": "none"})
    samples = family_samples(start, None, responses, wanted)
    found = family_update(moved, None, samples, wanted)[0]
    assert_same(found, plain_update(moved, reference, responses, wanted, start))


@pytest.mark.parametrize("name", PRESETS)
def test_responses_cut_at_the_limit_are_in_the_statistics_and_in_no_loss(
    start: Policy, moved: Policy, reference: Any, responses: list[Judged], name: str
) -> None:
    wanted = config_of(name, epochs=2, importance={"mode": "none"}, kl=BETA, mask_truncated=True)
    samples = family_samples(start, reference, responses, wanted)
    assert [s.counted for s in samples[:4]] == [True, False, True, False]
    assert_same(
        family_update(moved, reference, samples, wanted)[0], plain_update(moved, reference, responses, wanted, start)
    )


@pytest.mark.parametrize("name", PRESETS)
def test_an_entropy_bonus_is_exact_and_reaches_groups_that_agree(
    start: Policy, moved: Policy, reference: Any, responses: list[Judged], name: str
) -> None:
    wanted = config_of(name, epochs=2, importance={"mode": "none"}, entropy_bonus=0.3, entropy=False)
    samples = family_samples(start, None, responses, wanted)
    assert [s.learns for s in samples] == [s.counted for s in samples]
    found, measured = family_update(moved, None, samples, wanted)
    assert_same(found, plain_update(moved, reference, responses, wanted, start))
    bare = config_of(name, epochs=2, importance={"mode": "none"})
    without = family_update(moved, None, samples, bare)[0]
    assert relative_difference(found[1], without[1]) > 1e-3
    assert 0 < measured["entropy"] < math.log(17)


@pytest.mark.parametrize("name", [name for name in PRESETS if config_of(name).loss == "clip"])
def test_a_dual_clip_bounds_the_ratio_of_bad_responses(
    start: Policy, moved: Policy, reference: Any, responses: list[Judged], name: str
) -> None:
    wanted = config_of(name, epochs=2, importance={"mode": "none"}, dual_clip=1.05)
    samples = family_samples(start, None, responses, wanted)
    found, measured = family_update(moved, None, samples, wanted)
    assert_same(found, plain_update(moved, reference, responses, wanted, start))
    bare, less = family_update(moved, None, samples, config_of(name, epochs=2, importance={"mode": "none"}))
    assert relative_difference(found[1], bare[1]) > 1e-3
    assert measured["clip_fraction"] > less["clip_fraction"]


def test_tokens_at_the_bounds_of_cispo_keep_their_gradient(
    start: Policy, moved: Policy, reference: Any, responses: list[Judged]
) -> None:
    wanted = config_of("cispo", epochs=2, importance={"mode": "none"}, clip_low=0.05, clip_high=0.05)
    samples = family_samples(start, None, responses, wanted)
    found, measured = family_update(moved, None, samples, wanted)
    assert_same(found, plain_update(moved, reference, responses, wanted, start))
    assert measured["clip_fraction"] > 0.5


@pytest.mark.parametrize("name", PRESETS)
def test_neither_micro_batches_nor_order_matter(
    start: Policy, reference: Any, responses: list[Judged], name: str
) -> None:
    wanted = config_of(name, epochs=2, importance={"mode": "none"}, kl=BETA)
    samples = family_samples(start, reference, responses, wanted)
    whole = family_update(start, reference, samples, config_of(name, epochs=2, kl=BETA, micro_batch_tokens=10_000))[0]
    for size in (1, 25):
        cut = config_of(name, epochs=2, kl=BETA, micro_batch_tokens=size)
        assert_same(family_update(start, reference, samples[::-1], cut)[0], whole)


# Advantages by hand.


def test_reinforce_pp_has_returns_per_token_with_the_kl_in_them(start: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewards 1 and 0 of responses of two tokens and one, k1 = d of 1, 2 and 3 at β = 0.1; one response is unjudged."""
    bare = [judged(0, 0, (3, 4), 1.0), judged(1, 0, (5,), 0.0), judged(2, 0, (6, 7), None)]
    wanted = config_of("reinforce_pp", group_size=1, problems_per_step=3, kl=BETA)
    shifts = [(1.0, 2.0), (3.0,), (50.0, 50.0)]
    run = run_of(start, reference_of(start.model), wanted)

    def known(run: Any, model: Any, rows: Any) -> list[tuple[float, ...]]:
        return [tuple(-5 + d * (model is start.model) for d in shift) for shift in shifts]

    monkeypatch.setattr(policy_runs, "logprobs_of", known)
    returns = [1 - 0.1 - 0.2, 1 - 0.2, 0 - 0.3]
    mean = sum(returns) / 3
    deviation = math.sqrt(sum((x - mean) ** 2 for x in returns) / 3)
    a, b, c = ((x - mean) / deviation for x in returns)
    samples = advantages_of(run, bare, range(3))
    assert samples[0].row.advantages == pytest.approx((a, b), abs=1e-5)
    assert samples[1].row.advantages == pytest.approx((c,), abs=1e-5)
    assert samples[2].row.advantages == (0.0, 0.0)
    assert [(s.counted, s.learns) for s in samples] == [(True, True), (True, True), (False, False)]


@pytest.mark.parametrize("name", ["reinforce_pp", "reinforce_pp_baseline"])
def test_whitened_advantages_have_mean_0_and_deviation_1_over_all_tokens(
    start: Policy, responses: list[Judged], name: str
) -> None:
    samples = family_samples(start, None, responses, config_of(name))
    values = [a for s in samples if s.known for a in s.row.advantages]
    assert sum(values) == pytest.approx(0, abs=1e-9)
    assert sum(a * a for a in values) / len(values) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("name", ["reinforce_pp", "reinforce_pp_baseline"])
def test_a_batch_that_agrees_teaches_nothing(start: Policy, name: str) -> None:
    agreeing = [judged(p, j, (3, 4 + j, 5 + p)[: 1 + j], 0.3) for p in range(3) for j in range(2)]
    samples = family_samples(start, None, agreeing, config_of(name, group_size=2, problems_per_step=3))
    assert {a for s in samples for a in s.row.advantages} == {0.0}
    assert not any(s.learns for s in samples)
    apart = [judged(0, 0, (3,), 0.4), *agreeing[1:]]
    samples = family_samples(start, None, apart, config_of(name, group_size=2, problems_per_step=3))
    assert samples[0].learns
    assert samples[0].row.advantages[0] > 0 > samples[1].row.advantages[0]


def test_overlong_responses_of_dapo_lose_up_to_1(start: Policy) -> None:
    """A limit of 8 and a buffer of a fifth, 2 tokens: nothing up to 6, half at 7, all of 1 at 8."""
    wanted = config_of("dapo", group_size=4, problems_per_step=1)
    lengths, rewards = (5, 6, 7, 8), (1.0, 0.5, 1.0, 0.0)
    given = [judged(0, j, (3,) * lengths[j], rewards[j]) for j in range(4)]
    samples = family_samples(start, None, given, wanted)
    earned = [1.0, 0.5, 0.5, -1.0]
    assert [s.outcome for s in samples] == earned
    spread = math.sqrt(sum((r - 0.25) ** 2 for r in earned) / 4)
    assert [s.row.advantages[0] for s in samples] == pytest.approx([(r - 0.25) / spread for r in earned], rel=1e-5)


def test_the_formulas_are_not_all_the_same() -> None:
    """Or the comparisons above would tell nothing."""
    rewards, strayed = [r for group in REWARDS for r in group], [[0.0, 0.0] for group in REWARDS for _ in group]
    found = {name: str(token_advantages(rewards, strayed, config_of(name))) for name in PRESETS}
    assert len(set(found.values())) == 5
    assert found["grpo"] == found["dapo"] == found["gspo"] == found["cispo"]


# The early stop.


def updates_of(policy: Policy, given: list[Judged], **settings: Any) -> tuple[Updates, int]:
    """A step's updates, and by how many the schedule has moved on."""
    wanted = config_of("grpo", **settings)
    run = run_of(policy, None, wanted)
    samples, stats = advantages_of(run, given, range(len(REWARDS))), token_stats(run)
    cuts = minibatches(wanted, samples, "0")
    found = update_all(run, samples, cuts, partial(loss, run, grpo_objective(run), stats), stats)
    assert found.metrics(run.session)["stopped_updates"] == found.stopped
    return found, run.session.done


def test_a_policy_that_has_moved_too_far_stops_the_steps_updates(responses: list[Judged]) -> None:
    """Before the first update it has not moved, however far off the sampler's log-probabilities are."""
    found, done = updates_of(tiny_policy(0), responses, epochs=3, minibatches=2, target_kl=1e-9)
    [taken] = [one for one in found.taken if one is not None]
    assert taken.applied
    assert len(found.taken) + found.stopped == done == 6, "the schedule moves on"
    assert found.stopped >= 4, "one minibatch may have had the two groups without spread"


def test_one_that_moves_with_its_updates_stops_in_their_middle(responses: list[Judged]) -> None:
    """Its first update is on policy, with a KL of 0; it moves so far that no other is taken."""
    policy = tiny_policy(0)
    plain = family_samples(policy, None, responses, config_of("grpo", epochs=2, importance={"mode": "truncated"}))
    exact = [
        replace(one, rollout=replace(one.rollout, logprobs=s.row.old_logprobs))
        for one, s in zip(responses, plain, strict=True)
    ]
    fast = {"learning_rate": 0.05}
    found, done = updates_of(policy, exact, epochs=4, target_kl=1e-3, optimizer=fast, importance={"mode": "none"})
    assert (len(found.taken), found.stopped, done) == (1, 3, 4)
    assert found.taken[0] is not None
    assert found.taken[0].applied
    found, done = updates_of(tiny_policy(0), exact, epochs=4, target_kl=1e9, importance={"mode": "none"})
    assert (len(found.taken), found.stopped, done) == (4, 0, 4)


def test_on_policy_no_sampler_stops_an_update(responses: list[Judged]) -> None:
    """π_old is π_θ; that the sampler's log-probabilities are off says nothing of how far the policy has moved."""
    found, _ = updates_of(tiny_policy(0), responses, target_kl=1e-9)
    assert (len(found.taken), found.stopped) == (1, 0)
