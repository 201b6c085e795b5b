"""`reasonrl train CONFIG [key=value …] [--resume]`."""

import signal
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from reasonrl.errors import Interrupted


def train(
    config: Annotated[str, typer.Argument(help="A run YAML, the bare name of a bundled one, or the folder of a run.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Dotted overrides: seed=2 algorithm.steps=50")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the last run of this config, from its last checkpoint.")
    ] = False,
) -> None:
    """Train a model as a run YAML says, with an evaluation before and after."""
    from reasonrl import config as run_config
    from reasonrl import store, tasks

    folder = run_folder(Path(config))
    resolved = run_config.load(config if folder is None else str(folder / "config.yaml"), overrides or [])
    if not resume:
        folder = None
    elif folder is None:
        folder = store.latest_folder(Path(resolved.runs), resolved.name)
    console = Console()
    if resume and folder is None:
        text = f"resume    no run {resolved.name} in {resolved.runs} yet: it begins"
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    if resolved.task is not None:
        tasks.load(resolved.task.name, resolved.task.data_files)
    # After config and task are known to be good: importing torch and transformers takes seconds.
    import torch

    from reasonrl.trainers import run

    if resolved.threads is not None:
        torch.set_num_threads(resolved.threads)
    try:
        run.train(resolved, console, folder)
    except KeyboardInterrupt:
        raise Interrupted("stopped at once; --resume goes on from the last checkpoint", signal.SIGINT) from None


def run_folder(path: Path) -> Path | None:
    """The folder of a run, given it or its `config.yaml`; None if the path is none of both."""
    folder = path.parent if path.name == "config.yaml" else path
    return folder if (folder / "config.yaml").is_file() and (folder / "metrics.jsonl").is_file() else None
