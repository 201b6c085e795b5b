"""Responses sampled for pairs, where there are none yet."""

import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from reasonrl import store
from reasonrl.config import EngineConfig
from reasonrl.evaluation.command import ready
from reasonrl.evaluation.evaluate import records, sample_and_verify
from reasonrl.generators import Split
from reasonrl.pairs.candidates import SAMPLED


def sample_rollouts(
    task_name: str,
    model: str,
    *,
    samples: int,
    rows: int | None = None,
    data: Mapping[Split, str] | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    seed: int = 0,
    engine: EngineConfig | None = None,
    runs: Path = Path("runs"),
    progress: Callable[[int, int], None] = lambda done, total: None,
    tell: Callable[[str], None] = lambda line: None,
) -> Path:
    """Sample and verify responses to training problems; the new folder that holds them (`rollouts.parquet`).

    Args:
        task_name, model, data, temperature, max_tokens, engine, tell: as of `evaluation.command.ready`.
        samples: responses to each problem.
        rows: how many problems, the first ones; all if None.
        seed: of the samples.
        runs: where the new folder is made.
        progress: called with how many of how many responses have arrived.

    Raises:
        ReasonRLError: a fault in task, data, model or options.
    """
    with ready(
        task_name,
        model,
        split="train",
        rows=rows,
        data=data,
        temperature=temperature,
        max_tokens=max_tokens,
        engine=engine,
        tell=tell,
    ) as given:
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
    about = {"task": given.task.name, "model": model, "samples": samples, "seed": seed}
    (folder / SAMPLED).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    store.write(folder / "rollouts.parquet", records(judged, step=0, temperature=given.sampling.temperature))
    return folder
