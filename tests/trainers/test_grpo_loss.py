"""The update of GRPO equals, in loss and all gradients, plain formulas on one unpadded forward per response."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Literal

import pytest
import torch
from small_runs import NO_CLIPPING, grpo_run, judged, kept_gradients, relative_difference, tiny_policy
from torch import Tensor

from reasonrl.config import GRPOConfig
from reasonrl.evaluation.evaluate import Judged
from reasonrl.models.load import Policy, reference_of
from reasonrl.trainers.grpo import GRPO, update, with_advantages
from reasonrl.trainers.metrics import Sample, TokenStats

MAX_TOKENS, TEMPERATURE, CLIP_LOW, CLIP_HIGH = 8, 0.9, 0.1, 0.25
REWARDS: tuple[tuple[float | None, ...], ...] = (
    (1.0, 0.0, 0.5, None),  # one could not be judged
    (1.0, 1.0, 1.0, 1.0),  # agrees
    (None, None, 1.0, None),  # one judged is left
    (0.0, 1.0, 0.0, 0.3),
)
Kept = tuple[float, dict[str, Tensor]]


@pytest.fixture(scope="module")
def policy() -> Policy:
    return tiny_policy(0)


@pytest.fixture(scope="module")
def reference() -> Any:
    return reference_of(tiny_policy(1).model)


@pytest.fixture(scope="module")
def responses(policy: Policy) -> list[Judged]:
    """Four groups of four, 1 to 8 tokens long; the old log-probabilities are off by up to half a nat."""
    draw, made = random.Random(0), []
    for position, rewards in enumerate(REWARDS):
        for sample, reward in enumerate(rewards):
            ids = [draw.randrange(3, 17) for _ in range(draw.randint(1, MAX_TOKENS))]
            bare = judged(position, sample, ids, reward)
            old = [x + draw.uniform(-0.5, 0.5) for x in plain_logprobs(policy.model, bare).tolist()]
            cut: Literal["length", "stop"] = "length" if (position, sample) in {(0, 1), (3, 3)} else "stop"
            made.append(judged(position, sample, ids, reward, logprobs=old, finish_reason=cut))
    return made


def config(**settings: Any) -> GRPOConfig:
    given = {"steps": 1, "problems_per_step": len(REWARDS), "group_size": len(REWARDS[0]), "optimizer": NO_CLIPPING}
    limits = {"clip_low": CLIP_LOW, "clip_high": CLIP_HIGH, "micro_batch_tokens": 40}
    return GRPOConfig.model_validate(given | limits | settings)


def kl(estimator: str, place: str = "loss") -> dict[str, Any]:
    return {"coefficient": 0.1, "estimator": estimator, "place": place}


# The reference: nothing here is shared with the code under test but the model.


def plain_logprobs(model: Any, one: Judged) -> Tensor:
    prompt, response = one.rollout.prompt_ids, one.rollout.response_ids
    logits = model(input_ids=torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1]
    return torch.log_softmax(logits / TEMPERATURE, -1)[range(len(response)), list(response)]


def plain_advantages(rewards: Sequence[float | None], std: str) -> list[float]:
    known = [r for r in rewards if r is not None]
    if len(set(known)) < 2:
        return [0.0] * len(rewards)
    mean = sum(known) / len(known)
    squares = sum((r - mean) ** 2 for r in known)
    divisor = {"population": math.sqrt(squares / len(known)), "sample": math.sqrt(squares / (len(known) - 1))}
    return [0.0 if r is None else (r - mean) / (divisor[std] + 1e-6 if std != "none" else 1.0) for r in rewards]


ESTIMATORS: dict[str, Callable[[Tensor], Tensor]] = {
    "k1": lambda d: d,
    "k2": lambda d: d * d / 2,
    "k3": lambda d: torch.exp(-d) + d - 1,
}


def plain_update(policy: Policy, reference: Any, responses: Sequence[Judged], wanted: GRPOConfig) -> Kept:
    policy.model.zero_grad()
    on_policy = wanted.epochs * wanted.minibatches == 1
    size = wanted.group_size
    advantages = [
        a
        for start in range(0, len(responses), size)
        for a in plain_advantages([r.scored.reward for r in responses[start : start + size]], wanted.std)
    ]
    in_loss = [
        (one, advantage)
        for one, advantage in zip(responses, advantages, strict=True)
        if one.scored.reward is not None and not (wanted.mask_truncated and one.rollout.finish_reason == "length")
    ]
    tokens = sum(len(one.rollout.response_ids) for one, _ in in_loss)
    total = torch.zeros(())
    for one, advantage in in_loss:
        new = plain_logprobs(policy.model, one)
        old = new.detach() if on_policy else torch.tensor(one.rollout.logprobs)
        ratio = torch.exp(new - old)
        per_token = -torch.min(ratio * advantage, ratio.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH) * advantage)
        if wanted.kl.coefficient and wanted.kl.place == "loss":
            apart = new - plain_logprobs(reference, one).detach()
            per_token = per_token + wanted.kl.coefficient * ESTIMATORS[wanted.kl.estimator](apart)
        divisor = {
            "sequence_mean": len(in_loss) * len(new),
            "token_mean": tokens,
            "constant": len(in_loss) * MAX_TOKENS,
        }[wanted.aggregation]
        total = total + per_token.sum() / divisor
    total.backward()  # type: ignore[no-untyped-call]
    gradients = {name: p.grad.clone() for name, p in policy.model.named_parameters() if p.grad is not None}
    policy.model.zero_grad()
    return total.item(), gradients


# The code under test.


def samples_of(policy: Policy, reference: Any, responses: Sequence[Judged], wanted: GRPOConfig) -> list[Sample]:
    run = run_of(policy, reference, wanted)
    return with_advantages(run, responses, range(len(REWARDS)))


def run_of(policy: Policy, reference: Any, wanted: GRPOConfig, **parts: Any) -> GRPO:
    used = reference if wanted.kl.coefficient else None
    return grpo_run(wanted, policy, reference=used, max_tokens=MAX_TOKENS, temperature=TEMPERATURE, **parts)


def packed_update(policy: Policy, reference: Any, samples: Sequence[Sample], wanted: GRPOConfig, **parts: Any) -> Kept:
    """One update on samples, and back to the parameters before it."""
    before = {name: value.clone() for name, value in policy.model.state_dict().items()}
    run = run_of(policy, reference, wanted, **parts)
    with kept_gradients(run.session) as gradients:
        done = update(run, samples, TokenStats([]))
    policy.model.load_state_dict(before)
    assert done is not None
    assert done.applied
    return done.loss, gradients


def assert_same(first: Kept, second: Kept) -> None:
    assert first[0] == pytest.approx(second[0], rel=1e-5, abs=1e-6)
    assert relative_difference(first[1], second[1]) < 1e-5


KL = [None, kl("k1"), kl("k2"), kl("k3")]
AGGREGATIONS = ["sequence_mean", "token_mean", "constant"]


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
    assert samples[0].row.advantage == pytest.approx((1 - 0.5) / math.sqrt(1 / 6), rel=1e-4)
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
            apart = torch.tensor(one.rollout.logprobs) - plain_logprobs(reference, one).detach()
            given = one.scored.reward
            rewards.append(None if given is None else given - 0.1 * float(ESTIMATORS[estimator](apart).sum()))
        expected = plain_advantages(rewards, "population")
        assert [s.row.advantage for s in samples[start : start + 4]] == pytest.approx(expected, abs=1e-4)
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
