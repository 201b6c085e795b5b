"""What goes into scoring and what comes out: a task's verifiers with weights, and the verdicts of one response."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from reasonrl.verifier import Verdict, Verifier


@dataclass(frozen=True)
class WeightedVerifier:
    """One entry under `verifiers:` of a task, resolved.

    Attributes:
        verifier: the class a plugin offers under the entry's name.
        options: its validated options.
        weight: the factor of its reward in the sum; 0 for a verifier that is only reported.
        version: of the distribution it comes from; stored with each verdict.
        task: in a mixture, the task whose problems it judges; else empty.
    """

    verifier: type[Verifier]
    options: BaseModel
    weight: float
    version: str
    task: str = ""

    @property
    def name(self) -> str:
        """How the task YAML refers to it."""
        return self.verifier.name


@dataclass(frozen=True)
class Scored:
    """What the verifiers say of one response.

    Attributes:
        verifiers: of the problem's task, in its order.
        verdicts: one of each.
        reward: the sum of weight × reward; None (masked, never 0) if a verdict with non-zero weight is unjudged.
        correct: does the judge, the first verifier, give at least 1? None if it could not judge.
        decisive: which verdict gives `reason`: the first unjudged one that carries weight, else the judge's.
    """

    verifiers: tuple[WeightedVerifier, ...]
    verdicts: tuple[Verdict, ...]
    reward: float | None
    correct: bool | None
    decisive: int = 0

    @property
    def decisive_verifier(self) -> str:
        """The name of the verifier that gives `reason`."""
        return self.verifiers[self.decisive].name

    @property
    def reason(self) -> str:
        """The one word to count this response under."""
        return self.verdicts[self.decisive].reason


def weigh(verifiers: Sequence[WeightedVerifier], verdicts: Sequence[Verdict]) -> Scored:
    """The verdicts of one response → its reward and correctness."""
    judge = verdicts[0].reward
    correct = None if judge is None else judge >= 1.0
    reward = 0.0
    for index, (weighted, verdict) in enumerate(zip(verifiers, verdicts, strict=True)):
        if weighted.weight == 0:
            continue
        if verdict.reward is None:
            return Scored(tuple(verifiers), tuple(verdicts), reward=None, correct=correct, decisive=index)
        reward += weighted.weight * verdict.reward
    return Scored(tuple(verifiers), tuple(verdicts), reward=reward, correct=correct)
