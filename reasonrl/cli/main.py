"""The `reasonrl` program: its commands, and how errors meant for a reader are shown."""

import sys

import typer
from rich.console import Console

from reasonrl.cli.evaluate import evaluate
from reasonrl.cli.train import train
from reasonrl.cli.verifiers import verifiers
from reasonrl.errors import ReasonRLError

app = typer.Typer(
    help="Reinforcement learning for reasoning, with rewards one can trust.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command()(train)
app.command("eval")(evaluate)
app.add_typer(verifiers, name="verifiers")


def main() -> None:
    """Run the command line; a `ReasonRLError` is printed as its message, with exit code 2."""
    try:
        app()
    except ReasonRLError as error:
        Console(stderr=True).print(f"[red]error:[/red] {_escaped(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(2)


def _escaped(text: str) -> str:
    return text.replace("[", "\\[")
