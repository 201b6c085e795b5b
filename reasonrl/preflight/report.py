"""The report of a preflight as JSON, and in words."""

import json
from collections.abc import Iterator
from dataclasses import asdict

from rich.console import Console
from rich.text import Text

from reasonrl.checking import Tried as Responses
from reasonrl.preflight.records import Finding, Lengths, Memory, Preflight, Tried
from reasonrl.preflight.sizes import shown
from reasonrl.titled import show_titled


def to_json(report: Preflight) -> str:
    """All of the report; ASCII, so that every terminal and file takes what the data holds. Sizes are in bytes."""
    data = asdict(report)
    data["disk"]["needed"] = report.disk.needed
    memory = data["memory"]
    memory |= {"peak": report.memory.peak, "needed": report.memory.needed, "largest": report.memory.largest.name}
    for phase, written in zip(report.memory.phases, memory["phases"], strict=True):
        written |= {"total": phase.total, "dominating": phase.dominating}
    return json.dumps(data, indent=2) + "\n"


def show(report: Preflight, console: Console) -> None:
    """Print section by section, then what was found with its cure."""
    for title, lines in report.objective.items():
        show_titled(title, lines, console)
    show_titled("batch", report.batch, console)
    show_titled("task", list(_task(report)), console)
    show_titled("prompts", list(_prompts(report.lengths)), console)
    engine = report.engine
    trained = "" if engine.trained == engine.parameters else f", {engine.trained:,} of them trained"
    show_titled("engine", [f"{engine.name}: {engine.why}", f"{engine.parameters:,} parameters{trained}"], console)
    show_titled("verifiers", list(map(_tried, report.verifiers)) or ["need nothing of this machine"], console)
    disk = report.disk
    parts = f"checkpoints {shown(disk.checkpoints)}, final {shown(disk.final)}, rollouts {shown(disk.rollouts)}"
    show_titled("disk", [f"at most {shown(disk.needed)} of {shown(disk.free)} free in {disk.folder}", parts], console)
    show_titled("memory", list(_memory(report.memory)), console)
    for finding in report.findings:
        for line in _finding(finding):
            console.print(line, soft_wrap=True)
    faults = sum(one.fault for one in report.findings)
    verdict = Text("fit", "green") if report.passed else Text(_counted(faults, "fault"), "red")
    warnings = _counted(len(report.findings) - faults, "warning")
    console.print(Text.assemble(verdict, f", {warnings}, {report.seconds:.1f} s"), soft_wrap=True)


def _task(report: Preflight) -> Iterator[str]:
    for one in report.check.splits:
        yield (
            f"{one.task}, {one.split}: {one.problems} problems of {one.rows} rows looked at; {one.usable} of "
            f"{one.audited} references usable"
        )
        made = (("right", one.right), ("wrong", one.wrong), ("cheats", one.cheats))
        yield "    " + ", ".join(f"{name} as expected {_responses(tried)}" for name, tried in made)


def _responses(tried: Responses) -> str:
    return f"{tried.as_expected} of {tried.tried}" if tried.tried else "not tried"


def _prompts(lengths: Lengths) -> Iterator[str]:
    limit = "none" if lengths.max_prompt_tokens is None else str(lengths.max_prompt_tokens)
    most = "no limit" if lengths.max_positions is None else f"{lengths.max_positions} positions"
    yield f"limits: task.max_prompt_tokens {limit}, sampling.max_tokens {lengths.max_tokens}, the model {most}"
    for one in lengths.splits:
        if one.tokens is not None:
            spread = f"min {one.tokens.min}, median {one.tokens.median}, p95 {one.tokens.p95}, max {one.tokens.max}"
            yield f"{one.split}: {one.prompts} looked at, tokens {spread}"


def _tried(one: Tried) -> str:
    part = f"{one.verifier}{f' {one.part}' if one.part else ''}: {one.promise}"
    if one.holds:
        return f"{part}: holds"
    return f"{part}: {'does not hold' if one.needed else 'not promised'}{f', {one.seen}' if one.seen else ''}"


def _memory(memory: Memory) -> Iterator[str]:
    base = f"{shown(memory.process)} of the process and its libraries + " if memory.process else ""
    largest = memory.largest
    yield f"peak {shown(memory.peak)} = {base}{shown(largest.total)} of {largest.name}, mostly {largest.dominating}"
    yield f"{memory.device}: {shown(memory.free)} free"
    for phase in memory.phases:
        parts = sorted(phase.parts.items(), key=lambda part: -part[1])
        told = ", ".join(f"{name} {shown(size)}" for name, size in parts if size)
        yield f"    {phase.name}{', a process of its own' if phase.beside else ''}: {shown(phase.total)}: {told}"


def _finding(finding: Finding) -> Iterator[Text]:
    title, style = ("fault", "red") if finding.fault else ("warning", "yellow")
    yield Text.assemble((f"{title}: ", style), f"{finding.section}: {finding.what}")
    if finding.cure:
        yield Text(f"  → {finding.cure}")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
