"""The update of GRPO equals, in loss and all gradients, plain formulas on one unpadded forward per response."""

import math
import random
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from plain_grpo import (
    AGGREGATIONS,
    CLIP_HIGH,
    CLIP_LOW,
    ESTIMATORS,
    assert_same,
    config,
    kl,
    packed_update,
    plain_advantages,
    plain_logprobs,
    plain_update,
    responses_of,
    run_of,
    samples_of,
)
from small_runs import relative_difference, tiny_policy, update, with_advantages

from reasonrl.evaluation.evaluate import Judged
from reasonrl.models.load import Policy, reference_of
from reasonrl.trainers.metrics import TokenStats


@pytest.fixture(scope="module")
def policy() -> Policy:
    return tiny_policy(0)


@pytest.fixture(scope="module")
def reference() -> Any:
    return reference_of(tiny_policy(1).model)


@pytest.fixture(scope="module")
def responses(policy: Policy) -> list[Judged]:
    return responses_of(policy)


KL = [None, kl("k1"), kl("k2"), kl("k3")]


@pytest.mark.parametrize("updates", [1, 2])
@pytest.mark.parametrize("penalty", KL, ids=["no-kl", "k1", "k2", "k3"])
@pytest.mark.parametrize("std", ["population", "sample", "none"])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_an_update_is_what_the_formulas_say(
    policy: Policy, reference: Any, responses: list[Judged],
    aggregation: str, std: str, penalty: dict[str, Any] | None, updates: int,
) -> None:  # fmt: skip
    wanted = config(aggregation=aggregation, std=std, kl=penalty or {}, epochs=updates)
    samples = samples_of(policy, reference, responses, wanted)
    assert_same(packed_update(policy, reference, samples, wanted), plain_update(policy, reference, responses, wanted))


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_responses_cut_at_the_limit_are_masked_but_stay_in_the_mean(
    policy: Policy, reference: Any, responses: list[Judged], aggregation: str
) -> None:
    wanted = config(aggregation=aggregation, mask_truncated=True, epochs=2)
    samples = samples_of(policy, reference, responses, wanted)
    assert [s.counted for s in samples[:4]] == [True, False, True, False]
    assert samples[0].row.advantages[0] == pytest.approx((1 - 0.5) / math.sqrt(1 / 6), rel=1e-4)
    assert_same(packed_update(policy, reference, samples, wanted), plain_update(policy, reference, responses, wanted))


def test_some_tokens_are_clipped_in_these_cases(policy: Policy, responses: list[Judged]) -> None:
    ratios = [
        math.exp(new - old)
        for one in responses
        for new, old in zip(plain_logprobs(policy.model, one).tolist(), one.rollout.logprobs, strict=True)
    ]
    assert min(ratios) < 1 - CLIP_LOW
    assert max(ratios) > 1 + CLIP_HIGH
    assert any(1 - CLIP_LOW < ratio < 1 + CLIP_HIGH for ratio in ratios)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_neither_micro_batches_nor_order_nor_the_way_of_the_forward_matter(
    policy: Policy, reference: Any, responses: list[Judged], aggregation: str
) -> None:
    wanted = config(aggregation=aggregation, epochs=2, kl=kl("k3"))
    samples = samples_of(policy, reference, responses, wanted)
    whole = packed_update(policy, reference, samples, wanted.model_copy(update={"micro_batch_tokens": 10_000}))
    for size, seed in product((1, 25), (1, 2)):
        shuffled = random.Random(seed).sample(samples, len(samples))
        assert_same(
            packed_update(policy, reference, shuffled, wanted.model_copy(update={"micro_batch_tokens": size})), whole
        )
    assert_same(packed_update(policy, reference, samples, wanted, share_prompt=False), whole)
    assert_same(packed_update(policy, reference, samples, wanted, logits_chunk=20), whole)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_dropping_the_groups_that_agree_changes_nothing(
    policy: Policy, responses: list[Judged], aggregation: str
) -> None:
    wanted = config(aggregation=aggregation, epochs=2)
    samples = samples_of(policy, None, responses, wanted)
    assert [s.learns for s in samples] == [True, True, True, False, *[False] * 8, *[True] * 4]
    forced = [replace(s, learns=s.counted) for s in samples]
    assert sum(s.learns for s in forced) == 12
    assert_same(packed_update(policy, None, samples, wanted), packed_update(policy, None, forced, wanted))


def test_groups_that_agree_feel_a_kl_in_the_loss(policy: Policy, reference: Any, responses: list[Judged]) -> None:
    samples = samples_of(policy, reference, responses, config(kl=kl("k3")))
    assert [s.learns for s in samples] == [s.counted for s in samples]
    assert [s.counted for s in samples] == [one.scored.reward is not None for one in responses]


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_kl_in_the_reward(policy: Policy, reference: Any, responses: list[Judged], estimator: str) -> None:
    wanted = config(kl=kl(estimator, "reward"))
    samples = samples_of(policy, reference, responses, wanted)
    for start in range(0, len(samples), 4):
        rewards: list[float | None] = []
        for one in responses[start : start + 4]:
            apart = (plain_logprobs(policy.model, one) - plain_logprobs(reference, one)).detach()
            given = one.scored.reward
            rewards.append(None if given is None else given - 0.1 * float(ESTIMATORS[estimator](apart).sum()))
        expected = plain_advantages(rewards, "population")
        assert [s.row.advantages[0] for s in samples[start : start + 4]] == pytest.approx(expected, abs=1e-4)
    # The second group agrees no longer, the third still has one judged response; and the loss has no KL term.
    assert [s.learns for s in samples[4:12]] == [True] * 4 + [False] * 4
    gradients = packed_update(policy, reference, samples, wanted)[1]
    without = packed_update(policy, None, samples, config())[1]
    assert relative_difference(gradients, without) < 1e-6


def test_a_step_with_only_the_kl_term_lowers_the_kl(policy: Policy, reference: Any, responses: list[Judged]) -> None:
    agreeing = [replace(one, scored=replace(one.scored, reward=1.0)) for one in responses]

    @torch.no_grad()
    def exact_kl() -> float:
        total = 0.0
        for one in agreeing:
            ids = torch.tensor([one.rollout.prompt_ids + one.rollout.response_ids])
            new, ref = (torch.log_softmax(m(input_ids=ids).logits[0], -1) for m in (policy.model, reference))
            total += float((ref.exp() * (ref - new)).sum())  # in the direction of k3's gradient
        return total

    wanted = config(kl=kl("k2") | {"coefficient": 1.0})
    before, state = exact_kl(), {name: value.clone() for name, value in policy.model.state_dict().items()}
    run = run_of(policy, reference, wanted)
    done = update(run, with_advantages(run, agreeing, range(4)), TokenStats([]))
    assert done is not None
    assert done.applied
    after = exact_kl()
    policy.model.load_state_dict(state)
    assert after < before
