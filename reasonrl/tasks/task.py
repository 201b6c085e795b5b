"""A task: rows of data → problems with prompt and reference, and demonstrations."""

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from reasonrl.columns import names, value_at
from reasonrl.datafiles import load_rows
from reasonrl.errors import ReasonRLError
from reasonrl.generators import GENERATORS, Row, Split, generate
from reasonrl.tasks.config import FewShotConfig, SamplingConfig, TaskConfig, VerifierConfig
from reasonrl.tasks.leftout import LeftOut
from reasonrl.tasks.references import Reference, text_of
from reasonrl.tasks.templates import Template
from reasonrl.types import Message, Problem

Made = TypeVar("Made")


class Task:
    """A loaded task. Its data is read when it is asked for.

    Args:
        config: the validated YAML.
        path: where it came from, for messages.
        missing: a message for each of its verifiers that is not installed.
        part_of: the mixture it is a part of, if it is: then `task`, which its problems carry, is its name.
    """

    def __init__(
        self, config: TaskConfig, path: Path, missing: Sequence[str] = (), *, part_of: str | None = None
    ) -> None:
        self.config = config
        self.path = path
        self.missing = tuple(missing)
        self.name = config.name
        self.verifiers: tuple[VerifierConfig, ...] = config.verifiers
        self.sampling: SamplingConfig = config.sampling
        self.streams = config.dataset is not None and config.dataset.streaming
        self.skips_faulty = config.dataset is not None and config.dataset.skip_faulty
        self._left_out: dict[Split, LeftOut] = {}
        self._prefix = "" if part_of is None else f"{config.name}/"
        self.task = "" if part_of is None else config.name
        self._prompt = Template(config.prompt.template)
        self._reference = None if config.reference is None else Reference(config.reference)
        self._demonstration = Template(config.demonstration or "")

    @property
    def parts(self) -> tuple[tuple["Task", float], ...]:
        """The tasks it is made of, with their weights: itself."""
        return ((self, 1.0),)

    def splits(self) -> list[Split]:
        """The splits its data has."""
        dataset = self.config.dataset
        if dataset is None:
            return ["train", "eval"]
        given = {*dataset.data_files, *(dataset.splits if dataset.hub else ()), *(["eval"] if dataset.hold_out else [])}
        return [split for split in ("train", "eval") if split in given]

    def problems(self, split: Split, rows: int | None = None) -> list[Problem]:
        """The problems of a split, in the order of the data; the first so many if `rows` is given.

        Raises:
            ReasonRLError: the data cannot be had, has no row, or lacks a column; or a row has an empty prompt, no
                reference, or the id of another. Rows are counted from 0, as in the data.
        """
        problems: list[Problem] = []
        seen: dict[str, int] = {}
        made = self._usable(split, lambda index, row: self.problem(row, split, index))
        for index, problem in itertools.islice(made, rows):
            if problem.id in seen:
                raise self._error(
                    f"row {index}", f"has the id {problem.id!r} of row {seen[problem.id]}; choose another `id` column"
                )
            seen[problem.id] = index
            problems.append(problem)
        if not problems:
            raise ReasonRLError(f"{self.path}: the {split} split has no rows")
        return problems

    def attempts(self, split: Split) -> Iterator[tuple[int, Problem | ReasonRLError]]:
        """The rows of a split one by one, for data larger than memory: the number of each with its problem or fault.

        Raises:
            ReasonRLError: the data cannot be had; on the way.
        """
        for index, row in self.rows(split):
            made: Problem | ReasonRLError
            try:
                made = self.problem(row, split, index)
            except ReasonRLError as error:
                made = error.with_traceback(None)  # which would hold the row for as long as a stream holds the fault
            yield index, made

    def left_out(self, split: Split) -> tuple[LeftOut, ...]:
        """What `problems` or `demonstrations` last left out of a split, if anything."""
        return tuple(one for at, one in self._left_out.items() if at == split and one.rows)

    def leave_out(self, split: Split, index: int, fault: ReasonRLError) -> None:
        """Count a row of what was last read of a split as left out, too.

        Raises:
            ReasonRLError: with it, more than a few are at fault.
        """
        self._left_out[split].add_fault(index, fault)
        if not self.skips_faulty:
            self._left_out[split].check()

    def demonstrations(self, most: int | None = None) -> list[tuple[Problem, str]]:
        """Training problems with the response to imitate, for those rows whose template renders to something.

        Of data that streams, faulty rows are left out as long as they are the exception.

        Args:
            most: the first so many; all if None.

        Raises:
            ReasonRLError: the task has no `demonstration`, or no row has one; or a row is at fault.
        """
        if self.config.demonstration is None:
            raise ReasonRLError(f"{self.path}: supervised fine-tuning needs the key `demonstration`, a template")

        def worked(index: int, row: Row) -> tuple[Problem, str] | None:
            text = self._render(self._demonstration, row, f"row {index}: demonstration")
            return (self.problem(row, "train", index), text) if text.strip() else None

        found = [one for _, one in itertools.islice(self._usable("train", worked, tolerant=self.streams), most)]
        if not found:
            raise ReasonRLError(f"{self.path}: no row of the training split has a demonstration")
        return found

    def rows(self, split: Split) -> Iterator[tuple[int, Row]]:
        """The rows of a split with their numbers in the data, columns renamed, without those that serve as examples."""
        few_shot = self.config.prompt.few_shot
        shown = {index for index, _ in self._example_rows} if few_shot and few_shot.split == split else set()
        return ((index, row) for index, row in self._renamed(split) if index not in shown)

    def examples(self) -> list[tuple[str, Row]]:
        """The rows that prompts show as worked examples, each with where it stands.

        Raises:
            ReasonRLError: they cannot be drawn from the data.
        """
        few_shot = self.config.prompt.few_shot
        return [] if few_shot is None else self._places(few_shot)

    def problem(self, row: Row, split: Split, index: int) -> Problem:
        """The problem of one row.

        Raises:
            ReasonRLError: it has an empty prompt, no reference, no id, or lacks a column.
        """
        config, where = self.config, f"row {index}"
        for new, old in config.columns.items():
            if new not in row:
                self._value(row, old, f"{where}: columns.{new}")  # says what is there instead
        text = self._render(self._prompt, row, f"{where}: prompt.template")
        if not text.strip():
            raise self._error(f"{where}: prompt.template", "renders to nothing")
        try:
            name = text_of(row, config.id, "id") if config.id else f"{split}-{index}"
            reference = None if self._reference is None else self._reference.of(row)
        except ValueError as error:
            raise self._error(where, str(error)) from None
        return Problem(
            id=self._prefix + name,
            prompt=self._with_examples(text),
            reference=reference,
            metadata={column: self._value(row, column, "metadata") for column in config.metadata},
            task=self.task,
            row=index,
        )

    def _usable(
        self, split: Split, make: Callable[[int, Row], Made | None], *, tolerant: bool = False
    ) -> Iterator[tuple[int, Made]]:
        """What is made of the rows of a split, with their numbers; those of which nothing is made are passed over.

        Faulty ones are left out where the data set says so, unless all of them are; or, if tolerant, some of them.
        """
        left_out = self._left_out[split] = LeftOut(self.name, split)
        first_fault, some = None, False
        for index, row in self.rows(split):
            left_out.read += 1
            try:
                made = make(index, row)
            except ReasonRLError as error:
                if not self.skips_faulty and not tolerant:
                    raise
                first_fault = first_fault or error
                self.leave_out(split, index, error)
                continue
            if made is not None:
                some = True
                yield index, made
        if first_fault is not None and not some:
            raise first_fault

    def _renamed(self, split: Split) -> Iterator[tuple[int, Row]]:
        config = self.config
        rows: Iterable[tuple[int, Row]]
        if config.generator is not None:
            options = GENERATORS[config.generator.name].options.model_validate(config.generator.options)
            rows = enumerate(generate(config.generator.name, split, config.generator.seed, options))
        else:
            assert config.dataset is not None
            rows = load_rows(config.dataset, split, self.path)
        for index, row in rows:
            yield index, self._with_columns(row)

    def _with_columns(self, row: Row) -> Row:
        """The row with its columns renamed. Without those it has no value for: that is for `problem` to tell."""
        found: Row = {}
        for new, old in self.config.columns.items():
            try:
                found[new] = value_at(row, old)
            except KeyError:
                continue
        return {column: value for column, value in row.items() if column not in self.config.columns} | found

    def _with_examples(self, text: str) -> str | tuple[Message, ...]:
        prompt, examples = self.config.prompt, self._examples
        if not prompt.chat:
            separator = prompt.few_shot.separator if prompt.few_shot else ""
            return "".join(question + answer + separator for question, answer in examples) + text
        system: list[Message] = [{"role": "system", "content": prompt.system}] if prompt.system else []
        turns: list[Message] = []
        for question, answer in examples:
            turns += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        return (*system, *turns, {"role": "user", "content": text})

    @cached_property
    def _example_rows(self) -> list[tuple[int, Row]]:
        """The rows of the data that serve as examples, with their numbers."""
        few_shot = self.config.prompt.few_shot
        if few_shot is None or not few_shot.rows:
            return []
        rows = list(self._renamed(few_shot.split))
        if len(rows) <= few_shot.rows:
            raise self._error("prompt.few_shot.rows", f"asks for {few_shot.rows} of {len(rows)} rows; give fewer")
        return random.Random(few_shot.seed).sample(rows, few_shot.rows)

    @cached_property
    def _examples(self) -> list[tuple[str, str]]:
        """Prompt and response of each example."""
        few_shot = self.config.prompt.few_shot
        return [] if few_shot is None else [self._example(few_shot, *at) for at in self._places(few_shot)]

    def _places(self, few_shot: FewShotConfig) -> list[tuple[str, Row]]:
        given = [(f"prompt.few_shot.examples.{index}", row) for index, row in enumerate(few_shot.examples)]
        return given + [(f"row {index}: prompt.few_shot", row) for index, row in self._example_rows]

    def _example(self, few_shot: FewShotConfig, place: str, row: Row) -> tuple[str, str]:
        response = self._demonstration if few_shot.response is None else Template(few_shot.response)
        question = self._render(self._prompt, row, f"{place}: prompt.template")
        answer = self._render(response, row, f"{place}: response")
        if not question.strip() or not answer.strip():
            raise self._error(place, "the example's prompt or response renders to nothing")
        return question, answer

    def _value(self, row: Mapping[str, Any], column: str, key: str) -> Any:
        try:
            return value_at(row, column)
        except KeyError as error:
            raise self._error(key, error.args[0]) from None

    def _render(self, template: Template, row: Row, where: str) -> str:
        try:
            return template.render(row)
        except ValueError as error:
            raise self._error(where, f"{error} (the data has: {names(row)})") from None

    def _error(self, where: str, what: str) -> ReasonRLError:
        return ReasonRLError(f"{self.path}: {where}: {what}")
