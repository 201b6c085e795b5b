"""`reasonrl plot RUN … -o FILE`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def plot(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, or their metrics.jsonl; each gets a colour.")],
    out: Annotated[Path, typer.Option("--out", "-o", dir_okay=False, help="The image: .svg, .png or .pdf.")],
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", "-m", help="A metric of metrics.jsonl; may be given again. By default the usual ones."
        ),
    ] = None,
    window: Annotated[int, typer.Option(min=1, help="Steps that each point is the mean over.")] = 1,
) -> None:
    """Draw the curves of runs, also while they train: rewards beside what each verifier says, KL, lengths and so on."""
    from reasonrl import plot as plotting

    shown = plotting.draw([plotting.read(run) for run in runs], out, metrics=metrics or (), window=window)
    Console().print(f"plot      {out}: {', '.join(shown)}", highlight=False, markup=False, soft_wrap=True)
