"""Run by test_trpo_two_processes.py once as each of two gloo processes: their steps, to a JSON file each."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from plain_trpo import config, parameters_of, policy_of, run_of, samples_of
from small_runs import NO_CLIPPING, judged

from reasonrl.evaluation.evaluate import Judged
from reasonrl.trainers import trpo
from reasonrl.trainers.policy import gather_checked
from reasonrl.trainers.session import Session

# By position of the group; process 0 holds positions 0 and 2, process 1 has 1, which agrees: nothing to learn there.
GROUPS: list[list[Judged]] = [
    [judged(0, 0, (3, 4), 1.0), judged(0, 1, (5,), 0.0)],
    [judged(1, 0, (6,), 0.0), judged(1, 1, (7, 8, 9), 0.0)],
    [judged(2, 0, (3, 5), 1.0, logprobs=(-7.0, -1.0)), judged(2, 1, (10, 11, 12, 13), 0.0)],
]
POSITIONS = ([0, 2], [1])
COUNTS = {"problems_per_step": 3, "group_size": 2}
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "corrected": {"importance": {"mode": "truncated", "cap": 1.1}, "aggregation": "sequence_mean"},
    # By the curvature of group 0 alone, of which process 1 has nothing, a step is too long.
    "shortened": {"fisher_share": 0.4},
    "refused": {"fisher_share": 0.4, "backtracks": 0},
}


def step(accelerator: Accelerator, positions: Sequence[int], settings: dict[str, Any]) -> dict[str, Any]:
    """One step on the groups at these positions: its metrics, the parameters after it, what was measured of tokens."""
    policy = policy_of()
    session = Session(policy.model, accelerator, NO_CLIPPING, 0)
    run = run_of(policy, config(**COUNTS, **settings), session=session)
    before = parameters_of(policy.model)
    samples = samples_of(run, [one for position in positions for one in GROUPS[position]], positions)
    surrogate = trpo.surrogate_of(run)
    stats = surrogate.stats
    fisher = trpo.fisher_groups(run, gather_checked(run, samples), 1)
    found = trpo.improve(run, surrogate, samples, fisher, stats)
    moved = parameters_of(policy.model) - before
    return {"metrics": found, "moved": moved.tolist(), "means": stats.reduced(session)}


def main(folder: Path) -> None:
    accelerator = Accelerator(cpu=True)
    rank = accelerator.process_index
    found = {name: step(accelerator, POSITIONS[rank], settings) for name, settings in CASES.items()}
    (folder / f"{rank}.json").write_text(json.dumps(found | {"processes": accelerator.num_processes}))
    accelerator.end_training()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
