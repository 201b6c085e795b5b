"""`--json FILE`: what a command found also as JSON, in a file or, with -, on standard output beside no table."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from reasonrl import files
from reasonrl.errors import ReasonRLError

JsonReport = Annotated[
    Path | None, typer.Option("--json", dir_okay=False, allow_dash=True, help="The report as JSON; - to stdout.")
]
JsonCopy = Annotated[
    Path | None,
    typer.Option("--json", dir_okay=False, help="Also write the report to this file; - is standard output."),
]


def console_beside(json_file: Path | None) -> Console:
    """Where tables and progress go: to standard error if the JSON goes to standard output."""
    return Console(stderr=_is_standard_output(json_file))


def require_folder(json_file: Path | None) -> None:
    """Raise a ReasonRLError if the file's folder is not there: better now than after minutes of work."""
    if json_file is not None and not _is_standard_output(json_file) and not json_file.parent.is_dir():
        raise ReasonRLError(f"--json {json_file}: there is no folder {json_file.parent}; make it first")


def write_json(text: str, json_file: Path | None, console: Console, *, name: str = "report") -> None:
    """Write the JSON to where it was asked for, and say under this name where it lies.

    Raises:
        ReasonRLError: the file cannot be written.
    """
    if _is_standard_output(json_file):
        typer.echo(text, nl=False)
    elif json_file is not None:
        with files.writing(json_file):
            json_file.parent.mkdir(parents=True, exist_ok=True)
            json_file.write_text(text, encoding="utf-8")
        console.print(f"{name:<8}  {json_file}", highlight=False, soft_wrap=True)


def _is_standard_output(json_file: Path | None) -> bool:
    return json_file == Path("-")
