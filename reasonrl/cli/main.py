"""The `reasonrl` program: its commands, and how errors meant for a reader are shown."""

import os
import sys
from importlib.metadata import version
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from reasonrl.cli.build import build
from reasonrl.cli.check import check
from reasonrl.cli.compare import compare
from reasonrl.cli.config import config
from reasonrl.cli.evaluate import evaluate
from reasonrl.cli.explain import explain
from reasonrl.cli.plot import plot
from reasonrl.cli.steps import steps
from reasonrl.cli.tasks import tasks
from reasonrl.cli.train import train
from reasonrl.cli.verifiers import verifiers
from reasonrl.cli.verify import verify
from reasonrl.errors import Interrupted, ReasonRLError

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(train)
app.command()(explain)
app.command()(check)
app.command("eval")(evaluate)
app.command()(verify)
app.command()(compare)
app.command()(plot)
build.command()(steps)
app.add_typer(build, name="build")
app.add_typer(config, name="config")
app.add_typer(tasks, name="tasks")
app.add_typer(verifiers, name="verifiers")


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"reasonrl {version('reasonrl')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Reinforcement learning for reasoning, with rewards one can trust."""


def main() -> None:
    """Run the command line; a `ReasonRLError` is printed as its message, with exit code 2 (or that of its signal)."""
    # Read by OpenMP as torch is imported, which the commands do later. Beside other work, threads that spin while they
    # wait for each other made sampling with a small model up to 16 times slower (docs/decisions.md).
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        app()
    except Interrupted as ended:
        Console(stderr=True).print(Text(str(ended)), soft_wrap=True)
        sys.exit(ended.exit_code)
    except ReasonRLError as error:
        Console(stderr=True).print(Text.assemble(("error: ", "red"), str(error)), soft_wrap=True)
        sys.exit(2)
