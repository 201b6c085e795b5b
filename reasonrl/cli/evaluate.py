"""`reasonrl eval TASK --model PATH -n 16 -k 1,8`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from reasonrl.errors import ReasonRLError


def evaluate(
    task: Annotated[str, typer.Argument(help="A task by name, or the path of its YAML.")],
    model: Annotated[str, typer.Option(help="A model folder or hub id.")],
    samples: Annotated[int, typer.Option("-n", min=1, help="Sampled responses per problem.")] = 4,
    k: Annotated[str, typer.Option("-k", help="For which k, comma-separated; each at most n.")] = "1",
    rows: Annotated[int | None, typer.Option(min=1, help="How many problems; all by default.")] = None,
    data: Annotated[Path | None, typer.Option(help="A file in place of the task's evaluation split.")] = None,
    temperature: Annotated[float | None, typer.Option(min=0, help="Of the sampled responses.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Most tokens of a response.")] = None,
    seed: Annotated[int, typer.Option(help="Of the samples.")] = 0,
    max_batch: Annotated[int, typer.Option(min=1, help="Most responses decoded at once.")] = 256,
    runs: Annotated[Path, typer.Option(help="Where the folder with report and responses is made.")] = Path("runs"),
    json_file: Annotated[
        Path | None, typer.Option("--json", dir_okay=False, help="Also write the report to this file.")
    ] = None,
) -> None:
    """Evaluate a model on a task: greedy and sampled pass@k. The same command gives the same numbers."""
    ks = _parse_k(k, samples)
    from reasonrl import tasks

    tasks.load(task, {"eval": str(data)} if data else None)
    # After the task is known to be good: importing torch and transformers takes seconds.
    from reasonrl.evaluation import report as reports
    from reasonrl.evaluation.command import evaluate_model

    console = Console()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("loading", total=None)
        report, folder = evaluate_model(
            task,
            model,
            samples=samples,
            k=ks,
            rows=rows,
            data=data,
            temperature=temperature,
            max_tokens=max_tokens,
            seed=seed,
            max_batch=max_batch,
            runs=runs,
            progress=lambda done, total: progress.update(bar, description="responses", completed=done, total=total),
        )
    console.print(reports.table({model: report}, f"{task}, held-out problems"))
    console.print(f"rollouts  {folder / 'rollouts.parquet'}", highlight=False, soft_wrap=True)
    console.print(f"report    {folder / 'report.json'}", highlight=False, soft_wrap=True)
    if json_file is not None:
        reports.save(report, json_file)
        console.print(f"report    {json_file}", highlight=False, soft_wrap=True)


def _parse_k(text: str, samples: int) -> tuple[int, ...]:
    try:
        ks = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ReasonRLError(f"-k {text}: expected whole numbers separated by commas, as in -k 1,8") from None
    if bad := [one for one in ks if not 1 <= one <= samples]:
        raise ReasonRLError(f"-k {bad[0]}: pass@k needs 1 <= k <= n, and n is {samples}; raise -n")
    return tuple(dict.fromkeys(ks))
