"""A task's `verifiers:` entries → verifier classes with validated options, checked against the problems."""

from collections.abc import Sequence

from reasonrl import plugins
from reasonrl.errors import ReasonRLError
from reasonrl.scoring.records import WeightedVerifier
from reasonrl.tasks import VerifierConfig
from reasonrl.types import Problem


def resolve(entries: Sequence[VerifierConfig]) -> tuple[WeightedVerifier, ...]:
    """The verifiers of a task, in its order.

    Raises:
        ReasonRLError: no plugin offers a verifier of that name, or its options are wrong.
    """
    installed = plugins.installed()
    return tuple(
        WeightedVerifier(
            verifier=installed.verifier(entry.name).verifier,
            options=installed.options(entry.name, entry.options),
            weight=entry.weight,
            version=installed.verifier(entry.name).version,
        )
        for entry in entries
    )


def check_problems(verifiers: Sequence[WeightedVerifier], problems: Sequence[Problem]) -> None:
    """Does every problem have what the verifiers read of it? Called before any model is loaded.

    Raises:
        ReasonRLError: a problem lacks its reference or a metadata column; names verifier, problem and cure.
    """
    for weighted in verifiers:
        for field in weighted.verifier.requires:
            for problem in problems:
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
