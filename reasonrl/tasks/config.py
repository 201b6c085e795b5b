"""A task YAML as typed records: data, prompt, reference, verifiers with weights, sampling; or a mixture of tasks."""

from typing import Annotated, Any, Self

import regex as regex_library  # what searches: it takes a time limit
from pydantic import ConfigDict, Field, field_validator, model_validator

from reasonrl.datafiles import DatasetConfig
from reasonrl.generators import GENERATORS, Row, Split
from reasonrl.tasks import templates
from reasonrl.yamlfile import Excluding, Name, Record, one_of


class GeneratorConfig(Record):
    """A generator of reasonrl in place of a data set."""

    name: str = Field(json_schema_extra={"enum": [*sorted(GENERATORS)]})
    seed: int = 0
    options: dict[str, Any] = Field({})

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in GENERATORS:
            raise ValueError(f"no generator is named {name!r}; there are: {', '.join(sorted(GENERATORS))}")
        return name


class FewShotConfig(Record):
    """Worked examples before the problem: in a chat as turns of user and assistant, else as text.

    Attributes:
        examples: rows given in place, with the columns the templates read.
        rows, split, seed: or so many rows drawn from a split of the task's own data; its problems are without them.
        response: template of what is answered; the task's `demonstration` if left out.
        separator: between examples, and before the problem, where there is no chat.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": ["examples"], "properties": {"examples": {"minItems": 1}}},
                {"required": ["rows"], "properties": {"rows": {"minimum": 1}}},
            ]
        }
    )

    examples: tuple[Row, ...] = ()
    rows: int = Field(0, ge=0)
    split: Split = "train"
    seed: int = 0
    response: str | None = None
    separator: str = "\n\n"

    @field_validator("response")
    @classmethod
    def _parses(cls, template: str | None) -> str | None:
        return None if template is None else templates.checked(template)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        text = "few-shot examples are either given as `examples`, or so many `rows` of the data"
        if self.examples and self.rows:
            raise Excluding(text, "examples", "rows")
        if not self.examples and not self.rows:
            raise ValueError(text)
        return self


class PromptConfig(Record):
    """The prompt as a jinja2 template over the row; a column without a value renders as nothing.

    Attributes:
        template: of the problem.
        chat: put it into the tokenizer's chat template, as what the user says.
        system: the system message of the chat.
        few_shot: examples before the problem.
    """

    template: str
    chat: bool = False
    system: str | None = None
    few_shot: FewShotConfig | None = None

    @field_validator("template")
    @classmethod
    def _parses(cls, template: str) -> str:
        return templates.checked(template)

    @model_validator(mode="after")
    def _system_needs_chat(self) -> Self:
        if self.system is not None and not self.chat:
            raise ValueError("`system` needs `chat: true`; put the text into the template otherwise")
        return self


class ReferenceConfig(Record):
    """Where the reference answer stands.

    Attributes:
        column: the column that holds it; `a.b.0` reaches into nested ones.
        template: or a jinja2 template over the row.
        regex: of that text, the regex's only group where it first matches.
        last_box: of that text, the content of the last box of LaTeX (boxed or fbox).
    """

    model_config = ConfigDict(json_schema_extra=one_of("column", "template"))

    column: str | None = None
    template: str | None = None
    regex: str | None = None
    last_box: bool = False

    @field_validator("regex")
    @classmethod
    def _compiles(cls, regex: str | None) -> str | None:
        if regex is not None:
            try:
                groups = regex_library.compile(regex).groups
            except regex_library.error as error:
                raise ValueError(f"not a regular expression: {error}") from None
            if groups != 1:
                raise ValueError(f"the regex needs exactly one group, the reference; it has {groups}")
        return regex

    @field_validator("template")
    @classmethod
    def _parses(cls, template: str | None) -> str | None:
        return None if template is None else templates.checked(template)

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        text = "a reference needs either `column` or `template`"
        if self.column is None and self.template is None:
            raise ValueError(text)
        if self.column is not None and self.template is not None:
            raise Excluding(text, "column", "template")
        if self.regex is not None and self.last_box:
            raise Excluding("`regex` and `last_box` exclude each other", "regex", "last_box")
        return self


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
        min_p: keep the tokens at least this many times as likely as the likeliest (0: all).
        max_tokens: most tokens of a response, the end-of-sequence token included.
        stop: texts that end a response; they are cut off its text.
    """

    temperature: float = Field(1.0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(0, ge=0)
    min_p: float = Field(0.0, ge=0, le=1)
    max_tokens: int = Field(512, ge=1)
    stop: tuple[Annotated[str, Field(json_schema_extra={"minLength": 1})], ...] = ()

    @field_validator("stop")
    @classmethod
    def _not_empty(cls, stop: tuple[str, ...]) -> tuple[str, ...]:
        if not all(stop):
            raise ValueError("an empty text would end every response at once")
        return stop


class Described(Record):
    """What a YAML says of itself.

    Attributes:
        name: how a mixture, a report and a rollout refer to it.
        description, license, citation, version: of the task and its data.
        caveats: what one must know before trusting a figure: wrong references, leaks, contested texts.
    """

    name: Name
    description: str = ""
    version: str = "1"
    license: str = ""
    citation: str = ""
    caveats: str = ""


class TaskConfig(Described):
    """A task YAML.

    Attributes:
        dataset: where the rows are; or `generator`, which makes them.
        columns: new column name: column of the data, `a.b.0` for a nested one.
        id: a column whose value names each problem; by default the split and the row number do.
        prompt: what the model is asked.
        reference: the right answer; a task whose verifiers need none leaves it out.
        demonstration: template of a worked response, for supervised fine-tuning.
        metadata: columns kept with each problem: for verifiers that read them, and for breakdowns of a report.
        verifiers: who judges; the first one says what is right.
        sampling: how responses are sampled unless a run says otherwise.
    """

    model_config = ConfigDict(json_schema_extra=one_of("dataset", "generator"))

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
        return None if template is None else templates.checked(template)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        text = "a task needs either `dataset` or `generator`"
        if self.dataset is None and self.generator is None:
            raise ValueError(text)
        if self.dataset is not None and self.generator is not None:
            raise Excluding(text, "dataset", "generator")
        return self

    @model_validator(mode="after")
    def _examples_can_be_made(self) -> Self:
        few_shot = self.prompt.few_shot
        if few_shot is not None and few_shot.response is None and self.demonstration is None:
            raise ValueError("prompt.few_shot needs `response`, a template, where the task has no `demonstration`")
        if few_shot is not None and few_shot.rows and self.dataset is not None and self.dataset.streaming:
            raise ValueError("a data set that streams cannot draw prompt.few_shot.rows; give `examples` in place")
        return self


class PartConfig(Record):
    """One task of a mixture.

    Attributes:
        task: its name, or the path of its YAML.
        weight: its share of the training problems is its weight over the sum of weights.
        data_files: files in place of its own data, by split.
    """

    task: str
    weight: float = Field(1.0, gt=0)
    data_files: dict[Split, str | tuple[str, ...]] = Field({})


class MixtureConfig(Described):
    """The YAML of a mixture: training problems of several tasks by weight, held-out problems of all of them.

    Attributes:
        mixture: the tasks. Each judges its own problems with its own verifiers.
        sampling: of all of them alike; each task's own is not used.
    """

    mixture: tuple[PartConfig, ...] = Field(min_length=1)
    sampling: SamplingConfig = SamplingConfig()
