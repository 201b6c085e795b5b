"""`reasonrl train CONFIG [key=value …]`."""

from typing import Annotated

import typer
from rich.console import Console


def train(
    config: Annotated[str, typer.Argument(help="A run YAML, or the bare name of a bundled one.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Dotted overrides: seed=2 algorithm.steps=50")] = None,
) -> None:
    """Train a model as a run YAML says, with an evaluation before and after."""
    from reasonrl import config as run_config
    from reasonrl import tasks

    resolved = run_config.load(config, overrides or [])
    if resolved.task is not None:
        tasks.load(resolved.task.name, resolved.task.data_files)
    # After config and task are known to be good: importing torch and transformers takes seconds.
    import torch

    from reasonrl.trainers import run

    if resolved.threads is not None:
        torch.set_num_threads(resolved.threads)
    run.train(resolved, Console())
