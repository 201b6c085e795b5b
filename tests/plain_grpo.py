"""What tests of GRPO's update compare: plain formulas on one unpadded forward per response, and the trainer's own."""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any, Literal

import pytest
import torch
from small_runs import GRPO, NO_CLIPPING, grpo_run, judged, kept_gradients, relative_difference, update, with_advantages
from torch import Tensor

from reasonrl.config import GRPOConfig
from reasonrl.evaluation.evaluate import Judged
from reasonrl.models.load import Policy
from reasonrl.trainers.metrics import TokenStats
from reasonrl.trainers.policy import with_old_logprobs
from reasonrl.trainers.sample import Sample

MAX_TOKENS, TEMPERATURE, CLIP_LOW, CLIP_HIGH = 8, 0.9, 0.1, 0.25
REWARDS: tuple[tuple[float | None, ...], ...] = (
    (1.0, 0.0, 0.5, None),  # one could not be judged
    (1.0, 1.0, 1.0, 1.0),  # agrees
    (None, None, 1.0, None),  # one judged is left
    (0.0, 1.0, 0.0, 0.3),
)
AGGREGATIONS = ["sequence_mean", "token_mean", "constant"]
Kept = tuple[float, dict[str, Tensor]]


def responses_of(policy: Policy) -> list[Judged]:
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


def plain_update(
    policy: Policy, reference: Any, responses: Sequence[Judged], wanted: GRPOConfig, start: Policy | None = None
) -> Kept:
    """Loss and gradients; with importance sampling, π_old is that of `start`, the policy itself if None."""
    policy.model.zero_grad()
    on_policy = wanted.epochs * wanted.minibatches == 1
    corrected = wanted.importance.mode == "truncated"
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
        sampler = torch.tensor(one.rollout.logprobs)
        old = plain_logprobs((start or policy).model, one).detach() if on_policy or corrected else sampler
        ratio = torch.exp(new - old)
        per_token = -torch.min(ratio * advantage, ratio.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH) * advantage)
        if corrected:
            per_token = per_token * torch.exp(old - sampler).clamp(max=wanted.importance.cap)
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
    return with_old_logprobs(run, with_advantages(run, responses, range(len(REWARDS))), on_policy=wanted.on_policy)


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
