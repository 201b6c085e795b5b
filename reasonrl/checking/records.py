"""What a check of a task finds: plain records, which `asdict` turns into the JSON of `reasonrl tasks check --json`."""

from dataclasses import astuple, dataclass, field

from reasonrl.generators import Split


@dataclass(frozen=True)
class Example:
    """One of the cases a finding counts.

    Attributes:
        row: its number in the data, from 0; None where it is no row.
        text: what is wrong with it.
    """

    row: int | None
    text: str


@dataclass(frozen=True)
class Finding:
    """One kind of thing found in one split.

    Attributes:
        task, split: where; the split is None where it is of the whole task.
        kind: one word for programs, a key of `reasonrl.checking.kinds.KINDS`.
        what: the same in words.
        count: how many cases there are.
        cure: what to do about it; empty where the examples say it.
        examples: the first few cases.
    """

    task: str
    split: Split | None
    kind: str
    what: str
    count: int
    cure: str
    examples: tuple[Example, ...]


@dataclass(frozen=True)
class Spread:
    """How long the prompts are: each number is the length of one of them."""

    min: int
    median: int
    p95: int
    max: int


@dataclass(frozen=True)
class Tried:
    """Responses that the judge itself made and then judged.

    Attributes:
        tried: how many there were.
        as_expected: the right ones it found right, the wrong ones it found wrong, or the cheats it gave no reward.
        unjudged: those it could not judge.
        not_tried: usable problems for which it makes no such response, or breaks making it.
    """

    tried: int = 0
    as_expected: int = 0
    unjudged: int = 0
    not_tried: int = 0

    def __add__(self, other: "Tried") -> "Tried":
        return Tried(*(mine + its for mine, its in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class Examined:
    """What the verifiers made of some problems: counts as of `SplitReport`, which are added up."""

    audited: int = 0
    usable: int = 0
    right: Tried = field(default_factory=Tried)
    wrong: Tried = field(default_factory=Tried)
    cheats: Tried = field(default_factory=Tried)

    def __add__(self, other: "Examined") -> "Examined":
        return Examined(
            self.audited + other.audited,
            self.usable + other.usable,
            self.right + other.right,
            self.wrong + other.wrong,
            self.cheats + other.cheats,
        )


@dataclass(frozen=True)
class SplitReport:
    """The figures of one split of one task.

    Attributes:
        task, split: which.
        rows: how many were read.
        problems: how many of them became a problem.
        audited: problems whose reference the verifiers looked at.
        usable: those of them that every verifier can use.
        right, wrong: responses made right, and made wrong.
        cheats: responses that try to be rewarded without solving anything, of the first problems; as expected if the
            judge gives them nothing.
        characters, tokens: lengths of the prompts; None without prompts, or without a model.
        beyond_context: prompts that with the longest response do not fit the model; None if its context is not known.
        duplicates: problems whose text stands in an earlier row of the split.
        in_training: held-out problems that are in a training split, too; None where that is not known, for there is no
            training split to compare with, or one could not be read.
        seconds: what the check of the split took.
    """

    task: str
    split: Split
    rows: int
    problems: int
    audited: int
    usable: int
    right: Tried
    wrong: Tried
    cheats: Tried
    characters: Spread | None
    tokens: Spread | None
    beyond_context: int | None
    duplicates: int
    in_training: int | None
    seconds: float


@dataclass(frozen=True)
class CheckReport:
    """All that a check of a task found.

    Attributes:
        task, path: which task, and its YAML.
        model: whose tokenizer counted the tokens; None without one.
        max_positions: the model's context in tokens, if known.
        max_tokens: most tokens of a response, of the task's sampling.
        passed: is there no fault?
        splits: figures by task and split.
        faults: what makes the task unfit for use.
        warnings: what one should know.
        seconds: what the check took.
    """

    task: str
    path: str
    model: str | None
    max_positions: int | None
    max_tokens: int
    passed: bool
    splits: tuple[SplitReport, ...]
    faults: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    seconds: float
