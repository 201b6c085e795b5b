"""`reasonrl verifiers list`, `info NAME`, `doctor` and, from disagreements.py, `compare`."""

import inspect
import re
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from reasonrl import plugins
from reasonrl.cli.disagreements import compare
from reasonrl.verifier import Diagnosis

verifiers = typer.Typer(help="The verifiers that are installed.", no_args_is_help=True)
verifiers.command()(compare)


@verifiers.command("list")
def list_verifiers() -> None:
    """All verifiers with version, plugin and what they supervise; plugins that are broken, with their error."""
    installed, console = plugins.installed(), Console()
    table = Table("name", "version", "plugin", "supervises", "runs")
    table.columns[0].no_wrap = True
    for name, source in sorted(installed.verifiers.items()):
        verifier = source.verifier
        plugin = f"{source.plugin} ({source.distribution})"
        table.add_row(name, source.version, plugin, ", ".join(verifier.supervises), verifier.isolation)
    console.print(table)
    for broken in installed.broken:
        console.print(f"[red]broken:[/red] plugin {broken.plugin} ({broken.distribution})")
        console.print(broken.error, markup=False, highlight=False)


@verifiers.command()
def info(name: Annotated[str, typer.Argument(help="As `verifiers list` names it.")]) -> None:
    """One verifier: what it does, what it reads of a problem, and its options with types and defaults."""
    source, console = plugins.installed().verifier(name), Console()
    verifier = source.verifier
    console.print(f"[bold]{name}[/bold] {source.version}, from plugin {source.plugin} ({source.distribution})")
    console.print(_reflowed(inspect.getdoc(verifier) or ""), markup=False, highlight=False)
    console.print(f"supervises  {', '.join(verifier.supervises)}", highlight=False)
    console.print(f"reads       {', '.join(verifier.requires) or 'the response alone'}", highlight=False)
    console.print(f"runs        {verifier.isolation}", highlight=False)
    table = Table("option", "type", "default", "meaning")
    for option, field in verifier.Options.model_fields.items():
        default = "(required)" if field.is_required() else repr(field.get_default(call_default_factory=True))
        cells = (option, _type_name(field.annotation), default, field.description or "")
        table.add_row(*map(escape, cells))
    console.print(table if verifier.Options.model_fields else "no options")


@verifiers.command()
def doctor() -> None:
    """What verifiers need of this machine, tried: for code, each tier of its sandbox and what it holds against.

    The exit code is 1 if a verifier cannot be used here.
    """
    console, usable = Console(), True
    for name, source in sorted(plugins.installed().verifiers.items()):
        findings = source.verifier.diagnose()
        if not findings:
            continue
        table = Table("part", "promise", "", "seen", title=f"{name} {source.version}", title_justify="left")
        for at, finding in enumerate(findings):
            part = finding.part if at == 0 or findings[at - 1].part != finding.part else ""
            if at > 0 and findings[at - 1].part != finding.part:
                table.add_section()  # the conclusion has no part, and is none of the last one's promises
            table.add_row(part, finding.promise, _mark(finding), escape(finding.seen))
        console.print(table)
        usable &= all(finding.holds for finding in findings if not finding.part and finding.needed)
    if not usable:
        raise typer.Exit(1)


def _mark(finding: Diagnosis) -> str:
    if finding.holds:
        return "[green]holds[/green]"
    return "[red]does not hold[/red]" if finding.needed else "[yellow]not promised[/yellow]"


def _reflowed(text: str) -> str:
    """A docstring with each paragraph on one line, for the terminal to wrap; indented lines stay as they are."""
    return re.sub(r"(?<=\S)\n(?=\S)", " ", text)


def _type_name(annotation: object) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")
