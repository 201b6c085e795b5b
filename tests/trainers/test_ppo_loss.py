"""The updates of PPO equal, in loss and all gradients, plain formulas on one unpadded forward per response."""

import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from plain_ppo import (
    AGGREGATIONS,
    VALUE_CLIP,
    Case,
    assert_same,
    case_of,
    config,
    estimated,
    kl,
    packed_update,
    plain_distributions,
    plain_estimates,
    plain_explained,
    plain_update,
    plain_values,
)
from small_runs import relative_difference

from reasonrl.batch import collate
from reasonrl.config import PPOConfig
from reasonrl.models.logprobs import response_logprobs
from reasonrl.trainers.metrics import TokenStats
from reasonrl.trainers.ppo import VALUE_MEANS
from reasonrl.trainers.sample import row_of

CASES = {shared: case_of(shared=shared) for shared in (False, True)}
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no value clip": {"value_clip": None},
    "not whitened": {"whiten": False},
    "return less value": {"discount": 1.0, "gae_lambda": 1.0},
    "TD error": {"gae_lambda": 0.0},
    "entropy bonus": {"entropy_bonus": 0.2},
    "no entropy": {"entropy": False},
    "k1 in the reward": {"kl": kl("k1", "reward")},
    "k3 in the reward": {"kl": kl("k3", "reward")},
    "k1 in the loss": {"kl": kl("k1")},
    "k3 in the loss": {"kl": kl("k3")},
    "process": {"process_weight": 0.7},
    "cut ones masked": {"mask_truncated": True},
    "all": {
        "whiten": False, "entropy_bonus": 0.1, "kl": kl("k1", "reward"), "process_weight": 0.7, "mask_truncated": True,
        "value_coefficient": 0.8,
    },
}  # fmt: skip


def assert_as_the_formulas_say(case: Case, wanted: PPOConfig) -> None:
    samples, explained = estimated(case, wanted)
    found = plain_estimates(case, wanted)
    assert explained == pytest.approx(plain_explained(found), rel=1e-4)
    policy, critic = packed_update(case, samples, wanted)
    expected_policy, expected_critic = plain_update(case, found, wanted)
    assert_same(policy, expected_policy)
    if not case.critic.shared:
        assert critic[0] > 0
        assert_same(critic, expected_critic)


@pytest.mark.parametrize(
    ("settings", "shared", "loss", "epochs"),
    [
        *((settings, shared, "clip", 2) for settings in SETTINGS for shared in (False, True)),
        *((settings, False, "penalty", 2) for settings in ("plain", "TD error", "entropy bonus", "k3 in the loss")),
        *(("all", shared, "penalty", 2) for shared in (False, True)),
        *(("all", shared, "clip", 1) for shared in (False, True)),
    ],
)
def test_an_update_is_what_the_formulas_say(settings: str, shared: bool, loss: str, epochs: int) -> None:
    wanted = config(shared=shared, loss=loss, epochs=epochs, **SETTINGS[settings])
    assert_as_the_formulas_say(CASES[shared], wanted)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_an_update_is_aggregated_as_the_formulas_say(shared: bool, aggregation: str) -> None:
    wanted = config(shared=shared, aggregation=aggregation, epochs=2, **SETTINGS["all"])
    assert_as_the_formulas_say(CASES[shared], wanted)


@pytest.mark.parametrize(("aggregation", "shared"), [("token_mean", False), ("sequence_mean", True)])
def test_neither_micro_batches_nor_order_nor_the_way_of_the_forward_matter(aggregation: str, shared: bool) -> None:
    settings = {"loss": "penalty", "entropy_bonus": 0.1, "kl": kl("k3")}
    case, wanted = CASES[shared], config(shared=shared, aggregation=aggregation, epochs=2, **settings)
    samples, _ = estimated(case, wanted)
    whole = packed_update(case, samples, wanted.model_copy(update={"micro_batch_tokens": 10_000}))

    def same(*args: Any, **parts: Any) -> None:
        for one, other in zip(packed_update(case, *args, **parts), whole, strict=True):
            if other[1]:
                assert_same(one, other)

    for size, seed in ((1, 1), (25, 2)):
        shuffled = random.Random(seed).sample(samples, len(samples))
        same(shuffled, wanted.model_copy(update={"micro_batch_tokens": size}))
    same(samples, wanted, share_prompt=False)
    same(samples, wanted, logits_chunk=20)


def test_values_returns_and_advantages_are_those_of_the_formulas() -> None:
    for settings in ("plain", "all"):
        case, wanted = CASES[False], config(**SETTINGS[settings])
        rows = [s.row for s in estimated(case, wanted)[0] if s.known]
        for row, expected in zip(rows, plain_estimates(case, wanted), strict=True):
            assert row.values == pytest.approx(expected.values, abs=1e-5)
            assert row.returns == pytest.approx(expected.returns, abs=1e-5)
            assert row.advantages == pytest.approx(expected.advantages, abs=3e-5)


def test_a_response_that_could_not_be_judged_reaches_nothing() -> None:
    case, wanted = CASES[False], config(epochs=2, process_weight=0.7)
    samples, explained = estimated(case, wanted)
    unjudged = [s for s in samples if not s.known]
    assert len(unjudged) == 4
    for s in unjudged:
        assert not s.counted
        assert not s.learns
        assert set(s.row.advantages) == {0.0}
    # other tokens in its place change nothing
    others = [
        one if one.scored.reward is not None
        else replace(one, rollout=replace(one.rollout, response_ids=(3,), logprobs=(-9.0,), text="0"))
        for one in case.responses
    ]  # fmt: skip
    again, explained_again = estimated(replace(case, responses=others), wanted)
    assert explained_again == pytest.approx(explained, abs=1e-6)
    for first, second in zip(packed_update(case, samples, wanted), packed_update(case, again, wanted), strict=True):
        assert_same(second, first)


def test_values_are_clipped_in_some_of_these_cases_and_the_metrics_say_how_many() -> None:
    case, wanted = CASES[False], config(epochs=2)
    values, held, losses, means = TokenStats(VALUE_MEANS), [], [], []
    packed_update(case, estimated(case, wanted)[0], wanted, values)
    for of in plain_estimates(case, wanted):
        for new, old, target in zip(plain_values(case.critic, of.one).tolist(), of.values, of.returns, strict=True):
            near = min(max(new, old - VALUE_CLIP), old + VALUE_CLIP)
            held.append(near != new and (near - target) ** 2 > (new - target) ** 2)
            losses.append(max((new - target) ** 2, (near - target) ** 2) / 2)
            means.append(new)
    ppo_session: Any = type("One", (), {"sum": lambda self, value: value, "max": lambda self, value: value})()
    found = values.reduced(ppo_session)
    assert 0 < sum(held) < len(held)
    assert found["value_clip_fraction"] == pytest.approx(sum(held) / len(held))
    assert found["value_loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    assert found["value_mean"] == pytest.approx(sum(means) / len(means), rel=1e-5)


@pytest.mark.parametrize("share_prompt", [True, False])
@pytest.mark.parametrize("logits_chunk", [2**26, 20])
def test_entropy_and_divergence_over_the_whole_vocabulary_and_their_gradients(
    share_prompt: bool, logits_chunk: int
) -> None:
    case = CASES[False]
    model = case.policy.model
    batch = collate([row_of(one, index // 4) for index, one in enumerate(case.responses)], case.policy.pad_id)
    scores = response_logprobs(
        model, batch, temperature=0.9, share_prompt=share_prompt, logits_chunk=logits_chunk,
        entropy=True, entropy_gradient=True, old_model=case.old,
    )  # fmt: skip
    for name in ("entropy", "divergence"):
        found, expected = getattr(scores, name), []
        for one in case.responses:
            new, old = plain_distributions(model, one), plain_distributions(case.old, one).detach()
            expected.append((-(new.exp() * new) if name == "entropy" else old.exp() * (old - new)).sum(-1))
        assert torch.allclose(found[batch.response_mask.bool()], torch.cat(expected), atol=1e-5, rtol=1e-5)
        assert not found[~batch.response_mask.bool()].any()
        weights = torch.linspace(-1, 2, sum(map(len, expected)))
        sums = [(found[batch.response_mask.bool()] * weights).sum(), (torch.cat(expected) * weights).sum()]
        kept = []
        for total in sums:
            grads = torch.autograd.grad(total, list(model.parameters()), retain_graph=True)
            kept.append(dict(zip(map(str, range(len(grads))), grads, strict=True)))
        assert relative_difference(*kept) < 1e-5
    assert all(parameter.grad is None for parameter in case.old.parameters())


def test_without_its_gradient_an_entropy_is_only_measured() -> None:
    case = CASES[False]
    batch = collate([row_of(case.responses[0], 0)], case.policy.pad_id)
    scores = response_logprobs(case.policy.model, batch, temperature=0.9, share_prompt=True, entropy=True)
    assert scores.entropy is not None
    assert not scores.entropy.requires_grad
    assert scores.divergence is None
