"""What GRPO computes and what it spares itself: advantages, log-probabilities, metrics."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from small_runs import (
    GRPO,
    NO_CLIPPING,
    engine_of,
    grpo_run,
    judged,
    tiny_policy,
    token_stats,
    update,
    weights_of,
    with_advantages,
)

from reasonrl import ReasonRLError
from reasonrl.batch import collate
from reasonrl.config import GRPOConfig
from reasonrl.evaluation.evaluate import Judged
from reasonrl.models.load import Policy, reference_of
from reasonrl.models.logprobs import response_logprobs
from reasonrl.rollout.engine import Request, Sampling
from reasonrl.trainers import policy as policy_runs
from reasonrl.trainers.metrics import TokenStats, response_metrics
from reasonrl.trainers.policy import gather_checked
from reasonrl.trainers.sample import Sample


def config(**settings: Any) -> GRPOConfig:
    given = {"steps": 1, "problems_per_step": 2, "group_size": 2, "optimizer": NO_CLIPPING}
    return GRPOConfig.model_validate(given | settings)


class Count:
    """Counts the forwards through `response_logprobs`, by whether they had a gradient."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.with_gradient = self.without = 0

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.with_gradient += torch.is_grad_enabled()
            self.without += not torch.is_grad_enabled()
            return response_logprobs(*args, **kwargs)

        monkeypatch.setattr(policy_runs, "response_logprobs", counted)


RESPONSES = [
    judged(0, 0, (3, 4, 5), 1.0), judged(0, 1, (6, 7), 0.0), judged(1, 0, (8,), 1.0), judged(1, 1, (9, 9, 9), 0.0),
]  # fmt: skip


@pytest.fixture
def policy() -> Policy:
    return tiny_policy()


@pytest.mark.parametrize(("epochs", "minibatches"), [(1, 1), (2, 1), (1, 2)])
def test_old_logprobs_are_never_computed_again(
    policy: Policy, monkeypatch: pytest.MonkeyPatch, epochs: int, minibatches: int
) -> None:
    run = grpo_run(config(epochs=epochs, minibatches=minibatches), policy)
    count = Count(monkeypatch)
    samples = with_advantages(run, RESPONSES, [0, 1])
    assert (count.with_gradient, count.without) == (0, 0)
    update(run, samples, token_stats(run))
    assert (count.with_gradient, count.without) == (1, 0)
    assert [s.row.old_logprobs for s in samples] == [one.rollout.logprobs for one in RESPONSES]


def test_the_reference_is_computed_once_a_step(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    run = grpo_run(config(epochs=3, kl={"coefficient": 0.1}), policy, reference=reference_of(policy.model))
    count = Count(monkeypatch)
    samples = with_advantages(run, RESPONSES, [0, 1])
    for _ in range(3):
        update(run, samples, token_stats(run))
    assert (count.with_gradient, count.without) == (3, 1)


@pytest.mark.parametrize(("share_prompt", "forwards"), [(True, 1), (False, 4)])
def test_the_token_budget_holds_with_and_without_shared_prompts(
    policy: Policy, monkeypatch: pytest.MonkeyPatch, share_prompt: bool, forwards: int
) -> None:
    """Four responses of one token to a prompt of four: 4 + 4 tokens with the prompt shared, else four times 4 + 1."""
    settings = config(problems_per_step=1, group_size=4, micro_batch_tokens=8, kl={"coefficient": 0.1})
    run = grpo_run(settings, policy, reference=reference_of(policy.model), share_prompt=share_prompt)
    count = Count(monkeypatch)
    samples = with_advantages(run, [judged(2, j, (3 + j,), float(j == 0)) for j in range(4)], [0])
    assert {len(s.row.prompt_ids) for s in samples} == {4}
    update(run, samples, token_stats(run))
    assert (count.without, count.with_gradient) == (forwards, forwards)


def test_groups_that_agree_cost_no_forward_and_touch_no_parameter(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = grpo_run(config(), policy)
    count, before = Count(monkeypatch), weights_of(policy.model)
    agreeing = [judged(p, j, (3 + j,), 0.3) for p in range(2) for j in range(2)]
    samples = with_advantages(run, agreeing, [0, 1])
    assert update(run, samples, token_stats(run)) is None
    assert (count.with_gradient, count.without) == (0, 0)
    assert all(torch.equal(before[name], p) for name, p in policy.model.named_parameters())
    assert run.session.done == 1, "the schedule moves on"


def test_a_right_response_becomes_likelier_and_a_wrong_one_less_likely(policy: Policy) -> None:
    run = grpo_run(config(optimizer={"learning_rate": 1e-4}), policy)
    samples = with_advantages(run, RESPONSES, [0, 1])
    before = logprobs(run, samples)
    update(run, samples, token_stats(run))
    after = logprobs(run, samples)
    gained = [sum(new) - sum(old) for new, old in zip(after, before, strict=True)]
    assert gained[0] > 0 > gained[1]
    assert gained[2] > 0 > gained[3]


@torch.no_grad()
def logprobs(run: GRPO, samples: Sequence[Sample]) -> list[list[float]]:
    """The policy's log-probabilities of each response, as the trainer computes them."""
    batch = collate([s.row for s in samples], run.policy.pad_id)
    scores = policy_runs.forward(run, run.policy.model, batch).logprobs.tolist()
    return [row[: len(s.row.response_ids)] for row, s in zip(scores, samples, strict=True)]


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.4])
def test_before_any_update_the_ratio_is_1(policy: Policy, temperature: float) -> None:
    prompts = [(3, 4), (5, 6, 7, 8), (9,)]
    requests = [Request(f"p{i}", ids, tuple(range(10 * i, 10 * i + 4))) for i, ids in enumerate(prompts)]
    sampled = list(engine_of(policy).sample(requests, Sampling(temperature=temperature, max_tokens=12)))
    sampled.sort(key=lambda rollout: (rollout.problem_id, rollout.sample))
    template = judged(0, 0, (3,), 1.0)
    responses = [replace(template, rollout=rollout) for rollout in sampled]
    run = grpo_run(config(group_size=4), policy, temperature=temperature, max_tokens=12)
    samples = with_advantages(run, responses, range(3))
    assert sum(len(s.row.response_ids) for s in samples) > 60
    for new, s in zip(logprobs(run, samples), samples, strict=True):
        assert new == pytest.approx(s.row.old_logprobs, abs=1e-4)
    apart = grpo_run(config(group_size=4), policy, temperature=1.2 * temperature, max_tokens=12)
    worst = max(
        abs(x - y)
        for new, s in zip(logprobs(apart, samples), samples, strict=True)
        for x, y in zip(new, s.row.old_logprobs, strict=True)
    )
    assert worst > 0.01, "at another temperature they differ"


def test_advantages_by_hand(policy: Policy) -> None:
    rewards = [1.0, 0.0, 0.0, None, 0.0, 0.0, 0.0, 0.0]
    responses = [judged(p, j, (3, 4), rewards[4 * p + j]) for p in range(2) for j in range(4)]
    samples = with_advantages(grpo_run(config(group_size=4), policy), responses, [5, 2])
    assert [s.row.group for s in samples] == [5] * 4 + [2] * 4
    root = math.sqrt(2)
    assert [s.row.advantages for s in samples[:4]] == [
        pytest.approx((a, a), rel=1e-5) for a in (root, -1 / root, -1 / root, 0)
    ]
    assert [s.row.advantages for s in samples[4:]] == [(0.0, 0.0)] * 4
    assert [s.counted for s in samples] == [True] * 3 + [False] + [True] * 4
    assert [s.learns for s in samples] == [True] * 3 + [False] * 5


def test_samples_come_in_order_of_group_and_sample(policy: Policy) -> None:
    run = grpo_run(config(), policy)
    samples = with_advantages(run, RESPONSES, [1, 0])
    ordered = gather_checked(run, samples[::-1])
    assert [(s.row.group, s.judged.rollout.sample) for s in ordered] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_too_many_unjudged_name_the_verifier(policy: Policy) -> None:
    responses = [*RESPONSES[:3], judged(1, 1, (9,), None)]
    run = grpo_run(config(), policy, max_unjudged=0.25)
    samples = with_advantages(run, responses, [0, 1])
    assert len(gather_checked(run, samples)) == 4
    with pytest.raises(ReasonRLError, match=r"(?s)1 of 4 responses .*'rule' gave the reason 'error'"):
        gather_checked(replace(run, max_unjudged=0.2), samples)


def test_response_metrics_by_hand(policy: Policy) -> None:
    responses: list[Judged] = [
        judged(0, 0, (3, 4, 5), 1.0), judged(0, 1, (6,), 0.0), judged(1, 0, (8,) * 8, 0.5, finish_reason="length"),
        judged(1, 1, (9, 9), None),
    ]  # fmt: skip
    # With a KL in the loss every judged response learns; the metric still says which groups agree.
    run = grpo_run(config(kl={"coefficient": 0.1}), policy, reference=reference_of(policy.model))
    metrics = response_metrics(with_advantages(run, responses, [0, 1]))
    assert metrics == pytest.approx({
        "reward": 0.5, "reward_std": math.sqrt(1 / 6), "pass_rate": 1 / 3, "unjudged": 1.0, "groups_that_agree": 0.5,
        "response_length": 3.5, "response_length_max": 8.0, "truncated": 0.25, "policy_version": 0.0,
        "reward/rule": 0.5, "reason/rule/given": 0.75, "reason/rule/error": 0.25,
    })  # fmt: skip


def test_token_metrics_by_hand(policy: Policy) -> None:
    """One response of two tokens and one of one, in a micro-batch each; old log-probabilities a known step away."""
    run = grpo_run(config(epochs=2, micro_batch_tokens=1, clip_low=0.2, clip_high=0.2), policy)
    template = [judged(0, 0, (3, 4), 1.0), judged(0, 1, (6,), 0.0)]
    fresh = logprobs(run, with_advantages(run, template, [0]))
    # ρ = e^0.5 with A > 0: clipped. ρ = e^0.1: not. ρ = e^0.5 with A < 0: not clipped, either.
    away = [[fresh[0][0] - 0.5, fresh[0][1] - 0.1], [fresh[1][0] - 0.5]]
    ids, rewards = [(3, 4), (6,)], [1.0, 0.0]
    responses = [judged(0, j, ids[j], rewards[j], logprobs=away[j]) for j in range(2)]
    stats = token_stats(run)
    done = update(run, with_advantages(run, responses, [0]), stats)
    assert done is not None
    means = stats.reduced(run.session)
    assert means["clip_fraction"] == pytest.approx(1 / 3)
    # k3 of old against new, e^{−d} + d − 1 with d = log π_old − log π_θ: an estimate of KL(π_old ‖ π_θ).
    assert means["approx_kl"] == pytest.approx((2 * (math.exp(0.5) - 1.5) + math.exp(0.1) - 1.1) / 3, rel=1e-4)
    assert means["padding"] == 0.0
    assert 0 < means["entropy"] < math.log(17)
    # −ρA: 1.2 (clipped) and e^0.1 on the first response, −e^0.5 on the second, with A = ±1.
    assert done.loss == pytest.approx((-(1.2 + math.exp(0.1)) / 2 + math.exp(0.5)) / 2, rel=1e-4)


def test_padding_is_the_share_of_computed_response_tokens(policy: Policy) -> None:
    run = grpo_run(config(), policy)
    stats = token_stats(run)
    update(run, with_advantages(run, [judged(0, 0, (3, 4, 5, 6), 1.0), judged(0, 1, (6,), 0.0)], [0]), stats)
    assert stats.reduced(run.session)["padding"] == pytest.approx(3 / 8)


def test_token_means_of_nothing_are_0(policy: Policy) -> None:
    session = grpo_run(config(), policy).session
    assert TokenStats(["kl"]).reduced(session) == {"kl": 0.0, "padding": 0.0}


def test_a_mean_since_the_mark_knows_nothing_of_what_was_before(policy: Policy) -> None:
    """What is not finite, as in an update that is skipped, is gone with the next mark."""
    session, mask = grpo_run(config(), policy).session, torch.tensor([[1, 1], [1, 0]])
    stats = TokenStats(["kl"])
    stats.add(mask, kl=torch.tensor([[math.nan, 1.0], [2.0, 0.0]]))
    assert math.isnan(stats.mean_since_mark("kl", session))
    stats.mark()
    assert stats.mean_since_mark("kl", session) == 0
    for _ in range(2):
        stats.add(mask, kl=torch.tensor([[3.0, 1.0], [2.0, math.nan]]))
        assert stats.mean_since_mark("kl", session) == 2
    stats.mark()
    stats.add(mask[:1], kl=torch.tensor([[5.0, 6.0]]))
    assert stats.mean_since_mark("kl", session) == 5.5


def test_gradient_checkpointing_is_on_in_updates_and_off_in_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers checkpoints in training mode alone, and has no KV cache there."""
    plain, policy = tiny_policy(), tiny_policy(gradient_checkpointing=True)
    recomputed = 0
    for layer in policy.model.model.layers:
        inner = layer._gradient_checkpointing_func

        def counted(*args: Any, inner: Any = inner, **kwargs: Any) -> Any:
            nonlocal recomputed
            recomputed += 1
            return inner(*args, **kwargs)

        monkeypatch.setattr(layer, "_gradient_checkpointing_func", counted)
    request, sampling = [Request("p", (3, 4, 5), (1, 2, 3))], Sampling(max_tokens=8)
    run, other = grpo_run(config(), policy, share_prompt=False), grpo_run(config(), plain)
    for _ in range(2):
        sampled = {r.sample: r.response_ids for r in engine_of(policy).sample(request, sampling)}
        assert sampled == {r.sample: r.response_ids for r in engine_of(plain).sample(request, sampling)}
        assert recomputed == 0
        done, expected = (
            update(each, with_advantages(each, RESPONSES, [0, 1]), token_stats(each)) for each in (run, other)
        )
        assert recomputed == 2, "once for each layer"
        assert not policy.model.training
        assert done is not None
        assert expected is not None
        assert done.grad_norm == pytest.approx(expected.grad_norm, rel=1e-4)
        recomputed = 0
