"""`reasonrl eval TASK --model PATH -n 16 -k 1,8`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from reasonrl.cli.data import parse_data
from reasonrl.cli.jsonfile import JsonCopy, console_beside, write_json
from reasonrl.errors import ReasonRLError

ENGINES = ("auto", "huggingface", "vllm")

if TYPE_CHECKING:
    from reasonrl.evaluation.report import Report


def evaluate(
    task: Annotated[str, typer.Argument(help="A task by name, or the path of its YAML.")],
    model: Annotated[str, typer.Option(help="A model folder or hub id.")],
    samples: Annotated[int, typer.Option("-n", min=1, help="Sampled responses per problem.")] = 4,
    k: Annotated[str, typer.Option("-k", help="For which k, comma-separated; each at most n.")] = "1",
    rows: Annotated[int | None, typer.Option(min=1, help="How many problems; all by default.")] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="[SPLIT=]FILE", help="A file in place of a split of the task, eval if none is named."),
    ] = None,
    temperature: Annotated[float | None, typer.Option(min=0, help="Of the sampled responses.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Most tokens of a response.")] = None,
    seed: Annotated[int, typer.Option(help="Of the samples.")] = 0,
    engine: Annotated[str, typer.Option(help="What samples: auto, huggingface or vllm.")] = "auto",
    max_batch: Annotated[int, typer.Option(min=1, help="Most responses decoded at once.")] = 256,
    runs: Annotated[Path, typer.Option(help="Where the folder with report and responses is made.")] = Path("runs"),
    json_file: JsonCopy = None,
) -> None:
    """Evaluate a model on a task: greedy and sampled pass@k. The same command gives the same numbers."""
    ks = parse_k(k)
    if bad := [one for one in ks if not 1 <= one <= samples]:
        raise ReasonRLError(f"-k {bad[0]}: pass@k needs 1 <= k <= n, and n is {samples}; raise -n")
    from reasonrl import tasks

    if engine not in ENGINES:
        raise ReasonRLError(f"--engine {engine}: there are {', '.join(ENGINES)}")
    files = parse_data(data or [], alone="eval")
    tasks.load(task, files)
    # After the task is known to be good: importing torch and transformers takes seconds.
    from reasonrl.config import EngineConfig
    from reasonrl.evaluation.command import ModelOnTask, evaluate_model

    settings = EngineConfig(name=engine, max_batch=max_batch)
    console = console_beside(json_file)
    with counting_bar(console) as count:
        report, folder = evaluate_model(
            ModelOnTask(task, model, rows, files, temperature, max_tokens, settings),
            samples=samples,
            k=ks,
            seed=seed,
            runs=runs,
            progress=count,
            tell=partial(console.print, highlight=False, markup=False, soft_wrap=True),
        )
    show(report, folder, f"{task}, held-out problems", console, json_file)


@contextmanager
def counting_bar(console: Console) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on a terminal; yields the function that is told how many of how many responses are done."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("loading", total=None)
        yield lambda done, total: progress.update(bar, description="responses", completed=done, total=total)


def show(report: "Report", folder: Path, title: str, console: Console, json_file: Path | None) -> None:
    """Print a report with its breakdowns and where it lies; write the JSON that was asked for."""
    from reasonrl.evaluation import report as reports
    from reasonrl.evaluation.breakdown import breakdown_tables

    for table in (reports.table({report.model: report}, title), *breakdown_tables(report.by)):
        console.print(table)
    console.print(f"rollouts  {folder / 'rollouts.parquet'}", highlight=False, soft_wrap=True)
    console.print(f"report    {folder / 'report.json'}", highlight=False, soft_wrap=True)
    write_json(reports.to_json(report), json_file, console)


def parse_k(text: str) -> tuple[int, ...]:
    """The numbers of `-k 1,8`, each once.

    Raises:
        ReasonRLError: something else stands there.
    """
    try:
        ks = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ReasonRLError(f"-k {text}: expected whole numbers separated by commas, as in -k 1,8") from None
    return tuple(dict.fromkeys(ks))
