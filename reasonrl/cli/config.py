"""`reasonrl config show CONFIG [key=value …]` and `reasonrl config schema run|task`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.syntax import Syntax

config = typer.Typer(help="Run YAMLs: as resolved, and their schema for editors.", no_args_is_help=True)


class Kind(StrEnum):
    """Which YAML."""

    RUN = "run"
    TASK = "task"


@config.command()
def show(
    config: Annotated[str, typer.Argument(help="A run YAML, or the bare name of a bundled one.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Dotted overrides: seed=2 algorithm.steps=50")] = None,
) -> None:
    """Print the resolved run as YAML: every key, as `reasonrl train` would store it. Its task must be there."""
    from reasonrl import config as run_config
    from reasonrl import tasks

    resolved = run_config.load(config, overrides or [])
    if resolved.task is not None:
        tasks.load(resolved.task.name, resolved.task.data_files)
    text = run_config.to_yaml(resolved)
    console = Console()
    if console.is_terminal:
        console.print(Syntax(text.rstrip("\n"), "yaml", background_color="default", word_wrap=True))
    else:
        typer.echo(text, nl=False)


@config.command()
def schema(
    kind: Annotated[Kind, typer.Argument(help="Of a run YAML or of a task YAML.")],
    out: Annotated[Path | None, typer.Option(dir_okay=False, help="Write it to this file.")] = None,
) -> None:
    """Print the JSON schema by which an editor checks and completes a YAML."""
    from reasonrl import schema as schemas

    text = schemas.to_text(schemas.json_schema(kind.value))
    if out is None:
        typer.echo(text, nl=False)
    else:
        out.write_text(text, encoding="utf-8")
