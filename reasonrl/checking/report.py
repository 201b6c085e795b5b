"""The report of a check as JSON, as tables and in words."""

import json
from collections.abc import Iterator
from dataclasses import asdict

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from reasonrl.checking.records import CheckReport, Finding, SplitReport, Spread, Tried


def to_json(report: CheckReport) -> str:
    """All of the report; ASCII, so that every terminal and file takes what the data holds."""
    return json.dumps(asdict(report), indent=2) + "\n"


def show(report: CheckReport, console: Console) -> None:
    """Print a table for each split, then faults and warnings with their rows and cures."""
    for split in report.splits:
        console.print(table(split))
    for title, style, findings in (("fault", "red", report.faults), ("warning", "yellow", report.warnings)):
        for finding in findings:
            for line in _words(finding, title, style):
                console.print(line, soft_wrap=True)
    verdict = Text("no fault", "green") if report.passed else Text(_counted(len(report.faults), "fault"), "red")
    console.print(
        Text.assemble(verdict, f", {_counted(len(report.warnings), 'warning')}, {report.seconds:.1f} s"), soft_wrap=True
    )


def table(split: SplitReport) -> Table:
    """The figures of one split."""
    shown = Table(title=escape(f"{split.task}, {split.split}"), title_justify="left", show_header=False)
    shown.add_column()
    shown.add_column(justify="right")
    shown.add_row("rows", str(split.rows))
    shown.add_row("problems", str(split.problems))
    shown.add_row("usable references", f"{split.usable} of {split.audited}" if split.audited else "not looked at")
    shown.add_row("right responses accepted", _tried(split.right))
    shown.add_row("wrong responses refused", _tried(split.wrong))
    if split.cheats.tried:
        shown.add_row("cheats not rewarded", _tried(split.cheats))
    for name, spread in (("characters", split.characters), ("tokens", split.tokens)):
        if spread is not None:
            shown.add_row(f"prompt, {name}", _spread(spread))
    if split.beyond_context is not None:
        shown.add_row("beyond the context", str(split.beyond_context))
    shown.add_row("duplicates", str(split.duplicates))
    if split.split == "eval":
        known = split.in_training is not None
        shown.add_row("in the training split, too", str(split.in_training) if known else "not known")
    shown.add_row("seconds", f"{split.seconds:.1f}")
    return shown


def _tried(tried: Tried) -> str:
    if not tried.tried:
        return "not tried"
    more = [f"{tried.unjudged} unjudged"] if tried.unjudged else []
    more += [f"{tried.not_tried} not tried"] if tried.not_tried else []
    return f"{tried.as_expected} of {tried.tried}" + (f" ({', '.join(more)})" if more else "")


def _spread(spread: Spread) -> str:
    return f"min {spread.min}, median {spread.median}, p95 {spread.p95}, max {spread.max}"


def _words(finding: Finding, title: str, style: str) -> Iterator[Text]:
    where = finding.task if finding.split is None else f"{finding.task}, {finding.split}"
    yield Text.assemble((f"{title}: ", style), f"{where}: {finding.what}: {finding.count}")
    for example in finding.examples:
        row = "" if example.row is None else f"row {example.row}: "
        yield Text(f"  {row}{example.text}")
    if (more := finding.count - len(finding.examples)) > 0:
        yield Text(f"  and {more} more")
    if finding.cure:
        yield Text(f"  → {finding.cure}")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
