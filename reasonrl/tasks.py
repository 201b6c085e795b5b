"""A task YAML → Task: problems with prompt and reference, demonstrations, verifiers with weights, sampling defaults."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import Field, field_validator, model_validator

from reasonrl import plugins, resources, yamlfile
from reasonrl.datafiles import DatasetConfig, load_rows
from reasonrl.errors import ReasonRLError
from reasonrl.generators import GENERATORS, Row, Split, generate
from reasonrl.types import Message, Problem
from reasonrl.yamlfile import Record


def _empty_if_none(value: Any) -> Any:
    return "" if value is None else value


# A template may come with a task from a stranger: sandboxed, and a column that is not there is an error.
_JINJA = ImmutableSandboxedEnvironment(
    undefined=jinja2.StrictUndefined, keep_trailing_newline=True, finalize=_empty_if_none
)


class GeneratorConfig(Record):
    """A generator of reasonrl in place of a data set."""

    name: str
    seed: int = 0
    options: dict[str, Any] = Field({})

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in GENERATORS:
            raise ValueError(f"no generator is named {name!r}; there are: {', '.join(sorted(GENERATORS))}")
        return name


class PromptConfig(Record):
    """The prompt as a jinja2 template over the row; `chat` puts it into the tokenizer's chat template.

    A column without a value renders as nothing.
    """

    template: str
    chat: bool = False
    system: str | None = None

    @field_validator("template")
    @classmethod
    def _parses(cls, template: str) -> str:
        return _checked_template(template)

    @model_validator(mode="after")
    def _system_needs_chat(self) -> Self:
        if self.system is not None and not self.chat:
            raise ValueError("`system` needs `chat: true`; put the text into the template otherwise")
        return self


class ReferenceConfig(Record):
    """Where the reference answer stands: a column, and a regex whose first group is taken if one is given."""

    column: str
    regex: str | None = None

    @field_validator("regex")
    @classmethod
    def _compiles(cls, regex: str | None) -> str | None:
        if regex is not None:
            try:
                groups = re.compile(regex).groups
            except re.error as error:
                raise ValueError(f"not a regular expression: {error}") from None
            if groups != 1:
                raise ValueError(f"the regex needs exactly one group, the reference; it has {groups}")
        return regex


class VerifierConfig(Record):
    """One verifier of the task. The first one is the judge: a response is right where its reward is at least 1."""

    name: str
    weight: float = 1.0
    options: dict[str, Any] = Field({})


class SamplingConfig(Record):
    """How responses are sampled.

    Attributes:
        temperature: divides the logits; 0 is greedy.
        top_p, top_k: keep the smallest set of tokens with that mass; keep the k likeliest (0: all).
        max_tokens: most tokens of a response, the end-of-sequence token included.
        stop: texts that end a response; they are cut off its text.
    """

    temperature: float = Field(1.0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(0, ge=0)
    max_tokens: int = Field(512, ge=1)
    stop: tuple[str, ...] = ()

    @field_validator("stop")
    @classmethod
    def _not_empty(cls, stop: tuple[str, ...]) -> tuple[str, ...]:
        if not all(stop):
            raise ValueError("an empty text would end every response at once")
        return stop


class TaskConfig(Record):
    """A task YAML. Columns have the data set's names, or those that `columns` (new name: data set's name) gives."""

    name: str
    description: str = ""
    version: str = "1"
    license: str = ""
    citation: str = ""
    dataset: DatasetConfig | None = None
    generator: GeneratorConfig | None = None
    columns: dict[str, str] = Field({})
    id: str | None = None
    prompt: PromptConfig
    reference: ReferenceConfig | None = None
    demonstration: str | None = None
    metadata: tuple[str, ...] = ()
    verifiers: tuple[VerifierConfig, ...] = Field(min_length=1)
    sampling: SamplingConfig = SamplingConfig()

    @field_validator("demonstration")
    @classmethod
    def _parses(cls, template: str | None) -> str | None:
        return None if template is None else _checked_template(template)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.dataset is None) == (self.generator is None):
            raise ValueError("a task needs either `dataset` or `generator`")
        return self


class Task:
    """A loaded task. Its data is read when it is asked for.

    Args:
        config: the validated YAML.
        path: where it came from, for messages.
    """

    def __init__(self, config: TaskConfig, path: Path) -> None:
        self.config = config
        self.path = path
        self.verifiers = config.verifiers
        self.sampling = config.sampling
        self._prompt = _JINJA.from_string(config.prompt.template)
        self._demonstration = _JINJA.from_string(config.demonstration or "")

    def problems(self, split: Split) -> list[Problem]:
        """All problems of a split, in the order of the data.

        Raises:
            ReasonRLError: the data cannot be had, has no row, or lacks a column; or a row has an empty prompt, no
                reference, or the id of another. Rows are counted from 0.
        """
        problems = [self._problem(row, split, index) for index, row in enumerate(self._rows(split))]
        rows: dict[str, int] = {}
        for index, problem in enumerate(problems):
            if problem.id in rows:
                raise self._error(
                    f"row {index}", f"has the id {problem.id!r} of row {rows[problem.id]}; choose another `id` column"
                )
            rows[problem.id] = index
        return problems

    def demonstrations(self) -> list[tuple[Problem, str]]:
        """Training problems with the response to imitate, for those rows whose template renders to something.

        Raises:
            ReasonRLError: the task has no `demonstration`, or no row has one.
        """
        if self.config.demonstration is None:
            raise ReasonRLError(f"{self.path}: supervised fine-tuning needs the key `demonstration`, a template")
        found = [
            (self._problem(row, "train", index), text)
            for index, row in enumerate(self._rows("train"))
            if (text := self._render(self._demonstration, row, index, "demonstration")).strip()
        ]
        if not found:
            raise ReasonRLError(f"{self.path}: no row of the training split has a demonstration")
        return found

    def _rows(self, split: Split) -> list[Row]:
        config = self.config
        if config.generator is not None:
            options = GENERATORS[config.generator.name].options.model_validate(config.generator.options)
            rows = generate(config.generator.name, split, config.generator.seed, options)
        else:
            assert config.dataset is not None
            rows = load_rows(config.dataset, split, self.path)
        if not rows:
            raise ReasonRLError(f"{self.path}: the {split} split has no rows")
        return [
            row | {new: self._column(old, row, f"columns.{new}") for new, old in config.columns.items()} for row in rows
        ]

    def _problem(self, row: Row, split: Split, index: int) -> Problem:
        config = self.config
        text = self._render(self._prompt, row, index, "prompt.template")
        if not text.strip():
            raise self._error(f"row {index}: prompt.template", "renders to nothing")
        prompt: str | tuple[Message, ...] = text
        if config.prompt.chat:
            system: list[Message] = (
                [{"role": "system", "content": config.prompt.system}] if config.prompt.system else []
            )
            prompt = (*system, {"role": "user", "content": text})
        return Problem(
            id=self._text(config.id, row, index, "id") if config.id else f"{split}-{index}",
            prompt=prompt,
            reference=self._reference(row, index),
            metadata={name: self._column(name, row, "metadata") for name in config.metadata},
        )

    def _reference(self, row: Row, index: int) -> str | None:
        reference = self.config.reference
        if reference is None:
            return None
        text = self._text(reference.column, row, index, "reference.column")
        if reference.regex is None:
            return text
        match = re.search(reference.regex, text)
        found = (match.group(1) or "").strip() if match else ""
        if not found:
            raise self._error(f"row {index}: reference.regex", f"finds nothing in {text[-200:]!r}")
        return found

    def _text(self, column: str, row: Row, index: int, key: str) -> str:
        value = self._column(column, row, key)
        if not isinstance(value, str | int | float) or not str(value).strip():
            raise self._error(f"row {index}: {key}", f"column {column!r} holds {value!r}, expected text or a number")
        return str(value)

    def _column(self, column: str, row: Row, key: str) -> Any:
        if column not in row:
            raise self._error(key, f"no column {column!r}; the data has: {_columns(row)}")
        return row[column]

    def _render(self, template: jinja2.Template, row: Row, index: int, key: str) -> str:
        try:
            return template.render(row)
        except Exception as error:  # noqa: BLE001  a template runs expressions, which may raise anything
            raise self._error(f"row {index}: {key}", f"{error} (the data has: {_columns(row)})") from None

    def _error(self, where: str, what: str) -> ReasonRLError:
        return ReasonRLError(f"{self.path}: {where}: {what}")


def load(name: str, data_files: Mapping[Split, str] | None = None) -> Task:
    """A task by name (bundled, or brought by a plugin) or by the path of its YAML.

    Args:
        name: `gsm8k`, or a path that ends in `.yaml`.
        data_files: local files in place of the task's own data, by split.

    Raises:
        ReasonRLError: there is no such task (those there are, are listed), or its YAML is at fault, the options of
            its verifiers and generator included.
    """
    path = yamlfile.find(name, "task", [resources.bundled("tasks"), *plugins.installed().task_folders])
    document = yamlfile.read(path)
    config = yamlfile.validate(TaskConfig, document)
    for index, entry in enumerate(config.verifiers):
        try:
            verifier = plugins.installed().verifier(entry.name).verifier
        except ReasonRLError as error:
            raise ReasonRLError(f"{document.place(('verifiers', index, 'name'))}: {error}") from None
        yamlfile.validate(verifier.Options, document, at=("verifiers", index, "options"))
    if config.generator is not None:
        options = GENERATORS[config.generator.name].options
        yamlfile.validate(options, document, at=("generator", "options"))
    if data_files:
        if config.dataset is None:
            raise ReasonRLError(f"{path}: task {config.name} makes its own rows; it takes no data files")
        files = {**config.dataset.data_files, **data_files}
        config = config.model_copy(update={"dataset": config.dataset.model_copy(update={"data_files": files})})
    return Task(config, path)


def _checked_template(text: str) -> str:
    try:
        _JINJA.from_string(text)
    except jinja2.TemplateSyntaxError as error:
        raise ValueError(f"{error.message} (line {error.lineno} of the template)") from None
    return text


def _columns(row: Row) -> str:
    return ", ".join(sorted(map(str, row)))
