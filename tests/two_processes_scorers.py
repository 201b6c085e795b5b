"""Run by test_scorers.py as each of two gloo processes: steps and reports of both scorers, to a JSON file each."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from accelerate import Accelerator
from scorers_by_hand import EXAMPLES, config, loss, scorer

from reasonrl.trainers.scorers import train_scorer

# Five examples on two processes: three and two. Then one alone: process 1 has nothing to compute.
CASES: dict[str, tuple[str, int]] = {f"{name} {size}": (name, size) for name in EXAMPLES for size in (5, 1)}


def steps(accelerator: Accelerator, name: str, batch_size: int) -> dict[str, Any]:
    made, lines = scorer(name), list[dict[str, float]]()
    used = loss(name, made, accelerator)
    tracker: Any = SimpleNamespace(log=lambda step, metrics: lines.append(dict(metrics)))
    before = used.measure(EXAMPLES[name])
    train_scorer(config(name, batch_size=batch_size), EXAMPLES[name], used, tracker, seed=0)
    weights = {name: p.flatten().tolist() for name, p in made.model.named_parameters()}
    return {"lines": lines, "weights": weights, "reports": [before, used.measure(EXAMPLES[name])]}


def main(folder: Path) -> None:
    accelerator = Accelerator(cpu=True)
    found: dict[str, Any] = {name: steps(accelerator, *given) for name, given in CASES.items()}
    found["processes"] = accelerator.num_processes
    (folder / f"{accelerator.process_index}.json").write_text(json.dumps(found))
    accelerator.end_training()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
