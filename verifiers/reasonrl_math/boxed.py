"""What verifiers share whose answers stand in a box: the reference without its box, a right and a wrong response."""

from reasonrl import Problem, Verifier
from reasonrl_math.extract import last_box
from reasonrl_math.near_miss import near_miss


def unboxed(reference: str) -> str:
    """A reference that is given in a box is what is in it."""
    return last_box(reference) or reference


class Boxed(Verifier):
    """Finds right what has the reference in a box."""

    requires = ("reference",)

    def right_response(self, problem: Problem) -> str | None:
        """The reference in a box."""
        return rf"\boxed{{{problem.reference}}}" if (problem.reference or "").strip() else None

    def wrong_response(self, problem: Problem) -> str | None:
        """Something near that is not the same mathematically, in a box."""
        return rf"\boxed{{{near_miss(problem.reference or '')}}}" if (problem.reference or "").strip() else None
