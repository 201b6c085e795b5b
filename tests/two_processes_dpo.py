"""Run by test_dpo_two_processes.py as each of two gloo processes: references and two steps of DPO, to a JSON file."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from accelerate import Accelerator
from pairs_by_hand import PAIRS, config, preference_loss, scoring
from small_runs import tiny_policy

from reasonrl.trainers.dpo import train_dpo
from reasonrl.trainers.reference import with_cached_reference
from reasonrl.trainers.session import Session

# Five pairs on two processes: three and two. Then one alone: process 1 has nothing to compute.
CASES: dict[str, dict[str, Any]] = {
    "dpo": {"beta": 0.3},
    "ipo": {"loss": "ipo", "length_normalised": True},
    "one pair": {"batch_size": 1},
}


def steps(accelerator: Accelerator, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    policy, reference = tiny_policy(), tiny_policy(1)
    given, lines = config(**settings), list[dict[str, float]]()
    session = Session(policy.model, accelerator, given.optimizer, given.steps)
    state = reference.model.state_dict()
    pairs, cached = with_cached_reference(reference.model, state, PAIRS, scoring(policy), session, folder)
    tracker: Any = SimpleNamespace(
        log=lambda step, metrics: lines.append(dict(metrics)), console=SimpleNamespace(print=lambda *_, **__: None)
    )
    train_dpo(given, pairs, preference_loss(policy, given), session, tracker, seed=0)
    weights = {name: p.flatten().tolist() for name, p in policy.model.named_parameters()}
    refs = [[pair.ref_chosen, pair.ref_rejected] for pair in pairs]
    return {"lines": lines, "weights": weights, "references": refs, "cached": cached}


def main(folder: Path) -> None:
    accelerator = Accelerator(cpu=True)
    found: dict[str, Any] = {name: steps(accelerator, given, folder / "kept") for name, given in CASES.items()}
    found["processes"] = accelerator.num_processes
    (folder / f"{accelerator.process_index}.json").write_text(json.dumps(found))
    accelerator.end_training()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
