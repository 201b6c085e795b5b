"""exact: the answer equals the reference as text."""

from pydantic import Field

from reasonrl import Problem, Response, Verdict, Verifier, VerifierOptions
from reasonrl_rules.answer import after_thinking, answer_after, with_marker


class ExactOptions(VerifierOptions):
    """Options of `exact`.

    Attributes:
        answer: the answer is the rest of the line after the last occurrence of this text, such as "####" or ":".
            Empty: the whole response after its thinking is the answer.
        ignore_case: whether "Paris" equals "paris".
    """

    answer: str = Field("", description="text after which the answer stands; empty: the whole response")
    ignore_case: bool = Field(False, description="compare without regard to case")


class Exact(Verifier):
    """Reward 1 if the answer and the reference are the same text, runs of white space read as one space; else 0.

    Raises:
        ValueError: the problem has no reference, or an empty one.
    """

    name = "exact"
    Options = ExactOptions
    isolation = "inline"
    requires = ("reference",)

    def verify(self, problem: Problem, response: Response) -> Verdict:
        """Reasons: correct, wrong, no_answer. Evidence: the extracted answer."""
        if fault := self.audit(problem):
            raise ValueError(fault)
        marker = self.options.answer
        answer = answer_after(response.text, marker) if marker else after_thinking(response.text)
        if answer is None or not answer.strip():
            return Verdict(0.0, "no_answer")
        evidence = {"answer": answer.strip()}
        if self._normal(answer) == self._normal(problem.reference or ""):
            return Verdict(1.0, "correct", evidence=evidence)
        return Verdict(0.0, "wrong", evidence=evidence)

    def audit(self, problem: Problem) -> str | None:
        """An absent or empty reference is a fault."""
        return None if (problem.reference or "").strip() else "the reference is empty"

    def right_response(self, problem: Problem) -> str | None:
        """The reference, after the marker if there is one."""
        return None if self.audit(problem) else with_marker(problem.reference or "", self.options.answer)

    def wrong_response(self, problem: Problem) -> str | None:
        """The reference and one letter more."""
        right = self.right_response(problem)
        return None if right is None else f"{right.rstrip()}x"

    def _normal(self, text: str) -> str:
        text = " ".join(text.split())
        return text.casefold() if self.options.ignore_case else text
