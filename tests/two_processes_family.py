"""Run by test_two_processes_family.py as each of two gloo processes: whitening and refills, to a JSON file each."""

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from accelerate import Accelerator
from small_runs import GRPO, grpo_objective, grpo_run, judged, tiny_policy, token_stats, with_advantages

from reasonrl import Problem
from reasonrl.config import CriticFreeConfig, DAPOConfig, OptimizerConfig, ReinforcePPBaselineConfig, ReinforcePPConfig
from reasonrl.evaluation.evaluate import Judged, Prompted
from reasonrl.models.load import reference_of
from reasonrl.trainers import experience
from reasonrl.trainers.grpo import loss, train_grpo
from reasonrl.trainers.policy import with_old_logprobs
from reasonrl.trainers.problems import Listed, ProblemStream
from reasonrl.trainers.session import Session
from reasonrl.trainers.updates import update_once

# Adam divides each gradient by its own size, rounding errors too: a large epsilon keeps them small.
OPTIMIZER = OptimizerConfig(learning_rate=1e-2, epsilon=0.01, max_grad_norm=1e9)
SIZES: dict[str, Any] = {"steps": 2, "problems_per_step": 5, "optimizer": OPTIMIZER}
BETA = {"coefficient": 0.1}
WHITENED: dict[str, CriticFreeConfig] = {
    "reinforce_pp": ReinforcePPConfig.model_validate(SIZES | {"kl": BETA, "epochs": 2}),
    "reinforce_pp_baseline": ReinforcePPBaselineConfig.model_validate(SIZES | {"kl": BETA, "group_size": 2}),
}
REFILLED: dict[str, CriticFreeConfig] = {
    "dapo": DAPOConfig.model_validate(SIZES | {"group_size": 2, "refills": 2}),
    "reinforce_pp": ReinforcePPConfig.model_validate(SIZES | {"group_size": 2, "refills": 1, "kl": BETA}),
    "all left out on one": ReinforcePPConfig.model_validate(SIZES | {"group_size": 2, "refills": 1, "kl": BETA}),
}


def group(number: int, rewards: Sequence[float | None]) -> list[Judged]:
    """The responses to a problem, of a length and of tokens of its own; off the policy."""
    return [
        judged(number, j, [3 + (number + 5 * j + k) % 14 for k in range(1 + (number + j) % 4)], reward,
               logprobs=[-2.0 - 0.1 * k - 0.5 * j for k in range(1 + (number + j) % 4)])
        for j, reward in enumerate(rewards)
    ]  # fmt: skip


def run_of(accelerator: Accelerator, config: CriticFreeConfig, **parts: Any) -> GRPO:
    policy = tiny_policy()
    session = Session(policy.model, accelerator, config.optimizer, 100)
    reference = reference_of(tiny_policy(1).model) if config.kl.coefficient else None
    return grpo_run(config, policy, reference=reference, session=session, **parts)


def weights(run: GRPO) -> dict[str, list[float]]:
    return {name: p.flatten().tolist() for name, p in run.policy.model.named_parameters()}


def whitened(accelerator: Accelerator, config: CriticFreeConfig) -> dict[str, Any]:
    """Five groups, the second of them unjudged: advantages by position, and an update."""
    rewards: list[tuple[float | None, ...]] = [(1.0, 0.0), (None, None), (0.25, 1.0), (0.5, 0.5), (-1.0, 0.0)]
    positions = range(accelerator.process_index, 5, accelerator.num_processes)
    run = run_of(accelerator, config)
    responses = [one for at in positions for one in group(at, rewards[at][: config.group_size])]
    samples = with_old_logprobs(run, with_advantages(run, responses, positions), on_policy=config.on_policy)
    stats = token_stats(run)
    done = update_once(run, run.session, samples, partial(loss, run, grpo_objective(run), stats))
    assert done is not None
    return {
        "advantages": {f"{s.row.group}/{s.judged.rollout.sample}": s.row.advantages for s in samples},
        "loss": done.loss, "norm": done.grad_norm, "weights": weights(run), "means": stats.reduced(run.session),
    }  # fmt: skip


def stream(rounds: int, rank: int = 0, world: int = 1) -> ProblemStream:
    listed = Listed([Prompted(Problem(f"p{i}", "", None), (i,)) for i in range(40)], "0")
    return ProblemStream([(listed, 1.0)], 5, rank, world, rounds)


def refilled(accelerator: Accelerator, name: str, folder: Path) -> dict[str, Any]:
    """Two whole steps: which problems each round asked this process for, the metrics, the weights.

    Of problems whose number divides by three, the responses differ. Last of all, so they do of those in even places of
    their rounds, which are process 0's: process 1 has nothing to train on.
    """
    config = REFILLED[name]
    rounds, rank, world = 1 + config.refills, accelerator.process_index, accelerator.num_processes
    teaching = {i for i in range(40) if i % 3 == 0}
    if name == "all left out on one":
        drawn = [one for step in (1, 2) for one in stream(rounds).of_step(step)]
        teaching = {
            int(one.problem.id[1:]) for ones, at in drawn for one, k in zip(ones, at, strict=True) if k % 5 % 2 == 0
        }
    asked: list[list[int]] = []
    lines: list[dict[str, float]] = []

    def sample_and_verify(prompted: Sequence[Prompted], *_: Any, **__: Any) -> list[Judged]:
        asked.append([int(one.problem.id[1:]) for one in prompted])
        return [one for n in asked[-1] for one in group(n, (1.0, 0.0) if n in teaching else (0.3, 0.3))]

    run = run_of(
        accelerator, config, problems=stream(rounds, rank, world), rollouts=folder,
        engine=SimpleNamespace(rest=lambda: None), sync=lambda step: None,
        tracker=SimpleNamespace(log=lambda step, metrics: lines.append(dict(metrics))),
    )  # fmt: skip
    with patch.object(experience, "sample_and_verify", sample_and_verify):
        train_grpo(run)
    return {"asked": asked, "lines": lines, "weights": weights(run)}


def main(folder: Path) -> None:
    accelerator = Accelerator(cpu=True)
    found = {
        "processes": accelerator.num_processes,
        "whitened": {name: whitened(accelerator, config) for name, config in WHITENED.items()},
        "refilled": {name: refilled(accelerator, name, folder / name) for name in REFILLED},
    }
    (folder / f"{accelerator.process_index}.json").write_text(json.dumps(found))
    accelerator.end_training()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
