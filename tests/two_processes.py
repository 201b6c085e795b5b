"""Run by test_two_processes.py once as each of two gloo processes: what they compute together, to a JSON file each.

Last of all, process 1 dies; process 0 must notice, not wait for ever.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from small_runs import (
    GRPO,
    NO_CLIPPING,
    grpo_run,
    judged,
    new_critic,
    ppo_run,
    tiny_policy,
    token_stats,
    update,
    with_advantages,
)
from torch import Tensor, nn

from reasonrl import ReasonRLError
from reasonrl.config import CriticConfig, GRPOConfig, ImportanceConfig, OptimizerConfig, PenaltyConfig, PPOConfig
from reasonrl.evaluation.evaluate import Judged
from reasonrl.models.critic import CriticModule
from reasonrl.models.load import reference_of
from reasonrl.trainers.experience import samples_of
from reasonrl.trainers.metrics import TokenStats
from reasonrl.trainers.objective import objective_of
from reasonrl.trainers.policy import gather_checked, with_old_logprobs
from reasonrl.trainers.ppo import VALUE_MEANS, adapt_penalty, policy_loss, update_critic, with_gae
from reasonrl.trainers.session import Session, gather
from reasonrl.trainers.updates import update_all

INPUTS = torch.tensor([[1.0, 0.0, 2.0], [0.5, 1.0, -1.0], [-1.0, 1.5, 0.0], [2.0, 0.0, 1.0]])
CUTS = {"even": [[0, 1], [2, 3]], "uneven": [[0, 1, 2], [3]], "all on one": [[], [0, 1, 2, 3]]}
GRPO_CONFIG = GRPOConfig(steps=1, problems_per_step=3, group_size=2, aggregation="token_mean", optimizer=NO_CLIPPING)
CORRECTED = GRPO_CONFIG.model_copy(update={"epochs": 2, "importance": ImportanceConfig(mode="truncated", cap=1.1)})
PPO_CONFIG = PPOConfig(
    steps=1, problems_per_step=3, group_size=2, epochs=3, value_clip=0.01, penalty=PenaltyConfig(target=1e-9)
)
PPO_CONFIGS = {
    "clip": PPO_CONFIG,
    "penalty": PPO_CONFIG.model_copy(update={"loss": "penalty"}),
    "shared": PPO_CONFIG.model_copy(update={"critic": CriticConfig(shared=True)}),
    "stopped": PPO_CONFIG.model_copy(update={"target_kl": 0.1}),
}
# By position of the group: the first two agree, the last does not. Process 0 holds positions 0 and 2, process 1 has 1.
# The last has tokens that its sampler found likelier than the policy does, and tokens it found much less likely.
GROUPS: list[list[Judged]] = [
    [judged(0, 0, (3, 4), 1.0), judged(0, 1, (5,), 1.0)],
    [judged(1, 0, (6,), 0.0), judged(1, 1, (7, 8, 9), 0.0)],
    [judged(2, 0, (3,), 1.0, logprobs=(-7.0,)), judged(2, 1, (10, 11, 12, 13), 0.0, logprobs=(-1.0, -7.0, -4.0, -2.0))],
]


def linear_updates(accelerator: Accelerator, rows: Sequence[int]) -> tuple[list[float], list[list[float]]]:
    """Three updates of a linear layer on these rows of INPUTS, one micro-batch each: losses, and the weights."""
    torch.manual_seed(0)
    model = nn.Linear(3, 1, bias=False)
    session = Session(model, accelerator, OptimizerConfig(learning_rate=0.01, weight_decay=0.1, max_grad_norm=2), 3)

    def shares() -> Iterator[Tensor]:
        for row in rows:
            yield model(INPUTS[row]).square().sum() / len(INPUTS)

    losses = [session.update(shares()).loss for _ in range(3)]
    return losses, model.weight.tolist()


def not_finite_on_one(accelerator: Accelerator, bad: int) -> dict[str, Any]:
    """NaN on process `bad` alone: what each sees of the update, and how the run stops."""
    model = nn.Linear(3, 1, bias=False)
    session = Session(model, accelerator, OptimizerConfig(learning_rate=0.01, max_nonfinite=2), 10)
    factor = float("nan") if accelerator.process_index == bad else 1.0
    before = model.weight.detach().clone()
    done = session.update([factor * model.weight.sum()])
    kept = torch.equal(before, model.weight)
    stopped = message(lambda: session.update([factor * model.weight.sum()]))
    return {"applied": done.applied, "kept": kept, "skipped": session.skipped, "stopped": stopped}


def mixed_types(accelerator: Accelerator) -> list[str]:
    """The types of weights in bfloat16 and of a head in float32 after an update of both."""
    model, head = nn.Linear(3, 1, bias=False).to(torch.bfloat16), nn.Linear(3, 1)
    session = Session(model, accelerator, OptimizerConfig(learning_rate=0.01), 10, list(head.parameters()))
    before = [parameter.detach().clone() for parameter in session.parameters]
    session.update([model.weight.float().sum() + head.weight.sum() + head.bias.sum()])
    moved = [not torch.equal(old, new) for old, new in zip(before, session.parameters, strict=True)]
    return [f"{parameter.dtype} {there}" for parameter, there in zip(session.parameters, moved, strict=True)]


def grpo_update(accelerator: Accelerator, positions: Sequence[int], config: GRPOConfig = GRPO_CONFIG) -> dict[str, Any]:
    """A step on the groups at these positions: loss, gradient norm, weights, and the metrics of tokens."""
    policy = tiny_policy()
    session = Session(policy.model, accelerator, NO_CLIPPING, 10)
    run = grpo_run(config, policy, session=session)
    responses = [one for position in positions for one in GROUPS[position]]
    stats = token_stats(run)
    samples = with_old_logprobs(run, with_advantages(run, responses, positions), on_policy=config.on_policy)
    done = [update(run, samples, stats) for _ in range(config.epochs)][-1]
    assert done is not None
    weights = {name: p.flatten().tolist() for name, p in policy.model.named_parameters()}
    return {"loss": done.loss, "norm": done.grad_norm, "weights": weights, "means": stats.reduced(session)}


def ppo_updates(accelerator: Accelerator, positions: Sequence[int], config: PPOConfig) -> dict[str, Any]:
    """A step of PPO on the groups at these positions, in three minibatches; the second has group 1 alone."""
    policy = tiny_policy()
    critic = new_critic(policy, shared=config.critic.shared)
    nn.init.constant_(critic.head.weight, 0.1)
    head = list(critic.head.parameters()) if critic.shared else []
    session = Session(policy.model, accelerator, NO_CLIPPING, 10, head)
    own = None if critic.shared else Session(CriticModule(critic), accelerator, NO_CLIPPING, 10)
    ppo = ppo_run(config, policy, critic, session=session, critic_session=own)
    responses = [one for position in positions for one in GROUPS[position]]
    samples, explained = with_gae(ppo, samples_of(ppo.run, responses, positions))
    cuts = [frozenset({0, 2}), frozenset({1}), frozenset({0, 1, 2})]
    objective = objective_of(config, reference=False, corrects_sampler=False)
    stats, values = objective.stats, TokenStats(VALUE_MEANS)
    old = reference_of(policy.model) if objective.penalises else None
    updates = update_all(ppo.run, samples, cuts, partial(policy_loss, ppo, objective, old, stats, values), stats)
    said = updates.metrics(session) | {"explained_variance": explained}
    if own is not None:
        said |= update_critic(ppo, own, samples, cuts, values)
    if old is not None:
        said |= adapt_penalty(ppo, old, samples, moved=True)
    modules = (policy.model, CriticModule(critic))
    weights = {str(i) + name: p.flatten().tolist() for i, m in enumerate(modules) for name, p in m.named_parameters()}
    means = {name: value for s in (stats, values) for name, value in s.reduced(session).items() if name != "padding"}
    advantages = {f"{s.judged.problem.id}/{s.judged.rollout.sample}": s.row.advantages for s in samples}
    return {"said": said | means, "penalty": ppo.penalty.value, "weights": weights, "advantages": advantages}


def nothing_to_learn(accelerator: Accelerator) -> list[Any]:
    """An update where every group of every process agrees, and the next learning rate."""
    policy = tiny_policy()
    session = Session(policy.model, accelerator, OptimizerConfig(learning_rate=1.0, schedule="linear"), 2)
    run = grpo_run(GRPO_CONFIG, policy, session=session)
    position = accelerator.process_index
    return [update(run, with_advantages(run, GROUPS[position], [position]), token_stats(run)), session.learning_rate]


def unjudged_on_one(accelerator: Accelerator) -> str:
    """Process 1 could not judge one of its responses, process 0 judged all."""
    policy = tiny_policy()
    session = Session(policy.model, accelerator, NO_CLIPPING, 10)
    run: GRPO = grpo_run(GRPO_CONFIG, policy, session=session, max_unjudged=0.2)
    rank = accelerator.process_index
    responses = [judged(rank, 0, (3,), 1.0), judged(rank, 1, (4,), None if rank == 1 else 0.0)]
    samples = with_advantages(run, responses, [rank])
    return message(lambda: gather_checked(run, samples))


def message(action: Callable[[], Any]) -> str:
    try:
        action()
    except ReasonRLError as error:
        return str(error)
    return ""


def main(folder: Path) -> None:
    accelerator = Accelerator(cpu=True)
    rank = accelerator.process_index
    found = {
        "processes": accelerator.num_processes,
        "gathered": gather(accelerator, [f"{rank}a", f"{rank}b"][: 2 - rank]),
        "linear": {name: linear_updates(accelerator, cut[rank]) for name, cut in CUTS.items()},
        "not finite": not_finite_on_one(accelerator, bad=1),
        "mixed types": mixed_types(accelerator),
        "grpo": grpo_update(accelerator, [0, 2] if rank == 0 else [1]),
        "corrected": grpo_update(accelerator, [0, 2] if rank == 0 else [1], CORRECTED),
        "ppo": {name: ppo_updates(accelerator, [0, 2] if rank == 0 else [1], c) for name, c in PPO_CONFIGS.items()},
        "nothing": nothing_to_learn(accelerator),
        "unjudged": unjudged_on_one(accelerator),
    }
    (folder / f"{rank}.json").write_text(json.dumps(found))
    if rank == 1:
        sys.exit(2)  # as the command line does on an error that only this process has
    session = Session(nn.Linear(1, 1), accelerator, OptimizerConfig(), 1)
    try:
        session.sum(1.0)
    except RuntimeError as error:
        (folder / "noticed").write_text(str(error))
    sys.stdout.flush()
    os._exit(0)  # the process group is broken: nothing of it can be closed in order


if __name__ == "__main__":
    main(Path(sys.argv[1]))
