"""What a preflight finds: plain records, which `asdict` turns into the JSON of `reasonrl check --json`."""

from dataclasses import dataclass

from reasonrl.checking import CheckReport, Spread


@dataclass(frozen=True)
class Finding:
    """Something found in a run that is not trained yet.

    Attributes:
        section: of the report: task, prompts, engine, verifiers, disk or memory.
        fault: would the run fail of it, or is it only to be known?
        what: in words.
        cure: what to do about it; empty where `what` says it.
    """

    section: str
    fault: bool
    what: str
    cure: str = ""


@dataclass(frozen=True)
class Prompts:
    """The lengths of one split's prompts against the limits, of the rows looked at.

    Attributes:
        split: "train" or "eval".
        prompts: how many were rendered.
        tokens: their lengths; None if there are none.
        left_out: longer than task.max_prompt_tokens, which training leaves out.
        beyond_context: of the others, those that do not fit the model together with the longest response.
    """

    split: str
    prompts: int
    tokens: Spread | None
    left_out: int
    beyond_context: int


@dataclass(frozen=True)
class Lengths:
    """All prompts and the limits they have.

    Attributes:
        splits: by split.
        max_prompt_tokens: of the run; None if it sets none.
        max_tokens: most tokens of a response.
        max_positions: the model's longest sequence; None if it sets no limit.
    """

    splits: tuple[Prompts, ...]
    max_prompt_tokens: int | None
    max_tokens: int
    max_positions: int | None

    @property
    def longest_prompt(self) -> int:
        """Tokens of the longest prompt that is used."""
        found = max((one.tokens.max for one in self.splits if one.tokens is not None), default=1)
        return found if self.max_prompt_tokens is None else min(found, self.max_prompt_tokens)


@dataclass(frozen=True)
class Data:
    """How much there is to train and to evaluate on.

    Attributes:
        training: training problems; None where they stream.
        held_out: those of evaluations.
        demonstrations, pairs: where the run learns from such; else 0.
    """

    training: int | None
    held_out: int
    demonstrations: int = 0
    pairs: int = 0


@dataclass(frozen=True)
class Engine:
    """Which engine samples, why, and of what size the model is.

    Attributes:
        name: "huggingface" or "vllm".
        why: in words.
        parameters: of the model.
        trained: those that are trained.
    """

    name: str
    why: str
    parameters: int
    trained: int


@dataclass(frozen=True)
class Tried:
    """One thing a verifier needs of the machine, as of `Verifier.diagnose`."""

    verifier: str
    part: str
    promise: str
    holds: bool
    needed: bool
    seen: str


@dataclass(frozen=True)
class Disk:
    """What a run writes at most, in bytes, and what is free.

    Attributes:
        folder: where.
        checkpoints: so many as there are at once, with the one being written.
        final: the trained model.
        rollouts: responses of training and of evaluations.
        free: what the folder's disk has left.
    """

    folder: str
    checkpoints: int
    final: int
    rollouts: int
    free: int

    @property
    def needed(self) -> int:
        """All of it."""
        return self.checkpoints + self.final + self.rollouts


@dataclass(frozen=True)
class Phase:
    """What one phase of a run holds in memory at its peak.

    Attributes:
        name: of the phase.
        parts: bytes by what they are.
        beside: is it a process of its own, beside that of training?
    """

    name: str
    parts: dict[str, int]
    beside: bool = False

    @property
    def total(self) -> int:
        """Bytes in all."""
        return sum(self.parts.values())

    @property
    def dominating(self) -> str:
        """The largest part."""
        return max(self.parts, key=self.parts.__getitem__)


@dataclass(frozen=True)
class Memory:
    """The memory of a run, estimated for each process.

    Attributes:
        device: "cpu", or the name of the GPU.
        process: bytes of the interpreter and its libraries before anything is loaded; 0 on a GPU.
        phases: what comes on top in each.
        free: bytes that the device has left.
    """

    device: str
    process: int
    phases: tuple[Phase, ...]
    free: int

    @property
    def largest(self) -> Phase:
        """The phase of training that holds most."""
        return max((one for one in self.phases if not one.beside), key=lambda one: one.total)

    @property
    def peak(self) -> int:
        """Bytes of the training process when it holds most."""
        return self.process + self.largest.total

    @property
    def needed(self) -> int:
        """Bytes with what runs beside it."""
        return self.peak + sum(one.total for one in self.phases if one.beside)


@dataclass(frozen=True)
class Preflight:
    """All that a preflight found.

    Attributes:
        config: the run, as it was given.
        task: its task.
        passed: is there no fault?
        findings: faults first.
        check: of the task's rows, as of `reasonrl tasks check`.
        lengths: of its prompts.
        engine, verifiers, disk, memory: of this machine.
        batch: the batch arithmetic, in words.
        objective: the sections of `reasonrl explain`, by title.
        seconds: what it took.
    """

    config: str
    task: str
    passed: bool
    findings: tuple[Finding, ...]
    check: CheckReport
    lengths: Lengths
    engine: Engine
    verifiers: tuple[Tried, ...]
    disk: Disk
    memory: Memory
    batch: tuple[str, ...]
    objective: dict[str, tuple[str, ...]]
    seconds: float
