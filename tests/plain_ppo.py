"""What tests of PPO's update compare: plain formulas on one unpadded forward per response, and the trainer's own."""

import math
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from plain_grpo import (
    AGGREGATIONS,
    CLIP_HIGH,
    CLIP_LOW,
    ESTIMATORS,
    MAX_TOKENS,
    REWARDS,
    TEMPERATURE,
    Kept,
    assert_same,
    kl,
    plain_logprobs,
    responses_of,
)
from small_runs import CHARACTERS, NO_CLIPPING, kept_gradients, new_critic, ppo_run, tiny_policy
from torch import Tensor, nn

from reasonrl.config import PPOConfig
from reasonrl.evaluation.evaluate import Judged
from reasonrl.models.critic import Critic, CriticModule
from reasonrl.models.load import Policy, reference_of
from reasonrl.trainers.experience import samples_of
from reasonrl.trainers.metrics import TokenStats
from reasonrl.trainers.objective import objective_of
from reasonrl.trainers.policy import with_kl, with_old_logprobs
from reasonrl.trainers.ppo import PPO, VALUE_MEANS, policy_loss, update_critic, with_gae
from reasonrl.trainers.sample import Sample
from reasonrl.trainers.updates import update_once
from reasonrl.verifier import StepReward

__all__ = ["AGGREGATIONS", "Case", "assert_same", "case_of", "config", "kl", "packed_update", "plain_update"]

VALUE_CLIP, DISCOUNT, LAMBDA, PENALTY = 0.15, 0.9, 0.8, 0.3


@dataclass(frozen=True)
class Case:
    """Models and responses of an update.

    Attributes:
        policy, reference: the trained model, and another.
        old: the model that stands for π_old in PPO-Penalty, near the policy.
        before, critic: the critic as it was when the responses were sampled, and as it has become since.
        responses: four groups of four, some with steps that verifiers rewarded.
    """

    policy: Policy
    reference: Any
    old: Any
    before: Critic
    critic: Critic
    responses: list[Judged]


def case_of(*, shared: bool) -> Case:
    policy = tiny_policy(0)
    old = nearby(policy.model, 1)
    critic = Critic(policy.model, head(2), True) if shared else with_head(new_critic(policy), 2)
    if shared:
        before = Critic(old, head(3), True)
    else:
        critic.model.load_state_dict(nearby(critic.model, 4).state_dict())
        before = Critic(nearby(critic.model, 5), head(3), False)
    responses = [with_steps(one) for one in responses_of(policy)]
    return Case(policy, reference_of(tiny_policy(1).model), old, before, critic, responses)


def nearby(model: Any, seed: int) -> Any:
    """A frozen copy of a model with a little noise on its weights."""
    other, draw = reference_of(model), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(0.02 * torch.randn(parameter.shape, generator=draw))
    return other


def head(seed: int) -> nn.Linear:
    made, draw = nn.Linear(16, 1), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(0.1 * torch.randn(parameter.shape, generator=draw))
    return made


def with_head(critic: Critic, seed: int) -> Critic:
    return replace(critic, head=head(seed))


def with_steps(one: Judged) -> Judged:
    """The response with a text, and two steps: one ends with its first token, the other in its middle."""
    text = "".join(CHARACTERS[token - 3] for token in one.rollout.response_ids)
    steps = (StepReward(0, 1, 0.6), StepReward(0, (len(text) + 1) // 2, -0.3))
    [verdict] = one.scored.verdicts
    scored = replace(one.scored, verdicts=(replace(verdict, steps=steps),))
    return replace(one, rollout=replace(one.rollout, text=text), scored=scored)


def config(*, shared: bool = False, **settings: Any) -> PPOConfig:
    given = {
        "steps": 1, "problems_per_step": len(REWARDS), "group_size": len(REWARDS[0]), "optimizer": NO_CLIPPING,
        "critic": {"shared": shared, "optimizer": NO_CLIPPING.model_dump()},
        "clip_low": CLIP_LOW, "clip_high": CLIP_HIGH,
        "value_clip": VALUE_CLIP, "discount": DISCOUNT, "gae_lambda": LAMBDA, "penalty": {"coefficient": PENALTY},
        "micro_batch_tokens": 40,
    }  # fmt: skip
    return PPOConfig.model_validate(given | settings)


# The reference: nothing here is shared with the code under test but the models.


def plain_values(critic: Critic, one: Judged) -> Tensor:
    prompt, response = one.rollout.prompt_ids, one.rollout.response_ids
    hidden = critic.model.base_model(input_ids=torch.tensor([prompt + response])).last_hidden_state
    values: Tensor = hidden[0, len(prompt) - 1 : -1] @ critic.head.weight[0] + critic.head.bias[0]
    return values


def plain_rewards(case: Case, one: Judged, wanted: PPOConfig) -> list[float]:
    assert one.scored.reward is not None
    rewards = [0.0] * len(one.rollout.response_ids)
    if wanted.kl.coefficient and wanted.kl.place == "reward":
        apart = (plain_logprobs(case.policy.model, one) - plain_logprobs(case.reference, one)).detach()
        rewards = (-wanted.kl.coefficient * ESTIMATORS[wanted.kl.estimator](apart)).tolist()
    rewards[-1] += one.scored.reward
    for step in one.scored.verdicts[0].steps:  # a token is a character
        rewards[step.end - 1] += wanted.process_weight * step.reward
    return rewards


def plain_gae(rewards: Sequence[float], values: Sequence[float], wanted: PPOConfig) -> list[float]:
    """A_t = Σ_k (γλ)^k δ_{t+k}."""
    following = [*values[1:], 0.0]
    errors = [r + wanted.discount * n - v for r, n, v in zip(rewards, following, values, strict=True)]
    decay = wanted.discount * wanted.gae_lambda
    return [sum(decay**k * error for k, error in enumerate(errors[t:])) for t in range(len(errors))]


@dataclass(frozen=True)
class Estimated:
    """What a response's tokens are trained toward."""

    one: Judged
    values: list[float]
    returns: list[float]
    advantages: list[float]


def plain_estimates(case: Case, wanted: PPOConfig) -> list[Estimated]:
    found = []
    for one in case.responses:
        if one.scored.reward is not None:
            values = plain_values(case.before, one).detach().tolist()
            advantages = plain_gae(plain_rewards(case, one, wanted), values, wanted)
            returns = [a + v for a, v in zip(advantages, values, strict=True)]
            found.append(Estimated(one, values, returns, advantages))
    if wanted.whiten:
        every = [a for each in found for a in each.advantages]
        mean, std = statistics.fmean(every), statistics.pstdev(every)
        found = [replace(each, advantages=[(a - mean) / (std + 1e-8) for a in each.advantages]) for each in found]
    return found


def plain_explained(found: Sequence[Estimated]) -> float:
    pairs = [pair for each in found for pair in zip(each.values, each.returns, strict=True)]
    left, whole = [r - v for v, r in pairs], [r for _, r in pairs]
    return 1 - statistics.pvariance(left) / statistics.pvariance(whole)


def plain_distributions(model: Any, one: Judged) -> Tensor:
    prompt, response = one.rollout.prompt_ids, one.rollout.response_ids
    logits = model(input_ids=torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1]
    return torch.log_softmax(logits / TEMPERATURE, -1)


def plain_policy_loss(case: Case, of: Estimated, wanted: PPOConfig) -> Tensor:
    all_new = plain_distributions(case.policy.model, of.one)
    new = all_new[range(len(all_new)), list(of.one.rollout.response_ids)]
    old = new.detach() if wanted.epochs * wanted.minibatches == 1 else torch.tensor(of.one.rollout.logprobs)
    ratio, advantages = torch.exp(new - old), torch.tensor(of.advantages)
    if wanted.loss == "clip":
        limited = ratio.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH)
        loss = -torch.min(ratio * advantages, limited * advantages)
    else:
        all_old = plain_distributions(case.old, of.one).detach()
        loss = -ratio * advantages + PENALTY * (all_old.exp() * (all_old - all_new)).sum(-1)
    if wanted.kl.coefficient and wanted.kl.place == "loss":
        apart = new - plain_logprobs(case.reference, of.one).detach()
        loss = loss + wanted.kl.coefficient * ESTIMATORS[wanted.kl.estimator](apart)
    return loss + wanted.entropy_bonus * (all_new.exp() * all_new).sum(-1)


def plain_value_loss(case: Case, of: Estimated, wanted: PPOConfig) -> Tensor:
    values, returns = plain_values(case.critic, of.one), torch.tensor(of.returns)
    error = (values - returns) ** 2
    if wanted.value_clip is not None:
        old = torch.tensor(of.values)
        near = torch.min(torch.max(values, old - wanted.value_clip), old + wanted.value_clip)
        error = torch.max(error, (near - returns) ** 2)
    return error / 2


def plain_update(case: Case, found: Sequence[Estimated], wanted: PPOConfig) -> tuple[Kept, Kept]:
    """Loss and gradients of the policy's session, and gradient norm and gradients of the critic's."""
    trained = [each for each in found if not (wanted.mask_truncated and each.one.rollout.finish_reason == "length")]
    tokens = sum(len(each.values) for each in trained)

    def total(part: Any) -> Tensor:
        found = torch.zeros(())
        for each in trained:
            count = {"sequence_mean": len(trained) * len(each.values), "token_mean": tokens}
            divisor = count.get(wanted.aggregation, len(trained) * MAX_TOKENS)
            found = found + part(case, each, wanted).sum() / divisor
        return found

    policy, critic = total(plain_policy_loss), total(plain_value_loss)
    if case.critic.shared:
        loss = policy + wanted.value_coefficient * critic
        return (loss.item(), gradients(loss, named(case))), (0.0, {})
    of_critic = gradients(critic, dict(CriticModule(case.critic).named_parameters()))
    norm = math.sqrt(sum(float(g.square().sum()) for g in of_critic.values()))
    return (policy.item(), gradients(policy, named(case))), (norm, of_critic)


def gradients(loss: Tensor, parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    found = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True, retain_graph=True)
    zeros = map(torch.zeros_like, parameters.values())
    return dict(zip(parameters, (z if g is None else g for g, z in zip(found, zeros, strict=True)), strict=True))


def named(case: Case) -> dict[str, Tensor]:
    """What the policy's session trains."""
    return dict(case.policy.model.named_parameters()) | shared_head(case)


def shared_head(case: Case) -> dict[str, Tensor]:
    return {f"head.{n}": p for n, p in case.critic.head.named_parameters()} if case.critic.shared else {}


# The code under test.


def ppo_of(case: Case, critic: Critic, wanted: PPOConfig, **parts: Any) -> PPO:
    reference = case.reference if wanted.kl.coefficient else None
    limits: dict[str, Any] = {"max_tokens": MAX_TOKENS, "temperature": TEMPERATURE}
    return ppo_run(wanted, case.policy, critic, reference=reference, **limits, **parts)


def estimated(case: Case, wanted: PPOConfig) -> tuple[list[Sample], float]:
    """The samples as they come to the updates, and the variance explained."""
    ppo = ppo_of(case, case.before, wanted)
    samples = samples_of(ppo.run, case.responses, range(len(REWARDS)))
    samples, explained = with_gae(ppo, with_kl(ppo.run, samples))
    return with_old_logprobs(ppo.run, samples, on_policy=wanted.on_policy), explained


def packed_update(
    case: Case, samples: Sequence[Sample], wanted: PPOConfig, values: TokenStats | None = None, **parts: Any
) -> tuple[Kept, Kept]:
    """One update of policy and critic on samples, and back to the parameters before it."""
    ppo = ppo_of(case, case.critic, wanted, **parts)
    objective = objective_of(wanted, reference=ppo.run.reference is not None, corrects_sampler=False)
    values = values or TokenStats(VALUE_MEANS)
    old = case.old if objective.penalises else None
    with unchanged(case):
        with kept_gradients(ppo.run.session, shared_head(case)) as of_policy:
            loss = partial(policy_loss, ppo, objective, old, objective.stats, values)
            done = update_once(ppo.run, ppo.run.session, samples, loss)
        assert done is not None
        assert done.applied
        if ppo.critic_session is None:
            return (done.loss, of_policy), (0.0, {})
        groups = frozenset(s.row.group for s in samples)
        with kept_gradients(ppo.critic_session) as of_critic:
            said = update_critic(ppo, ppo.critic_session, samples, [groups], values)
    return (done.loss, of_policy), (said["critic_grad_norm"], of_critic)


@contextmanager
def unchanged(case: Case) -> Iterator[None]:
    """Leave policy and critic as they were."""
    modules = [case.policy.model, CriticModule(case.critic)]
    states = [{name: value.clone() for name, value in module.state_dict().items()} for module in modules]
    yield
    for module, state in zip(modules, states, strict=True):
        module.load_state_dict(state)
