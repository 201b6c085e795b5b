"""`reasonrl explain CONFIG [key=value …]`."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from reasonrl.explain import Section


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
        _show(section, console)


def _show(section: "Section", console: Console) -> None:
    """A section, its title before its first line; one too long for that on a line of its own."""
    width = 12
    title, lines = section.title, section.lines
    if len(title) >= width:
        console.print(Text(title, "cyan"), soft_wrap=True)
        title = ""
    for line in lines:
        console.print(Text.assemble((f"{title:<{width}}", "cyan"), line), soft_wrap=True)
        title = ""
