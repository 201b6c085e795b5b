"""What `reasonrl tasks list` and `reasonrl tasks show` print."""

import itertools
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from reasonrl import plugins, tasks
from reasonrl.errors import ReasonRLError
from reasonrl.generators import Split
from reasonrl.models.prompt import prompt_ids
from reasonrl.tasks import Mixture, Task, VerifierConfig
from reasonrl.types import Message, Problem

_SHOWN = 200  # characters of one value of the metadata


def show_all(console: Console) -> None:
    """All tasks, two lines each; those whose YAML is broken with their error."""
    table = Table("name", "description\nverifiers · where the rows come from · licence", show_edge=False)
    table.columns[0].no_wrap = True
    for name in dict.fromkeys(tasks.names()):
        try:
            about = _about(tasks.read(name))
        except ReasonRLError as error:
            about = Text.assemble(("broken: ", "red"), str(error))
        table.add_row(Text(name), about)
    console.print(table)


def _about(task: Task | Mixture) -> Text:
    facts = [fact for fact in (_verifiers(task), _source(task), _licence(task)) if fact]
    return Text("\n").join([Text(task.config.description), Text(" · ").join(facts)])


def show_task(task: Task | Mixture, console: Console, *, split: Split | None, rows: int, tokenizer: Any) -> None:
    """One task, or each part of a mixture: what it is, its first rows, its reward, how responses are sampled.

    Args:
        task: as `tasks.read` gives it.
        console: where it is printed.
        split: of which the rows are; the first there is if None.
        rows: how many; without any, no data is read.
        tokenizer: prompts are shown as it encodes them; as text or messages if None.

    Raises:
        ReasonRLError: of a part there are no rows, or none that can become a problem; raised after everything else was
            shown.
    """
    faults = []
    _show_head(task, console)
    for part, weight in task.parts:
        if isinstance(task, Mixture):
            share = weight / sum(weight for _, weight in task.parts)
            _say(console)
            _show_head(part, console, f"  ({share:.0%} of the training problems)")
        try:
            _show_rows(part, console, split or part.splits()[0], rows, tokenizer)
        except ReasonRLError as error:
            faults.append(error)
        _show_reward(part, console)
    _say(console)
    _say(console, "sampling", ", ".join(f"{key} {value!r}" for key, value in task.sampling.model_dump().items()))
    if faults:
        raise ReasonRLError("\n".join(map(str, faults)))


def _show_head(task: Task | Mixture, console: Console, more: str = "") -> None:
    config = task.config
    console.print(Text.assemble((task.name, "bold"), f" {config.version}{more}"), soft_wrap=True)
    for line in (config.description, config.caveats):
        if line:
            console.print(Text(" ".join(line.split())))
    facts = {"file": str(task.path), "rows": _source(task).plain, "splits": ", ".join(task.splits())}
    facts |= {"licence": _licence(task).plain, "citation": config.citation}
    for name, fact in facts.items():
        if fact:
            _say(console, name, fact)


def _show_rows(task: Task, console: Console, split: Split, rows: int, tokenizer: Any) -> None:
    shown = faulty = 0
    for index, row in itertools.islice(task.rows(split) if rows else (), rows):
        shown += 1
        _say(console)
        console.print(Text(f"{task.name}, {split}, row {index}", "bold"))
        try:
            problem = task.problem(row, split, index)
            _show_prompt(problem, console, tokenizer)
        except ReasonRLError as error:
            console.print(Text.assemble(("error: ", "red"), str(error)), soft_wrap=True)
            faulty += 1
            continue
        _show_answer(problem, console)
    if rows and not shown:
        raise ReasonRLError(f"{task.path}: no rows in the {split} split")
    if rows and faulty == shown:
        raise ReasonRLError(f"{task.path}: none of the rows shown can become a problem")
    if rows and tokenizer is None:
        _say(console)
        console.print(Text("--model PATH shows prompts with the chat template and special tokens of a model", "dim"))


def _show_answer(problem: Problem, console: Console) -> None:
    """The reference and the metadata."""
    _say(console, "reference", "none" if problem.reference is None else problem.reference)
    for name, value in problem.metadata.items():
        text = str(value)
        _say(console, name, text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)")


def _show_prompt(problem: Problem, console: Console, tokenizer: Any) -> None:
    if tokenizer is not None:
        ids = prompt_ids(problem.prompt, tokenizer)
        text = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        _say(console, "prompt", f"{len(ids)} tokens")
        _say(console, "", text)
        return
    prompt = problem.prompt
    messages: Sequence[Message] = [{"role": "prompt", "content": prompt}] if isinstance(prompt, str) else prompt
    for message in messages:
        _say(console, message["role"], message["content"])


def _show_reward(task: Task, console: Console) -> None:
    """Each verifier with version and options, and how the reward is made of them."""
    _say(console)
    terms = " + ".join(f"{entry.weight:g} × {entry.name}" for entry in task.verifiers)
    _say(console, "reward", terms)
    _say(console, "right", f"where the judge, {task.verifiers[0].name}, gives at least 1")
    for entry in task.verifiers:
        role = "judge" if entry is task.verifiers[0] else "verifier"
        if entry.name not in plugins.installed().verifiers:
            _say(console, role, f"{entry.name}, not installed")
            continue
        source = plugins.installed().verifier(entry.name)
        # By pydantic's own repr of each value, which shows a secret as asterisks.
        options = plugins.installed().options(entry.name, entry.options)
        shown = ", ".join(f"{name} {getattr(options, name)!r}" for name in type(options).model_fields)
        _say(console, role, f"{entry.name} {source.version} ({source.distribution}): {shown or 'no options'}")
    for message in task.missing:
        console.print(Text.assemble(("missing: ", "red"), message), soft_wrap=True)


def _say(console: Console, name: str = "", text: str = "") -> None:
    """A line with its name before it; further lines of the text below each other."""
    first, *others = text.split("\n")
    for begin, line in ((name, first), *(("", other) for other in others)):
        console.print(Text.assemble((f"{begin:<11}", "cyan"), line) if name or text else "", soft_wrap=True)


def _verifiers(task: Task | Mixture) -> Text:
    entries: dict[str, VerifierConfig] = {entry.name: entry for part, _ in task.parts for entry in part.verifiers}
    known = plugins.installed().verifiers
    shown = [Text(name) if name in known else Text(f"{name} (not installed)", "red") for name in entries]
    return Text(", ").join(shown)


def _source(task: Task | Mixture) -> Text:
    """Where the rows come from."""
    if isinstance(task, Mixture):
        return Text("mixture of " + ", ".join(part.name for part, _ in task.parts))
    config = task.config
    if config.generator is not None:
        return Text(f"generator {config.generator.name}")
    assert config.dataset is not None
    files = [f"{split}: {given}" for split, given in config.dataset.data_files.items()]
    return Text("; ".join([*([config.dataset.hub] if config.dataset.hub else []), *files]))


def _licence(task: Task | Mixture) -> Text:
    licences = [task.config.license] if task.config.license else [part.config.license for part, _ in task.parts]
    return Text(", ".join(dict.fromkeys(filter(None, licences))))
