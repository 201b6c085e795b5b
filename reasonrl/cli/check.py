"""`reasonrl check CONFIG [key=value …] [--json FILE]`."""

from typing import Annotated

import typer

from reasonrl.cli.jsonfile import JsonReport, console_beside, require_folder, write_json
from reasonrl.cli.tasks import show_progress


def check(
    config: Annotated[str, typer.Argument(help="A run YAML, or the bare name of a bundled one.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Dotted overrides: seed=2 algorithm.steps=50")] = None,
    rows: Annotated[int, typer.Option(min=1, help="So many of each split are judged and rendered.")] = 64,
    json_file: JsonReport = None,
) -> None:
    """Look at a run before it costs anything: task, lengths, machine, memory. Exit code 1 if unfit, 2 if no run."""
    from reasonrl import config as run_config
    from reasonrl import tasks

    require_folder(json_file)
    resolved = run_config.load(config, overrides or [])
    if resolved.task is not None:
        tasks.load(resolved.task.name, resolved.task.data_files)
    # After config and task are known to be good: importing torch and transformers takes seconds.
    from reasonrl.preflight import preflight
    from reasonrl.preflight import report as reports

    console = console_beside(json_file)
    with show_progress(console) as progress:
        report = preflight(resolved, name=config, rows=rows, progress=progress)
    reports.show(report, console)
    write_json(reports.to_json(report), json_file, console)
    if not report.passed:
        raise typer.Exit(1)
