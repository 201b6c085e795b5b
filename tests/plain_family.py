"""The critic-free family in plain formulas, on one unpadded forward per response, and the trainer's own update."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from plain_grpo import ESTIMATORS, MAX_TOKENS, REWARDS, TEMPERATURE, plain_advantages
from small_runs import GRPO, NO_CLIPPING, grpo_objective, grpo_run, kept_gradients, token_stats, with_advantages
from torch import Tensor

from reasonrl.config import (
    CISPOConfig,
    CriticFreeConfig,
    DAPOConfig,
    DrGRPOConfig,
    GRPOConfig,
    GSPOConfig,
    ReinforcePPBaselineConfig,
    ReinforcePPConfig,
    RLOOConfig,
)
from reasonrl.evaluation.evaluate import Judged
from reasonrl.models.load import Policy
from reasonrl.trainers.grpo import loss
from reasonrl.trainers.policy import with_old_logprobs
from reasonrl.trainers.sample import Sample
from reasonrl.trainers.updates import update_once

PRESETS: dict[str, type[CriticFreeConfig]] = {
    "grpo": GRPOConfig,
    "dr_grpo": DrGRPOConfig,
    "rloo": RLOOConfig,
    "reinforce_pp": ReinforcePPConfig,
    "reinforce_pp_baseline": ReinforcePPBaselineConfig,
    "dapo": DAPOConfig,
    "gspo": GSPOConfig,
    "cispo": CISPOConfig,
}
Kept = tuple[float, dict[str, Tensor]]


def config_of(name: str, **settings: Any) -> CriticFreeConfig:
    """A preset as it is but for the sizes, and for what is set."""
    given = {"steps": 1, "problems_per_step": len(REWARDS), "group_size": len(REWARDS[0]), "optimizer": NO_CLIPPING}
    return PRESETS[name].model_validate(given | {"micro_batch_tokens": 40} | settings)


# The formulas: nothing here is shared with the code under test but the model.


def log_p(model: Any, one: Judged) -> Tensor:
    """The policy's distribution at each response token, (T, V)."""
    prompt, response = one.rollout.prompt_ids, one.rollout.response_ids
    logits = model(input_ids=torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1]
    return torch.log_softmax(logits / TEMPERATURE, -1)


def chosen(distribution: Tensor, one: Judged) -> Tensor:
    return distribution[range(len(one.rollout.response_ids)), list(one.rollout.response_ids)]


def shaped(one: Judged, wanted: CriticFreeConfig) -> float | None:
    """Eq. 13 of DAPO added to the reward."""
    reward = one.scored.reward
    if reward is None or wanted.overlong_buffer is None:
        return reward
    buffer, length = max(1, round(wanted.overlong_buffer * MAX_TOKENS)), len(one.rollout.response_ids)
    return reward if length <= MAX_TOKENS - buffer else reward + (MAX_TOKENS - buffer - length) / buffer


def token_advantages(
    rewards: Sequence[float | None], strayed: Sequence[Sequence[float]], wanted: CriticFreeConfig
) -> list[list[float]]:
    """Of responses, group after group, with what each token pays, β·KL_t."""
    size, found = wanted.group_size, list[float | None]()
    whitens = wanted.advantage in ("batch_whitened", "group_centred_whitened")
    given = [r if r is None or whitens else r - sum(paid) for r, paid in zip(rewards, strayed, strict=True)]
    for start in range(0, len(given), size):
        group = given[start : start + size]
        known = [r for r in group if r is not None]
        if wanted.advantage == "group_relative":
            found += plain_advantages(group, wanted.std)
        elif wanted.advantage == "leave_one_out":
            others = [(sum(known) - r) / (len(known) - 1) if r is not None and len(known) > 1 else r for r in group]
            found += [0.0 if r is None or o is None else r - o for r, o in zip(group, others, strict=True)]
        elif wanted.advantage == "group_centred_whitened":
            found += [None if r is None else r - sum(known) / len(known) for r in group]
        else:
            found += group
    if not whitens:
        return [[a or 0.0] * len(paid) for a, paid in zip(found, strayed, strict=True)]
    returns = [
        [None if r is None else r - sum(paid[t:]) for t in range(len(paid))]
        for r, paid in zip(found, strayed, strict=True)
    ]
    values = [x for each in returns for x in each if x is not None]
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((x - mean) ** 2 for x in values) / len(values))
    return [[0.0 if x is None else (x - mean) / (deviation + 1e-8) for x in each] for each in returns]


def token_loss(new: Tensor, old: Tensor, advantages: Tensor, wanted: CriticFreeConfig) -> Tensor:
    low, high = 1 - wanted.clip_low, 1 + wanted.clip_high
    ratio = torch.exp(new - old)
    if wanted.loss == "importance_weighted":
        return -ratio * advantages
    if wanted.loss == "cispo":
        return -ratio.detach().clamp(low, high) * advantages * new
    if wanted.loss == "gspo":
        one = torch.exp((new - old).mean())
        # for weights that differ from token to token, each must have its own gradient
        ratio = one.expand_as(new) if wanted.importance.mode == "none" else one.detach() * torch.exp(new - new.detach())
    objective = torch.min(ratio * advantages, ratio.clamp(low, high) * advantages)
    if wanted.dual_clip is not None:
        objective = torch.where(advantages < 0, torch.max(objective, wanted.dual_clip * advantages), objective)
    return -objective


def plain_update(
    policy: Policy, reference: Any, responses: Sequence[Judged], wanted: CriticFreeConfig, start: Policy
) -> Kept:
    """Loss and gradients; `start` is the policy that the step began with."""
    policy.model.zero_grad()
    corrected, beta = wanted.importance.mode == "truncated", wanted.kl.coefficient
    given, strayed = [], []
    for one in responses:
        sampler = torch.tensor(one.rollout.logprobs)
        ours = chosen(log_p(start.model, one), one).detach()
        began = ours if corrected else sampler
        ref = chosen(log_p(reference, one), one).detach()
        given.append((sampler, began, ref))
        paid = beta * ESTIMATORS[wanted.kl.estimator](ours - ref) if wanted.kl.place == "reward" else 0 * sampler
        strayed.append(paid.tolist())
    advantages = token_advantages([shaped(one, wanted) for one in responses], strayed, wanted)
    in_loss = [
        i for i, one in enumerate(responses)
        if one.scored.reward is not None and not (wanted.mask_truncated and one.rollout.finish_reason == "length")
    ]  # fmt: skip
    tokens = sum(len(strayed[i]) for i in in_loss)
    total = torch.zeros(())
    for i in in_loss:
        sampler, began, ref = given[i]
        distribution = log_p(policy.model, responses[i])
        new = chosen(distribution, responses[i])
        old = new.detach() if wanted.on_policy else began
        per_token = token_loss(new, old, torch.tensor(advantages[i]), wanted)
        if corrected:
            per_token = per_token * torch.exp(old - sampler).clamp(max=wanted.importance.cap)
        if wanted.kl.place == "loss":
            per_token = per_token + beta * ESTIMATORS[wanted.kl.estimator](new - ref)
        per_token = per_token + wanted.entropy_bonus * (distribution.exp() * distribution).sum(-1)
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


def run_of(policy: Policy, reference: Any, wanted: CriticFreeConfig, **parts: Any) -> GRPO:
    used = reference if wanted.kl.coefficient else None
    return grpo_run(wanted, policy, reference=used, max_tokens=MAX_TOKENS, temperature=TEMPERATURE, **parts)


def family_samples(
    start: Policy, reference: Any, responses: Sequence[Judged], wanted: CriticFreeConfig
) -> list[Sample]:
    """What is trained on; `start` is the policy that the step begins with."""
    run = run_of(start, reference, wanted)
    positions = range(len(responses) // wanted.group_size)
    return with_old_logprobs(run, with_advantages(run, responses, positions), on_policy=wanted.on_policy)


def family_update(
    policy: Policy, reference: Any, samples: Sequence[Sample], wanted: CriticFreeConfig, **parts: Any
) -> tuple[Kept, dict[str, float]]:
    """One update on samples, and back to the parameters before it; what was measured beside it."""
    before = {name: value.clone() for name, value in policy.model.state_dict().items()}
    run = run_of(policy, reference, wanted, **parts)
    stats = token_stats(run)
    with kept_gradients(run.session) as gradients:
        done = update_once(run, run.session, samples, partial(loss, run, grpo_objective(run), stats))
    policy.model.load_state_dict(before)
    assert done is not None
    assert done.applied
    return (done.loss, gradients), stats.reduced(run.session)
