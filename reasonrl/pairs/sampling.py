"""Responses sampled for pairs, where there are none yet."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path

from reasonrl import store
from reasonrl.evaluation.command import ModelOnTask, ready
from reasonrl.evaluation.evaluate import records, sample_and_verify
from reasonrl.pairs.candidates import SAMPLED


def sample_rollouts(
    asked: ModelOnTask,
    *,
    samples: int,
    seed: int = 0,
    runs: Path = Path("runs"),
    progress: Callable[[int, int], None] = lambda done, total: None,
    tell: Callable[[str], None] = lambda line: None,
) -> Path:
    """Sample and verify responses to training problems; the new folder that holds them (`rollouts.parquet`).

    Args:
        asked: which model on which task; its training split is used.
        samples: responses to each problem.
        seed: of the samples.
        runs: where the new folder is made.
        progress: called with how many of how many responses have arrived.
        tell: called with a line for each task that leaves rows out.

    Raises:
        ReasonRLError: a fault in task, data, model or options.
    """
    with ready(asked, split="train", tell=tell) as given:
        folder = store.new_folder(runs, f"sampled-{given.task.name}")
        arrived, expected = itertools.count(1), len(given.prompted) * samples
        judged = sample_and_verify(
            given.prompted,
            given.engine,
            given.scorer,
            given.sampling,
            samples=samples,
            seed=seed,
            step=0,
            on_response=lambda: progress(next(arrived), expected),
        )
    about = {"task": given.task.name, "model": asked.model, "samples": samples, "seed": seed}
    (folder / SAMPLED).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    store.write(folder / "rollouts.parquet", records(judged, step=0, temperature=given.sampling.temperature))
    return folder
