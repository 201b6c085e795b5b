"""PPO, after Algorithm 1 of Schulman et al. 2017 (arXiv 1707.06347), with the rewards of Ouyang et al. 2022.

Where it departs from the paper: the state is the text so far and the action its next token; the reward of a response
stands on its last token, less β·KL toward the reference on every token (arXiv 2203.02155); policy and critic may be two
models, each with its own updates on the same minibatches. A response cut at the token limit has ended: its verdict is
final, so that nothing is bootstrapped behind it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from reasonrl.algorithms.masking import masked
from reasonrl.algorithms.returns import gae
from reasonrl.algorithms.steps import Steps
from reasonrl.algorithms.token_rewards import token_rewards
from reasonrl.algorithms.values import value_clipped, value_loss
from reasonrl.algorithms.whitening import explained_variance, whiten
from reasonrl.batch import Batch
from reasonrl.config import PPOConfig
from reasonrl.models.critic import Critic
from reasonrl.models.load import reference_of
from reasonrl.trainers.coefficients import Coefficient
from reasonrl.trainers.experience import earned_by, sample_groups
from reasonrl.trainers.finish import finish_step
from reasonrl.trainers.metrics import Clock, TokenStats
from reasonrl.trainers.objective import Objective, objective_of
from reasonrl.trainers.policy import PolicyRun, forward, gather_checked, per_row, with_kl, with_old_logprobs
from reasonrl.trainers.sample import Sample
from reasonrl.trainers.session import Session, Update
from reasonrl.trainers.updates import Updates, minibatches, update_all, update_once


@dataclass(frozen=True)
class PPO:
    """A run of PPO.

    Attributes:
        run: what all runs consist of; its session trains the policy, and the head of a critic that shares its trunk.
        critic: the value function.
        critic_session: trains a critic of its own; None where it shares the policy's trunk.
        penalty: β of PPO-Penalty.
    """

    run: PolicyRun[PPOConfig]
    critic: Critic
    critic_session: Session | None
    penalty: Coefficient


def train_ppo(ppo: PPO, done: int = 0) -> None:
    """Algorithm 1: for iteration = 1, 2, …: run π_old, compute advantages, optimise L for K epochs of minibatches.

    Args:
        ppo: the run.
        done: its steps that are taken already.

    Raises:
        ReasonRLError: too many responses could not be judged, or too many updates in a row were not finite.
    """
    run, config = ppo.run, ppo.run.config
    objective = objective_of(config, reference=run.reference is not None, corrects_sampler=run.corrects_sampler)
    for step in range(done + 1, config.steps + 1):
        clock, stats, values = Clock(), objective.stats, TokenStats(VALUE_MEANS)
        [(problems, positions)] = run.problems.of_step(step)
        samples = sample_groups(run, problems, positions, step, clock)  # run policy π_old
        run.engine.rest()
        samples, explained = with_gae(ppo, with_kl(run, samples))  # compute advantage estimates
        everyone = gather_checked(run, samples)
        samples = with_old_logprobs(run, samples, on_policy=config.on_policy)
        trains_policy = step > config.critic.warmup_steps
        old = reference_of(run.policy.model) if objective.penalises and trains_policy else None
        clock.lap("advantages")
        cuts = minibatches(config, everyone, f"{run.seed}/{step}")
        updates = Updates()
        if trains_policy:
            loss = partial(policy_loss, ppo, objective, old, stats, values)
            updates = update_all(run, samples, cuts, loss, stats)  # optimise the surrogate
        updated = updates.metrics(run.session) | {"explained_variance": explained}
        if ppo.critic_session is not None:
            updated |= update_critic(ppo, ppo.critic_session, samples, cuts, values)
        if objective.penalises:
            updated |= adapt_penalty(ppo, old, samples, moved=updated["updates"] > 0)
        clock.lap("update")
        run.sync(step)  # θ_old ← θ
        clock.lap("sync")
        finish_step(run, step, everyone, updated | values.reduced(run.session), stats, clock)


def with_gae(ppo: PPO, samples: Sequence[Sample]) -> tuple[list[Sample], float]:
    """The samples with values, returns and advantages of their tokens, and the variance that the values explain."""
    run, config = ppo.run, ppo.run.config
    found = earned_by(run, samples)
    given = per_row(run, [s.row for s in samples], lambda batch: values_of(ppo, batch))
    values = torch.zeros_like(found.charge)
    values[found.mask] = torch.tensor([v for row in given for v in row], dtype=torch.float64)
    mask = found.mask & found.judged[:, None]
    steps = Steps(config.process_weight * found.steps.rewards, found.steps.responses, found.steps.ends)
    rewards = token_rewards(mask, outcome=found.outcome, kl=found.charge, beta=1.0, steps=steps)
    advantages, returns = gae(rewards, values, mask, gamma=config.discount, lam=config.gae_lambda)
    sum_over = run.session.sum_tensor
    explained = float(explained_variance(values, returns, mask, sum_over=sum_over))
    if config.whiten:
        advantages = whiten(advantages, mask, sum_over=sum_over)

    def of(values: Tensor, index: int) -> tuple[float, ...]:
        return tuple(values[index][found.mask[index]].tolist())

    return [
        replace(
            s,
            row=replace(s.row, values=of(values, i), returns=of(returns, i), advantages=of(advantages, i)),
            learns=s.counted,
        )
        for i, s in enumerate(samples)
    ], explained


def values_of(ppo: PPO, batch: Batch) -> Tensor:
    """The critic's values of a batch's response tokens, (B, T)."""
    accelerator = ppo.run.session.accelerator
    with accelerator.autocast():
        return ppo.critic.values(batch.to(accelerator.device), share_prompt=ppo.run.share_prompt)


def policy_loss(
    ppo: PPO, objective: Objective, old: Any | None, stats: TokenStats, values: TokenStats, batch: Batch
) -> Tensor:
    """The policy's loss of each token of a micro-batch, (B, T), with c_v·L_V where the critic shares its trunk."""
    run = ppo.run
    scores = forward(run, run.policy.model, batch, old_model=old, **objective.forward)
    per_token, measured = objective(batch, scores, beta=run.beta.value, penalty=ppo.penalty.value)
    stats.add(batch.response_mask, **measured)
    if ppo.critic.shared:
        found = ppo.critic.of_hidden(scores.hidden, batch.response_mask)
        per_token = per_token + run.config.value_coefficient * critic_loss(ppo, values, batch, found)
    return per_token


def update_critic(
    ppo: PPO, session: Session, samples: Sequence[Sample], cuts: Sequence[frozenset[int]], stats: TokenStats
) -> dict[str, float]:
    """One optimiser step of a critic of its own for each minibatch; what the metrics say of them."""

    def loss(batch: Batch) -> Tensor:
        return critic_loss(ppo, stats, batch, values_of(ppo, batch))

    taken: list[Update] = []
    for groups in cuts:
        update = update_once(ppo.run, session, [s for s in samples if s.row.group in groups], loss)
        taken += [] if update is None else [update]
    norms = [update.grad_norm for update in taken if update.applied]
    return {
        "critic_grad_norm": sum(norms) / len(norms) if norms else 0.0,
        "critic_skipped_updates": float(session.skipped),
    }


def critic_loss(ppo: PPO, stats: TokenStats, batch: Batch, values: Tensor) -> Tensor:
    """The critic's loss of each token, (B, T), of its values (B, T)."""
    mask, clip = batch.response_mask, ppo.run.config.value_clip
    given = masked(values, mask), masked(batch.values, mask), masked(batch.returns, mask)
    per_token = value_loss(*given, clip=clip)
    held = torch.zeros_like(per_token) if clip is None else value_clipped(*given, clip=clip)
    stats.add(mask, value_loss=per_token, value_clip_fraction=held, value_mean=values)
    return per_token


VALUE_MEANS = ("value_loss", "value_clip_fraction", "value_mean")


def adapt_penalty(ppo: PPO, old: Any | None, samples: Sequence[Sample], *, moved: bool) -> dict[str, float]:
    """Double or halve β by the KL(π_old ‖ π_θ) that the step's updates led to (§4); what the metrics say of both.

    Where none has `moved` the policy, as while the critic warms up, its KL of 0 says nothing of β.
    """
    run, used = ppo.run, ppo.penalty.value
    if not moved:
        return {"penalty_kl": 0.0, "penalty_coefficient": used}
    rows = [s.row for s in samples if s.counted]
    found = per_row(run, rows, lambda batch: forward_divergence(run, old, batch))
    tokens = run.session.sum(sum(map(len, found)))
    kl = run.session.sum(sum(map(sum, found))) / max(1.0, tokens)
    ppo.penalty.double_or_halve(kl, run.config.penalty.target)
    return {"penalty_kl": kl, "penalty_coefficient": used}


def forward_divergence(run: PolicyRun[Any], old: Any, batch: Batch) -> Tensor:
    """KL(π_old ‖ π_θ) of each response token over the whole vocabulary, (B, T)."""
    divergence = forward(run, run.policy.model, batch, old_model=old).divergence
    assert divergence is not None
    return divergence
