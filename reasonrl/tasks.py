"""A task YAML → Task: problems with prompt and reference, demonstrations, verifiers with weights, sampling defaults."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import jinja2
from jinja2.sandbox import SandboxedEnvironment
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from reasonrl import plugins, resources, yamlfile
from reasonrl.errors import ReasonRLError
from reasonrl.generators import GENERATORS, Row, Split, generate
from reasonrl.types import Message, Problem

_FORMATS = {".json": "json", ".jsonl": "json", ".csv": "csv", ".parquet": "parquet"}
_JINJA = SandboxedEnvironment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DatasetConfig(_Strict):
    """A data set of the hub, or local files in the same fields (`data_files`, which win where given)."""

    hub: str | None = None
    config: str | None = None
    revision: str | None = None
    splits: dict[Split, str] = {"train": "train", "eval": "test"}
    data_files: dict[Split, str] = {}

    @model_validator(mode="after")
    def _has_a_source(self) -> Self:
        if not self.hub and not self.data_files:
            raise ValueError("a dataset needs `hub` (an id) or `data_files` (a file for `train` and/or `eval`)")
        return self


class GeneratorConfig(_Strict):
    """A generator of reasonrl in place of a data set."""

    name: str
    seed: int = 0
    options: dict[str, Any] = {}

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in GENERATORS:
            raise ValueError(f"no generator is named {name!r}; there are: {', '.join(sorted(GENERATORS))}")
        return name


class PromptConfig(_Strict):
    """The prompt as a jinja2 template over the row; `chat` puts it into the tokenizer's chat template."""

    template: str
    chat: bool = False
    system: str | None = None

    @model_validator(mode="after")
    def _system_needs_chat(self) -> Self:
        if self.system is not None and not self.chat:
            raise ValueError("`system` needs `chat: true`; put the text into the template otherwise")
        return self


class ReferenceConfig(_Strict):
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


class VerifierConfig(_Strict):
    """One verifier of the task. The first one is the judge: a response is right where its reward is at least 1."""

    name: str
    weight: float = 1.0
    options: dict[str, Any] = {}


class SamplingConfig(_Strict):
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


class TaskConfig(_Strict):
    """A task YAML. Columns have the data set's names, or those that `columns` (new name: data set's name) gives."""

    name: str
    description: str = ""
    version: str = "1"
    license: str = ""
    citation: str = ""
    dataset: DatasetConfig | None = None
    generator: GeneratorConfig | None = None
    columns: dict[str, str] = {}
    id: str | None = None
    prompt: PromptConfig
    reference: ReferenceConfig | None = None
    demonstration: str | None = None
    metadata: tuple[str, ...] = ()
    verifiers: tuple[VerifierConfig, ...] = Field(min_length=1)
    sampling: SamplingConfig = SamplingConfig()

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.dataset is None) == (self.generator is None):
            raise ValueError("a task needs either `dataset` or `generator`")
        return self


class Task:
    """A loaded task.

    Args:
        config: the validated YAML.
        path: where it came from, for messages.
    """

    def __init__(self, config: TaskConfig, path: Path) -> None:
        self.config = config
        self.path = path
        self.verifiers = config.verifiers
        self.sampling = config.sampling
        self._prompt = _template(config.prompt.template, path, "prompt.template")
        self._demonstration = _template(config.demonstration or "", path, "demonstration")
        for entry in config.verifiers:
            plugins.installed().options(entry.name, entry.options)

    def problems(self, split: Split) -> list[Problem]:
        """All problems of a split, in the order of the data.

        Raises:
            ReasonRLError: the data cannot be had, a column is missing, a reference does not match the regex, or
                there is no row.
        """
        return [self._problem(row, split, index) for index, row in enumerate(self._rows(split))]

    def demonstrations(self) -> list[tuple[Problem, str]]:
        """Training problems with the response to imitate, for those rows whose template renders to something.

        Raises:
            ReasonRLError: the task has no `demonstration`, or no row has one.
        """
        if self.config.demonstration is None:
            raise ReasonRLError(f"{self.path}: supervised fine-tuning needs the key `demonstration`, a template")
        rows = enumerate(self._rows("train"))
        found = [
            (self._problem(row, "train", index), text)
            for index, row in rows
            if (text := self._render(self._demonstration, row, index))
        ]
        if not found:
            raise ReasonRLError(f"{self.path}: no row of the training split has a demonstration")
        return found

    def _rows(self, split: Split) -> Iterable[Row]:
        generator, dataset = self.config.generator, self.config.dataset
        if generator is not None:
            rows = list(generate(generator.name, split, generator.seed, self._generator_options(generator)))
        else:
            assert dataset is not None
            rows = _load_dataset(dataset, split, self.path)
        if not rows:
            raise ReasonRLError(f"{self.path}: the {split} split has no rows")
        for new, old in self.config.columns.items():
            _require(old, rows[0], self.path, f"columns.{new}")
        return [row | {new: row[old] for new, old in self.config.columns.items()} for row in rows]

    def _generator_options(self, generator: GeneratorConfig) -> BaseModel:
        try:
            return GENERATORS[generator.name].options.model_validate(generator.options)
        except ValidationError as error:
            faults = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise ReasonRLError(f"{self.path}: generator.options: {faults}") from None

    def _problem(self, row: Row, split: Split, index: int) -> Problem:
        config = self.config
        text = self._render(self._prompt, row, index)
        prompt: str | tuple[Message, ...] = text
        if config.prompt.chat:
            system: list[Message] = (
                [{"role": "system", "content": config.prompt.system}] if config.prompt.system else []
            )
            prompt = (*system, {"role": "user", "content": text})
        return Problem(
            id=str(_require(config.id, row, self.path, "id")) if config.id else f"{split}-{index}",
            prompt=prompt,
            reference=self._reference(row, index),
            metadata={name: _require(name, row, self.path, "metadata") for name in config.metadata},
        )

    def _reference(self, row: Row, index: int) -> str | None:
        reference = self.config.reference
        if reference is None:
            return None
        text = str(_require(reference.column, row, self.path, "reference.column"))
        if reference.regex is None:
            return text
        match = re.search(reference.regex, text)
        if match is None:
            raise ReasonRLError(f"{self.path}: row {index}: reference.regex finds nothing in {text[-200:]!r}")
        return match.group(1).strip()

    def _render(self, template: jinja2.Template, row: Row, index: int) -> str:
        try:
            return template.render(row)
        except jinja2.TemplateError as error:
            columns = ", ".join(sorted(map(str, row)))
            raise ReasonRLError(f"{self.path}: row {index}: template: {error} (columns: {columns})") from None


def load(name: str, data_files: Mapping[Split, str] | None = None) -> Task:
    """A task by name (bundled, or brought by a plugin) or by the path of its YAML.

    Args:
        name: `gsm8k`, or a path that ends in `.yaml`.
        data_files: local files in place of the task's data set, by split.

    Raises:
        ReasonRLError: there is no such task (those there are, are listed), or its YAML is at fault.
    """
    path = _find(name)
    config = yamlfile.validate(TaskConfig, yamlfile.read(path))
    if data_files:
        if config.dataset is None:
            raise ReasonRLError(f"{path}: task {config.name} makes its own rows; it takes no data files")
        dataset = config.dataset.model_copy(update={"data_files": dict(data_files)})
        config = config.model_copy(update={"dataset": dataset})
    return Task(config, path)


def _find(name: str) -> Path:
    if name.endswith((".yaml", ".yml")):
        if not Path(name).is_file():
            raise ReasonRLError(f"there is no task file {name}")
        return Path(name)
    folders = [resources.bundled("tasks"), *plugins.installed().task_folders]
    known = {path.stem: path for folder in reversed(folders) for path in sorted(folder.glob("*.yaml"))}
    if name not in known:
        raise ReasonRLError(
            f"no task is named {name!r}; there are: {', '.join(sorted(known))}; or give a path to a YAML"
        )
    return known[name]


def _template(text: str, path: Path, key: str) -> jinja2.Template:
    try:
        return _JINJA.from_string(text)
    except jinja2.TemplateSyntaxError as error:
        raise ReasonRLError(f"{path}: {key}: {error.message} (line {error.lineno} of the template)") from None


def _require(column: str, row: Row, path: Path, key: str) -> Any:
    if column not in row:
        raise ReasonRLError(f"{path}: {key}: no column {column!r}; the data has: {', '.join(sorted(map(str, row)))}")
    return row[column]


def _load_dataset(config: DatasetConfig, split: Split, path: Path) -> list[Row]:
    import datasets  # heavy: half a second that listing tasks should not pay

    if split in config.data_files:
        file = Path(config.data_files[split])
        if not file.is_file():
            raise ReasonRLError(f"{path}: dataset.data_files.{split}: there is no file {file}")
        kind = _FORMATS.get(Path(file.name.removesuffix(".gz")).suffix)
        if kind is None:
            raise ReasonRLError(f"{path}: {file}: expected one of {', '.join(_FORMATS)} (also with .gz)")
        source: dict[str, Any] = {"path": kind, "data_files": str(file), "split": "train"}
    elif config.hub:
        if split not in config.splits:
            raise ReasonRLError(f"{path}: dataset.splits names no {split!r} split")
        source = {"path": config.hub, "name": config.config, "split": config.splits[split], "revision": config.revision}
    else:
        raise ReasonRLError(f"{path}: dataset.data_files has no file for the {split!r} split")
    try:
        return list(datasets.load_dataset(**source))
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        cure = "" if split in config.data_files else f"; where no hub is reachable, give data_files.{split}=FILE"
        raise ReasonRLError(f"{path}: cannot load {config.data_files.get(split, config.hub)}: {error}{cure}") from None
