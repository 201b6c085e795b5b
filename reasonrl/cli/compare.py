"""`reasonrl compare RUN_A RUN_B …`."""

from pathlib import Path
from typing import Annotated

import typer

from reasonrl.cli.jsonfile import console_beside, write_json


def compare(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of evaluations or of runs; or reports, such as RUN/eval/before.json.")
    ],
    greedy: Annotated[bool, typer.Option("--greedy", help="Compare greedy responses, not sampled ones.")] = False,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", dir_okay=False, help="Also write what was found to this file; - is standard output."),
    ] = None,
) -> None:
    """Compare stored evaluations on the problems they share.

    Two: the paired difference of pass@1 with its interval and p-value. More: abilities with intervals, by Bradley and
    Terry's model of who solves what the other does not.
    """
    from reasonrl.evaluation import compare as comparing

    found = comparing.compare(runs, greedy=greedy, seed=seed)
    console = console_beside(json_file)
    console.print(comparing.table(found))
    for line in comparing.lines(found):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    write_json(comparing.to_json(found), json_file, console, name="comparison")
