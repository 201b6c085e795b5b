"""`reasonrl tasks list`, `reasonrl tasks show NAME` and `reasonrl tasks check NAME`."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Self

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from reasonrl.cli import taskview
from reasonrl.cli.data import parse_data, split_meant
from reasonrl.cli.jsonfile import JsonReport, console_beside, require_folder, write_json
from reasonrl.errors import ReasonRLError
from reasonrl.generators import Split

if TYPE_CHECKING:
    from reasonrl.checking.split import Model
    from reasonrl.tasks import Mixture, Task

_PLAIN_EVERY = 5.0  # seconds between lines where there is no terminal

tasks = typer.Typer(help="The tasks there are: what they ask, and whether they are fit for use.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A task by name, or the path of its YAML.")]
Data = Annotated[
    list[str] | None,
    typer.Option(metavar="[SPLIT=]FILE", help="A file in place of the task's own data: train=FILE or eval=FILE."),
]


@tasks.command("list")
def list_tasks() -> None:
    """All tasks, bundled and of plugins: what they are, who judges, where their rows come from; broken ones too."""
    taskview.show_all(Console())


@tasks.command()
def show(
    name: Name,
    split: Annotated[Split | None, typer.Option(help="Rows of this split; of the first there is by default.")] = None,
    rows: Annotated[int, typer.Option(min=0, help="How many rows.")] = 3,
    model: Annotated[str | None, typer.Option(help="A model folder or hub id, for its chat template.")] = None,
    data: Data = None,
) -> None:
    """One task: what it asks, the prompt of its first rows as the model sees it, and the reward as resolved."""
    task = _read(name, data)
    tokenizer = None
    if model is not None:
        from reasonrl.models.load import load_tokenizer  # imports torch: seconds

        tokenizer = load_tokenizer(model)
    taskview.show_task(task, Console(), split=split, rows=rows, tokenizer=tokenizer)


@tasks.command()
def check(
    name: Name,
    split: Annotated[Split | None, typer.Option(help="Only this split; all by default.")] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="The first so many of each split; all by default.")] = None,
    model: Annotated[str | None, typer.Option(help="A model folder or hub id, to count tokens with.")] = None,
    data: Data = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that verify.")] = 2,
    deadline: Annotated[float, typer.Option(min=0.01, help="Seconds for one response and one verifier.")] = 10.0,
    json_file: JsonReport = None,
) -> None:
    """Check a task before use: rows, references, verifiers, prompt lengths, duplicates. Exit code 1 if unfit."""
    require_folder(json_file)
    task = _read(name, data)
    from reasonrl import checking
    from reasonrl.checking import report as reports

    console = console_beside(json_file)
    with show_progress(console) as progress:
        report = checking.check(
            task,
            split=split,
            model=None if model is None else _model(model),
            rows=rows,
            workers=workers,
            deadline=deadline,
            progress=progress,
        )
    reports.show(report, console)
    write_json(reports.to_json(report), json_file, console)
    if not report.passed:
        raise typer.Exit(1)


@contextmanager
def show_progress(console: Console) -> Iterator[Callable[[str, int, int | None], None]]:
    """Shows what is being done: a bar or, where there is no terminal, a line at once and then every few seconds."""
    if not console.is_terminal:
        with _Lines(console) as lines:
            yield lines
        return
    counted = TextColumn("{task.completed} rows")
    columns = (TextColumn("{task.description}"), BarColumn(), counted, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("loading", total=None)
        yield lambda what, done, total: progress.update(bar, description=what, completed=done, total=total)


class _Lines:
    """The progress of a check as plain lines, as a log takes them; also while one long step tells of nothing."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._now = ""
        self._start = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def __call__(self, what: str, done: int, total: int | None) -> None:
        rows = f" {done}{'' if total is None else f' of {total}'} rows" if done else ""
        self._now = f"{what}{rows}"
        if not done:
            self._print(self._now)

    def _repeat(self) -> None:
        while not self._ended.wait(_PLAIN_EVERY):
            if self._now:
                self._print(f"{self._now}, {time.monotonic() - self._start:.0f} s")

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, soft_wrap=True, markup=False)


def _read(name: str, data: list[str] | None) -> "Task | Mixture":
    from reasonrl import tasks

    task = tasks.read(name)
    return tasks.read(name, parse_data(data, split_meant(task))) if data else task


def _model(path: str) -> "Model":
    from reasonrl.checking.split import Model
    from reasonrl.models.load import load_max_positions, load_tokenizer  # imports torch: seconds

    tokenizer = load_tokenizer(path)
    try:
        return Model(path, tokenizer, load_max_positions(path))
    except ReasonRLError:  # a tokenizer by itself, without the config of a model
        return Model(path, tokenizer, None)
