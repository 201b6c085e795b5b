"""`reasonrl verifiers compare TASK FILE FIRST SECOND`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from reasonrl.cli.data import parse_data
from reasonrl.cli.evaluate import counting_bar
from reasonrl.cli.jsonfile import console_beside, write_json
from reasonrl.cli.verify import Data, Deadline, Rows, SplitName, Workers

if TYPE_CHECKING:
    from reasonrl.evaluation.disagreements import Comparison, Difference

_WIDEST = 500  # characters of a verdict's evidence


def compare(
    task: Annotated[str, typer.Argument(help="A task by name, or the path of its YAML.")],
    file: Annotated[Path, typer.Argument(help="The responses, as of `reasonrl verify`; or a run's rollouts.")],
    first: Annotated[str, typer.Argument(help="A verifier: NAME, or NAME:key=value,key=value with options.")],
    second: Annotated[str, typer.Argument(help="Another, or the same with other options.")],
    split: SplitName = "eval",
    data: Data = None,
    workers: Workers = 2,
    deadline: Deadline = 10.0,
    rows: Rows = None,
    limit: Annotated[int, typer.Option(min=0, help="Show at most so many differences; the JSON has all.")] = 20,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", dir_okay=False, help="Also write the comparison to this file; - is standard output."),
    ] = None,
) -> None:
    """Let two verifiers judge the same responses, and list where they differ.

    A verifier has the options that the task gives it, its defaults where the task does not name it, and over them those
    given with its name: `math:answer=boxed`.
    """
    from reasonrl.evaluation.disagreements import compare_verifiers, to_json

    console = console_beside(json_file)
    with counting_bar(console) as count:
        found = compare_verifiers(
            task,
            file,
            first,
            second,
            split=split,
            rows=rows,
            data=parse_data(data or [], alone=split),
            workers=workers,
            deadline=deadline,
            progress=count,
        )
    console.print(_table(found))
    for difference in found.differences[:limit]:
        _show(difference, found.verifiers, console)
    if (more := len(found.differences) - limit) > 0:
        console.print(f"and {more} more differences; --limit shows more of them, --json has all")
    write_json(to_json(found), json_file, console, name="comparison")


def _table(found: "Comparison") -> Table:
    shown = Table(title=f"{escape(found.task)}, {found.responses} responses", title_justify="left")
    for name, version in zip(found.verifiers, found.versions, strict=True):
        shown.add_column(f"{escape(name)} {version}", overflow="fold")
    shown.add_column("responses", justify="right")
    for pair, number in found.counts.items():
        if number or "unjudged" not in pair:
            shown.add_row(*pair, str(number))
    shown.add_section()
    shown.add_row(*(escape(", ".join(f"{why} {n}" for why, n in one.items())) for one in found.reasons), "reasons")
    return shown


def _show(difference: "Difference", verifiers: tuple[str, str], console: Console) -> None:
    where = "" if difference.row is None else f", row {difference.row}"
    lines = [
        Text.assemble((f"{difference.problem_id}{where}, sample {difference.sample}", "bold")),
        Text(f"  reference  {difference.reference}"),
    ]
    for name, opinion in zip(verifiers, difference.opinions, strict=True):
        evidence = ", ".join(f"{key} {value!r}" for key, value in opinion.evidence.items())
        reason = "" if opinion.reason == opinion.judgement else f" ({opinion.reason})"
        lines.append(Text(f"  {name}  {opinion.judgement}{reason}: {evidence[:_WIDEST]}"))
    lines.append(Text(f"  response   …{difference.tail!r}"))
    for line in lines:
        console.print(line, soft_wrap=True)
