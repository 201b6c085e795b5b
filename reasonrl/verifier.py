"""Verifier and Verdict: the one interface a plugin implements."""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from reasonrl.types import Problem, Response


def perturbed(text: str) -> str:
    """Text that says something else: the last digit of its first whole number changed, or an "x" behind it."""
    changed = re.sub(r"[0-9](?![0-9])", lambda found: str((int(found[0]) + 1) % 10), text, count=1)
    return text + "x" if changed == text else changed


class VerifierOptions(BaseModel):
    """Base of a verifier's options: unknown keys are an error, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class StepReward:
    """The reward of one step: characters [start, end) of the response text."""

    start: int
    end: int
    reward: float

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"a step must have 0 <= start <= end, not [{self.start}, {self.end})")
        if not math.isfinite(self.reward):
            raise ValueError(f"a step reward must be finite, not {self.reward}")


@dataclass(frozen=True)
class Verdict:
    """What a verifier says of one response.

    Attributes:
        reward: a finite number, or None when the response could not be judged. None is never treated as 0: the
            response is masked out of training and counted.
        reason: "correct", "wrong", "no_answer", "timeout", "error", …: one word, counted in the metrics.
        steps: process supervision: the reward of each step.
        evidence: what the verdict rests on (the extracted answer, the failing test, …), shown in reports.

    Raises:
        ValueError: the reward is NaN or infinite, or the reason is empty.
    """

    reward: float | None
    reason: str
    steps: tuple[StepReward, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.reward is not None and not math.isfinite(self.reward):
            raise ValueError(f"a reward must be finite or None (could not be judged), not {self.reward}")
        if not self.reason:
            raise ValueError("a verdict needs a reason")


@dataclass(frozen=True)
class Diagnosis:
    """One thing a verifier needs of the machine, tried; `reasonrl verifiers doctor` lists them.

    Attributes:
        part: what was tried, such as a tier of a sandbox; empty for the conclusion.
        promise: what should hold.
        holds: whether it does.
        needed: the part, or the verifier where it is the conclusion, is of no use without it.
        seen: what was seen where it does not hold, and what to do about it.
    """

    part: str
    promise: str
    holds: bool
    needed: bool = True
    seen: str = ""


class Verifier(ABC):
    """Judges responses. Subclass it, return the class from the `reasonrl_verifiers` hook, name it in a task YAML.

    Class attributes:
        name: how a task YAML refers to it.
        Options: its keys under `options:` in the task YAML; unknown keys are rejected.
        isolation: "process" runs each check in a killable worker process under a deadline; "inline" runs the whole
            batch in the training process, for checks that cannot hang and for models.
        requires: what it reads of a problem: "reference" or names of metadata columns. Checked before any model loads.
        supervises: "outcome" if it rewards the response, "process" if it rewards its steps too.
    """

    name: ClassVar[str]
    Options: ClassVar[type[BaseModel]] = VerifierOptions
    isolation: ClassVar[Literal["process", "inline"]] = "process"
    requires: ClassVar[tuple[str, ...]] = ()
    supervises: ClassVar[tuple[Literal["outcome", "process"], ...]] = ("outcome",)

    def __init__(self, options: BaseModel | None = None) -> None:
        self.options: Any = self.Options() if options is None else options

    @classmethod
    def check_seconds(cls, options: Any) -> float:
        """Seconds that one check with these options may rightly take; a shorter deadline of the scorer is raised to it.

        0, the default, leaves the deadline as it is configured.
        """
        return 0.0

    @abstractmethod
    def verify(self, problem: Problem, response: Response) -> Verdict:
        """Judge one response. The text is data: never evaluate it. An exception means "could not be judged"."""

    def verify_batch(self, pairs: Sequence[tuple[Problem, Response]]) -> list[Verdict]:
        """Judge several responses, one verdict each, in order. Verifiers that run a model override this."""
        return [self.verify(problem, response) for problem, response in pairs]

    def audit(self, problem: Problem) -> str | None:
        """Is the reference itself usable? None if so, else what is wrong with it."""
        return None

    def right_response(self, problem: Problem) -> str | None:
        """A response this verifier must find right; None if it cannot make one. `reasonrl tasks check` tries it."""
        return problem.reference

    def wrong_response(self, problem: Problem) -> str | None:
        """A response near the right one that must not be found right; None if there is none to make."""
        right = self.right_response(problem)
        return None if right is None else perturbed(right)

    def cheats(self, problem: Problem) -> list[str]:
        """Responses that try to be rewarded without solving the problem; `reasonrl tasks check` sees that none is."""
        return []

    def warm_up(self) -> None:  # noqa: B027  (nothing to do is a fine default)
        """Import what `verify` needs; called once per worker before its first check, outside the deadline."""

    @classmethod
    def diagnose(cls) -> list[Diagnosis]:
        """Try what this verifier needs of the machine besides Python packages; nothing by default."""
        return []
