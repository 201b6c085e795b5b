"""What tests of TRPO compare: plain formulas on one unpadded forward per response, and the trainer's own step."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from plain_grpo import ESTIMATORS, MAX_TOKENS, REWARDS, TEMPERATURE, plain_advantages, plain_logprobs
from small_runs import NO_CLIPPING, accelerator, grpo_run, tiny_policy
from torch import Tensor

from reasonrl.config import TRPOConfig
from reasonrl.evaluation.evaluate import Judged
from reasonrl.models.load import Policy
from reasonrl.trainers import experience, trpo
from reasonrl.trainers.sample import Sample
from reasonrl.trainers.session import Session


def policy_of(seed: int = 0, **model: Any) -> Policy:
    return tiny_policy(seed, attention="eager", **model)


def only(policy: Policy, *ends: str) -> Policy:
    """The policy, of whose parameters only those whose names end so are trained."""
    for name, parameter in policy.model.named_parameters():
        parameter.requires_grad_(name.endswith(ends))
    return policy


def config(**settings: Any) -> TRPOConfig:
    given = {"steps": 1, "problems_per_step": len(REWARDS), "group_size": len(REWARDS[0]), "cg_iterations": 4}
    return TRPOConfig.model_validate(given | settings)


def run_of(policy: Policy, wanted: TRPOConfig, *, reference: Any = None, **parts: Any) -> trpo.Run:
    session = parts.pop("session", None) or Session(policy.model, accelerator(), NO_CLIPPING, 0)
    made: Any = grpo_run(
        cast(Any, wanted), policy, reference=reference, max_tokens=MAX_TOKENS, temperature=TEMPERATURE,
        session=session, **parts,
    )  # fmt: skip
    return cast(trpo.Run, made)


def samples_of(run: trpo.Run, responses: Sequence[Judged], positions: Sequence[int] | None = None) -> list[Sample]:
    """Responses, group after group, as they come to the step."""
    groups = range(len(responses) // run.config.group_size) if positions is None else positions
    found = experience.with_group_advantages(run, experience.samples_of(run, responses, groups))
    return trpo.with_exact_old_logprobs(run, found)


def improve(run: trpo.Run, samples: Sequence[Sample]) -> dict[str, float]:
    """One step on samples of this process alone; what the metrics say of it."""
    surrogate = trpo.surrogate_of(run)
    return trpo.improve(run, surrogate, samples, trpo.fisher_groups(run, samples, 1), surrogate.stats)


def gradient_of(run: trpo.Run, samples: Sequence[Sample]) -> tuple[float, Tensor]:
    """The loss of a step and its gradient, through the step itself, which is kept from being taken."""
    kept: dict[str, tuple[float, Tensor]] = {}
    computed = trpo.loss_and_gradient

    def keep(*given: Any) -> tuple[float, Tensor]:
        kept["found"] = loss, gradient = computed(*given)
        return loss, torch.zeros_like(gradient)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trpo, "loss_and_gradient", keep)
        improve(run, samples)
    return kept["found"]


def parameters_of(model: Any) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters() if p.requires_grad])


# The reference: nothing here is shared with the code under test but the model.


def in_loss(responses: Sequence[Judged], wanted: TRPOConfig) -> list[Judged]:
    """The responses that count."""
    return [
        one
        for one in responses
        if one.scored.reward is not None and not (wanted.mask_truncated and one.rollout.finish_reason == "length")
    ]


def plain_loss(
    model: Any, old: Any, responses: Sequence[Judged], wanted: TRPOConfig, *, reference: Any = None, corrects: bool
) -> Tensor:
    """−(1/D) Σ w·(π_θ/π_old)·A + β·KL, π_old a model too, w = min(π_old/μ, C) if the sampler is corrected for."""
    size, beta = wanted.group_size, wanted.kl.coefficient
    advantages: list[float] = []
    for start in range(0, len(responses), size):
        rewards = [one.scored.reward for one in responses[start : start + size]]
        advantages += plain_advantages(rewards, wanted.std)
    counted = in_loss(responses, wanted)
    tokens = sum(len(one.rollout.response_ids) for one in counted)
    total = torch.zeros((), dtype=torch.float64)
    for one, advantage in zip(responses, advantages, strict=True):
        if one not in counted:
            continue
        new, before = plain_logprobs(model, one).double(), plain_logprobs(old, one).detach().double()
        per_token = -(new - before).exp() * advantage
        if corrects:
            sampler = torch.tensor(one.rollout.logprobs, dtype=torch.float64)
            per_token = per_token * (before - sampler).exp().clamp(max=wanted.importance.cap)
        if reference is not None:
            apart = new - plain_logprobs(reference, one).detach()
            per_token = per_token + beta * ESTIMATORS[wanted.kl.estimator](apart)
        divisor = {"sequence_mean": len(counted) * len(new), "token_mean": tokens, "constant": len(counted) * 8}
        total = total + per_token.sum() / divisor[wanted.aggregation]
    return total


def plain_log_p(model: Any, one: Judged) -> Tensor:
    """Log-probabilities of the whole vocabulary at each response token, (T, V)."""
    prompt, response = one.rollout.prompt_ids, one.rollout.response_ids
    scores: Tensor = model(input_ids=torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1]
    return (scores.double() / TEMPERATURE).log_softmax(-1)


@torch.no_grad()
def plain_kl(model: Any, old: Any, responses: Sequence[Judged]) -> float:
    """The mean KL(π_old ‖ π_θ) over the tokens of these responses."""
    pairs = [(plain_log_p(old, one), plain_log_p(model, one)) for one in responses]
    per_token = torch.cat([(p.exp() * (p - q)).sum(-1) for p, q in pairs])
    return per_token.mean().item()


def plain_fisher(model: Any, responses: Sequence[Judged]) -> Tensor:
    """(1/N) Σ_t Σ_v p_v ∇log p_v ∇log p_vᵀ, (P, P), from one backward pass for each token and word."""
    trained = [p for p in model.parameters() if p.requires_grad]
    size, tokens = sum(p.numel() for p in trained), 0
    total = torch.zeros(size, size, dtype=torch.float64)
    for one in responses:
        log_p = plain_log_p(model, one)
        tokens += len(log_p)
        for value in log_p.flatten():
            rows = torch.autograd.grad(value, trained, retain_graph=True, materialize_grads=True)
            row = torch.cat([r.flatten() for r in rows]).double()
            total += value.exp().detach() * torch.outer(row, row)
    return total / tokens


def rewarded(responses: Sequence[Judged], reward: Callable[[Judged], float | None]) -> list[Judged]:
    """The responses with other rewards."""
    return [replace(one, scored=replace(one.scored, reward=reward(one))) for one in responses]
