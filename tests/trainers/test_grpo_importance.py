"""A sampler that is not the trained model: π_old is the trainer's, and tokens are weighted."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from plain_grpo import (
    AGGREGATIONS,
    assert_same,
    config,
    kl,
    packed_update,
    plain_logprobs,
    plain_update,
    responses_of,
    run_of,
    samples_of,
)
from small_runs import judged, relative_difference, tiny_policy, with_advantages
from torch import Tensor

from reasonrl import ReasonRLError
from reasonrl.config import GRPOConfig, ImportanceConfig
from reasonrl.evaluation.evaluate import Judged
from reasonrl.models.load import Policy, reference_of
from reasonrl.models.logprobs import response_logprobs
from reasonrl.trainers import policy as policy_runs
from reasonrl.trainers.policy import with_old_logprobs
from reasonrl.trainers.sample import Sample

NAN, INF = math.nan, math.inf
TRUNCATED = {"mode": "truncated", "cap": 1.2}


@pytest.fixture(scope="module")
def policy() -> Policy:
    return tiny_policy(0)


@pytest.fixture(scope="module")
def moved() -> Policy:
    """The same policy some updates later."""
    later = tiny_policy(0)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in later.model.parameters():
            parameter.add_(0.03 * torch.randn_like(parameter))
    return later


@pytest.fixture(scope="module")
def reference() -> Any:
    return reference_of(tiny_policy(1).model)


@pytest.fixture(scope="module")
def responses(policy: Policy) -> list[Judged]:
    """Their samplers' log-probabilities are off by up to half a nat."""
    return responses_of(policy)


# By hand: one response of two tokens with advantage 1.5.


BY_HAND = judged(0, 0, (3, 4), 1.0)


def one_sample(policy: Policy, wanted: GRPOConfig, shifts: Sequence[float]) -> list[Sample]:
    """Its sampler's log-probabilities are that much below the policy's."""
    given = tuple((plain_logprobs(policy.model, BY_HAND).detach() - torch.tensor(shifts)).tolist())
    pair = [replace(BY_HAND, rollout=replace(BY_HAND.rollout, logprobs=given)), judged(0, 1, (5,), 0.0)]
    sample = with_advantages(run_of(policy, None, wanted), pair, [0])[0]
    return [replace(sample, row=replace(sample.row, advantages=(1.5, 1.5)))]


def gradients_of(policy: Policy, factors: Sequence[float]) -> dict[str, Tensor]:
    """Σ_t factor_t ∇log π_θ(t)."""
    named = dict(policy.model.named_parameters())
    weighted = (torch.tensor(factors) * plain_logprobs(policy.model, BY_HAND)).sum()
    return dict(zip(named, torch.autograd.grad(weighted, list(named.values())), strict=True))


def small(**settings: Any) -> GRPOConfig:
    return config(problems_per_step=1, group_size=2, **settings)


@pytest.mark.parametrize("epochs", [1, 2])
def test_the_weighted_loss_by_hand_where_the_policy_has_not_moved(policy: Policy, epochs: int) -> None:
    """ρ = 1, w = e^0.5 and min(e, 2): loss −1.5·(e^0.5 + 2)/2."""
    wanted = small(epochs=epochs, importance={"mode": "truncated", "cap": 2.0})
    samples = one_sample(policy, wanted, [0.5, 1.0])
    samples = with_old_logprobs(run_of(policy, None, wanted), samples, on_policy=wanted.on_policy)
    loss, gradients = packed_update(policy, None, samples, wanted)
    weights = [math.exp(0.5), 2.0]
    assert loss == pytest.approx(-1.5 * sum(weights) / 2, rel=1e-5)
    assert relative_difference(gradients, gradients_of(policy, [-1.5 * w / 2 for w in weights])) < 1e-5


def test_the_weighted_loss_by_hand_where_it_has(policy: Policy) -> None:
    """ρ = e^0.1 and e^0.5 (clipped at 1.25) against the trainer's π_old; μ is e^−0.15 and e^0.7 of that."""
    wanted = small(epochs=2, importance=TRUNCATED)
    samples = one_sample(policy, wanted, [0.1 + 0.15, 0.5 - 0.7])
    row = samples[0].row
    old = (plain_logprobs(policy.model, BY_HAND).detach() - torch.tensor([0.1, 0.5])).tolist()
    loss, gradients = packed_update(
        policy, None, [replace(samples[0], row=replace(row, old_logprobs=tuple(old)))], wanted
    )
    weighted = [math.exp(0.15) * math.exp(0.1), math.exp(-0.7) * 1.25]
    assert loss == pytest.approx(-1.5 * sum(weighted) / 2, rel=1e-5)
    assert relative_difference(gradients, gradients_of(policy, [-1.5 * weighted[0] / 2, 0.0])) < 1e-5


@pytest.mark.parametrize(("epochs", "factors"), [(1, [1.0, 1.0]), (2, [math.exp(0.05), 1.25])])
def test_without_correction_the_sampler_stands_for_the_old_policy(
    policy: Policy, epochs: int, factors: list[float]
) -> None:
    """On policy ρ = 1; else ρ = π_θ/μ = e^0.05, and e^0.5 clipped at 1.25. No weights."""
    wanted = small(epochs=epochs, importance={"mode": "none"})
    run = replace(run_of(policy, None, wanted), sampler_is_policy=False)
    samples = one_sample(policy, wanted, [0.05, 0.5])
    assert with_old_logprobs(run, samples, on_policy=wanted.on_policy) == samples
    loss, gradients = packed_update(policy, None, samples, wanted, sampler_is_policy=False)
    assert loss == pytest.approx(-1.5 * sum(factors) / 2, rel=1e-5)
    passing = [-1.5 * factor / 2 * (factor != 1.25) for factor in factors]
    assert relative_difference(gradients, gradients_of(policy, passing)) < 1e-5


# Against plain formulas, on groups of many shapes.


@pytest.mark.parametrize("updates", [1, 2])
@pytest.mark.parametrize("penalty", [None, kl("k3"), kl("k2")], ids=["no-kl", "k3", "k2"])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_an_update_is_what_the_formulas_say(
    policy: Policy, moved: Policy, reference: Any, responses: list[Judged],
    aggregation: str, penalty: dict[str, Any] | None, updates: int,
) -> None:  # fmt: skip
    """With several updates π_old is that of the step's start, however far the policy has moved since."""
    wanted = config(aggregation=aggregation, kl=penalty or {}, epochs=updates, importance=TRUNCATED)
    samples = samples_of(policy, reference, responses, wanted)
    trained, start = (policy, None) if updates == 1 else (moved, policy)
    weighted = packed_update(trained, reference, samples, wanted)
    assert_same(weighted, plain_update(trained, reference, responses, wanted, start))
    off = wanted.model_copy(update={"importance": ImportanceConfig(mode="none")})
    unweighted = packed_update(trained, reference, samples_of(policy, reference, responses, off), off)
    assert relative_difference(weighted[1], unweighted[1]) > 0.01


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_neither_micro_batches_nor_order_nor_the_way_of_the_forward_matter(
    policy: Policy, moved: Policy, reference: Any, responses: list[Judged], aggregation: str
) -> None:
    wanted = config(aggregation=aggregation, epochs=2, kl=kl("k3"), importance=TRUNCATED)

    def step(micro_batch_tokens: int, *, backwards: bool = False, **parts: Any) -> Any:
        """π_old and the update, both computed this way."""
        cut = wanted.model_copy(update={"micro_batch_tokens": micro_batch_tokens})
        run = run_of(policy, reference, cut, **parts)
        samples = with_advantages(run, responses, range(4))
        samples = with_old_logprobs(run, samples[::-1] if backwards else samples, on_policy=False)
        return packed_update(moved, reference, samples, cut, **parts)

    whole = step(10_000)
    for size, backwards in product((1, 25), (False, True)):
        assert_same(step(size, backwards=backwards), whole)
    assert_same(step(40, share_prompt=False), whole)
    assert_same(step(40, logits_chunk=20), whole)


def test_a_sampler_that_computes_as_the_trainer_does_changes_nothing(policy: Policy, responses: list[Judged]) -> None:
    """μ = π_old: all weights are 1, and correction on is correction off."""
    exact = [
        replace(one, rollout=replace(one.rollout, logprobs=tuple(plain_logprobs(policy.model, one).tolist())))
        for one in responses
    ]
    on, off = (config(epochs=2, importance={"mode": mode}) for mode in ("truncated", "none"))
    kept = [packed_update(policy, None, samples_of(policy, None, exact, each), each) for each in (on, off)]
    assert_same(*kept)


# What is computed, and when.


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The responses of each forward without a gradient."""
    seen: list[int] = []

    def wrapped(model: Any, batch: Any, **settings: Any) -> Any:
        if not torch.is_grad_enabled():
            seen.append(len(batch.response_ids))
        return response_logprobs(model, batch, **settings)

    monkeypatch.setattr(policy_runs, "response_logprobs", wrapped)
    return seen


@pytest.mark.parametrize(
    ("settings", "rows"),
    [
        ({"epochs": 2}, 7),  # those that learn: three of the first group, four of the last
        ({"minibatches": 2}, 7),
        ({}, 0),  # on policy the update has them
        ({"epochs": 2, "importance": {"mode": "none"}}, 0),
        ({"epochs": 2, "kl": kl("k3")}, 12 + 12),  # reference and π_old of the judged
        ({"kl": kl("k3", "reward")}, 16 + 16),
        ({"epochs": 2, "kl": kl("k3", "reward")}, 16 + 16),  # once, not again for the loss
    ],
)
def test_old_logprobs_are_computed_once_and_only_where_they_are_needed(
    policy: Policy, reference: Any, responses: list[Judged], monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any], rows: int,
) -> None:  # fmt: skip
    seen = counted(monkeypatch)
    samples = samples_of(policy, reference, responses, config(**({"importance": TRUNCATED} | settings)))
    assert sum(seen) == rows
    assert [s.row.sampler_logprobs for s in samples] == [one.rollout.logprobs for one in responses]


def test_a_kl_in_the_reward_is_that_of_the_trainer(policy: Policy, responses: list[Judged]) -> None:
    """Before the first update policy and reference are one model: no KL, whatever the sampler's kernels do."""
    wanted = config(kl=kl("k1", "reward") | {"coefficient": 5.0}, importance=TRUNCATED)
    without = [s.row.advantages[0] for s in samples_of(policy, None, responses, config(importance=TRUNCATED))]
    itself = reference_of(policy.model)
    first, last = slice(0, 3), slice(12, 16)  # the groups whose rewards differ; rounding divides those that agree
    corrected = [s.row.advantages[0] for s in samples_of(policy, itself, responses, wanted)]
    assert corrected[first] + corrected[last] == pytest.approx(without[first] + without[last], abs=1e-3)
    off = wanted.model_copy(update={"importance": ImportanceConfig(mode="none")})
    assert [s.row.advantages[0] for s in samples_of(policy, itself, responses, off)] == corrected


@pytest.mark.parametrize("mode", ["truncated", "none"])
def test_a_group_that_agrees_stays_silent_while_policy_and_reference_are_one(
    policy: Policy, responses: list[Judged], mode: str
) -> None:
    """There is no rounding for the group's spread to be divided by."""
    wanted = config(kl=kl("k1", "reward") | {"coefficient": 5.0}, importance={"mode": mode})
    samples = samples_of(policy, reference_of(policy.model), responses, wanted)
    assert {kl for s in samples for kl in s.kl} == {0.0}
    assert [s.learns for s in samples] == [True] * 3 + [False] * 9 + [True] * 4


@pytest.mark.parametrize(
    ("mode", "same", "another"), [("auto", False, True), ("truncated", True, True), ("none", 0, 0)]
)
def test_auto_is_resolved_by_whether_the_sampler_is_the_policy(
    policy: Policy, mode: str, same: bool, another: bool
) -> None:
    run = run_of(policy, None, config(importance={"mode": mode}))
    assert run.corrects_sampler == same, "the default is a sampler that is the policy"
    assert replace(run, sampler_is_policy=False).corrects_sampler == another


@pytest.mark.parametrize("mode", ["truncated", "none"])
@pytest.mark.parametrize(("logprobs", "finite"), [((), 0), ((-1.0,), 1), ((-1.0, NAN), 1), ((-INF, INF), 0)])
def test_missing_logprobs_name_the_problem(policy: Policy, mode: str, logprobs: tuple[float, ...], finite: int) -> None:
    pair = [judged(3, 0, (3, 4), 1.0), judged(3, 1, (5, 6), 0.0, logprobs=logprobs)]
    message = f"gave {finite} finite log-probabilities for the 2 tokens of response 1 to problem 'p3'"
    with pytest.raises(ReasonRLError, match=message):
        with_advantages(run_of(policy, None, small(importance={"mode": mode})), pair, [0])
