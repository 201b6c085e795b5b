"""A task's `verifiers:` entries → verifier classes with validated options, checked against the problems."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from reasonrl import plugins
from reasonrl.errors import ReasonRLError
from reasonrl.scoring.records import WeightedVerifier
from reasonrl.scoring.scorer import Scorer
from reasonrl.tasks import Mixture, Task, VerifierConfig
from reasonrl.types import Problem


def resolve(task: Task | Mixture) -> tuple[WeightedVerifier, ...]:
    """The verifiers of a task, in its order; in a mixture, those of one task after those of the other.

    Raises:
        ReasonRLError: no plugin offers a verifier of that name, or its options are wrong.
    """
    return tuple(weighted(entry, part.task) for part, _ in task.parts for entry in part.verifiers)


def weighted(entry: VerifierConfig, task: str = "") -> WeightedVerifier:
    """One entry under `verifiers:`, of a task of a mixture if `task` names one. Errors as of `resolve`."""
    source = plugins.installed().verifier(entry.name)
    options = plugins.installed().options(entry.name, entry.options)
    return WeightedVerifier(source.verifier, options, entry.weight, source.version, task)


def audit(scorer: Scorer, problems: Sequence[Problem], path: Path) -> None:
    """Can the verifiers read every reference? Else training would mask, or evaluation leave out, the problem.

    Raises:
        ReasonRLError: a reference is unusable; names the problem, its row, and how many others there are.
    """
    faults = scorer.audit(problems)
    if faults:
        (problem, fault), more = faults[0], len(faults) - 1
        others = f" ({more} more: `reasonrl tasks check` lists them)" if more else ""
        raise ReasonRLError(
            f"{path}: row {problem.row}: the reference of problem {problem.id} is unusable: {fault}{others}; correct "
            "it, or leave the row out with dataset.where"
        )


def check_problems(verifiers: Sequence[WeightedVerifier], problems: Iterable[Problem]) -> None:
    """Does every problem have what the verifiers read of it? Called before any model is loaded.

    Raises:
        ReasonRLError: a problem lacks its reference or a metadata column; names verifier, problem and cure.
    """
    for problem in problems:
        for weighted in (one for one in verifiers if one.task == problem.task):
            for field in weighted.verifier.requires:
                if field == "reference" and problem.reference is None:
                    raise ReasonRLError(
                        f"verifier {weighted.name!r} compares with a reference, and problem {problem.id} has none; "
                        "give the task a `reference`"
                    )
                if field != "reference" and field not in problem.metadata:
                    raise ReasonRLError(
                        f"verifier {weighted.name!r} reads the column {field!r}, which problem {problem.id} does not "
                        "have; name it under the task's `metadata`"
                    )
