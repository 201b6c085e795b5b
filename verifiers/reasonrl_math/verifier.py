"""The verifier `math`: one answer is taken from the response, bounded, parsed and compared with the reference."""

from pydantic import Field

from reasonrl import Problem, Response, Verdict, Verifier, VerifierOptions
from reasonrl_math import equality, fallback
from reasonrl_math.bounds import too_large
from reasonrl_math.extract import Where, extract_answer, last_box
from reasonrl_math.near_miss import near_miss
from reasonrl_math.rewrite import as_word

SHOWN = 200  # characters of an answer quoted in the evidence


class MathOptions(VerifierOptions):
    """Options of `math`.

    Attributes:
        answer: where the answer may stand. "boxed": in the last box only. "phrases": without a box, also after
            "final answer is", "answer is", "answer:", "####" or in `<answer>`. "last_number": failing that, the last
            number of the response.
    """

    answer: Where = Field("phrases", description="where the answer may stand: boxed, phrases or last_number")


class Math(Verifier):
    """Reward 1 if the answer equals the reference mathematically, else 0.

    Raises:
        ValueError: the reference is absent, too large or cannot be parsed.
    """

    name = "math"
    Options = MathOptions
    requires = ("reference",)

    def verify(self, problem: Problem, response: Response) -> Verdict:
        """Reasons: correct, wrong, no_answer, too_large. Evidence: the extracted text and what was made of it."""
        reference = _unboxed(problem.reference or "")
        answer = extract_answer(response.text, self.options.answer, equality.parts(reference))
        if answer is None:
            return Verdict(0.0, "no_answer")
        bound = None if equality.same_text(reference, answer) else too_large(answer)
        if bound is not None:
            return Verdict(0.0, "too_large", evidence={"answer": answer[:SHOWN], "bound": bound})
        if fault := self.audit(problem):
            raise ValueError(fault)
        ruling = equality.judge(reference, answer)
        evidence = {"answer": answer[:SHOWN], "parsed": ruling.parsed, "rule": ruling.rule}
        return Verdict(float(ruling.right), "correct" if ruling.right else "wrong", evidence=evidence)

    def audit(self, problem: Problem) -> str | None:
        """A reference that is absent, too large or not parseable is a fault."""
        reference = _unboxed(problem.reference or "").strip()
        if not reference:
            return "the reference is empty"
        if bound := too_large(reference):
            return f"the reference {reference[:SHOWN]!r} is too large: {bound}"
        is_word = as_word(reference) is not None
        return None if is_word or equality.readable(reference) else f"cannot parse the reference {reference!r}"

    def right_response(self, problem: Problem) -> str | None:
        """The reference in a box."""
        return rf"\boxed{{{problem.reference}}}" if (problem.reference or "").strip() else None

    def wrong_response(self, problem: Problem) -> str | None:
        """Something near that is not the same mathematically, in a box."""
        return rf"\boxed{{{near_miss(problem.reference or '')}}}" if (problem.reference or "").strip() else None

    def warm_up(self) -> None:
        """Import math-verify and sympy, and build the parser's tables, by one parse."""
        equality.judge("1", "2")
        fallback.parse("1")


def _unboxed(reference: str) -> str:
    """A reference that is given in a box is what is in it."""
    return last_box(reference) or reference
