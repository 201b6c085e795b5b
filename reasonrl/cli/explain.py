"""`reasonrl explain CONFIG [key=value …]`."""

from importlib.util import find_spec
from typing import Annotated

import typer
from rich.console import Console

from reasonrl.titled import show_titled


def explain(
    config: Annotated[str, typer.Argument(help="A run YAML, or the bare name of a bundled one.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Dotted overrides: seed=2 algorithm.steps=50")] = None,
) -> None:
    """Print what a run optimises, as formulas with its numbers, and what is not as in its algorithm's paper."""
    from reasonrl import config as run_config
    from reasonrl import tasks
    from reasonrl.explain import explain as sections_of

    resolved = run_config.load(config, overrides or [])
    task = None if resolved.task is None else tasks.load(resolved.task.name, resolved.task.data_files)
    # without vLLM, `engine: auto` has no choice
    sampler_is_policy = None if find_spec("vllm") else True
    console = Console()
    for section in sections_of(resolved, task, sampler_is_policy=sampler_is_policy):
        show_titled(section.title, section.lines, console)
