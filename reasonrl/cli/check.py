"""`reasonrl check CONFIG [key=value …] [--json FILE]`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from reasonrl.cli.tasks import show_progress
from reasonrl.errors import ReasonRLError


def check(
    config: Annotated[str, typer.Argument(help="A run YAML, or the bare name of a bundled one.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Dotted overrides: seed=2 algorithm.steps=50")] = None,
    rows: Annotated[int, typer.Option(min=1, help="So many of each split are judged and rendered.")] = 64,
    json_file: Annotated[
        Path | None, typer.Option("--json", dir_okay=False, allow_dash=True, help="The report as JSON; - to stdout.")
    ] = None,
) -> None:
    """Look at a run before it costs anything: task, lengths, machine, memory. Exit code 1 if unfit, 2 if no run."""
    from reasonrl import config as run_config
    from reasonrl import tasks

    piped = json_file == Path("-")
    if json_file is not None and not piped and not json_file.parent.is_dir():
        raise ReasonRLError(f"--json {json_file}: there is no folder {json_file.parent}; make it first")
    resolved = run_config.load(config, overrides or [])
    if resolved.task is not None:
        tasks.load(resolved.task.name, resolved.task.data_files)
    # After config and task are known to be good: importing torch and transformers takes seconds.
    from reasonrl.preflight import preflight
    from reasonrl.preflight import report as reports

    console = Console(stderr=piped)
    with show_progress(console) as progress:
        report = preflight(resolved, name=config, rows=rows, progress=progress)
    reports.show(report, console)
    if piped:
        typer.echo(reports.to_json(report), nl=False)
    elif json_file is not None:
        json_file.write_text(reports.to_json(report), encoding="utf-8")
        console.print(f"report    {json_file}", highlight=False, soft_wrap=True)
    if not report.passed:
        raise typer.Exit(1)
