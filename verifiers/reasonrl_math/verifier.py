"""The verifier `math`: one answer is taken from the response, bounded, parsed and compared with the reference."""

from pydantic import Field

from reasonrl import Problem, Response, Verdict, VerifierOptions
from reasonrl_math import equality, fallback
from reasonrl_math.bounds import too_large
from reasonrl_math.boxed import Boxed, unboxed
from reasonrl_math.equality import Decimals, Expect, Percent, Policy, Units
from reasonrl_math.extract import Where, extract_answer

SHOWN = 200  # characters of an answer quoted in the evidence


class MathOptions(VerifierOptions):
    """Options of `math`.

    Attributes:
        answer: where the answer may stand. "boxed": in the last box only. "phrases": without a box, also after
            "final answer is", "answer is", "answer:", "####" or in `<answer>`. "last_number": failing that, the last
            formula of the last paragraph, or its last number.
        expect: the kind of answer. "any"; "number": one number, a reference that is none is a fault; "choice": one
            letter; "words": the texts are compared, their case apart.
        decimals: "exact": a decimal equals a fraction only exactly. "rounded": a decimal of at least 4 significant
            digits also equals a reference that it rounds correctly and that no decimal equals.
        percent: "exact": n% is n/100. "bare": a reference in percent also equals its number without the sign.
        units: "optional": a unit may be left out. "required": it may not if the reference has one.
    """

    answer: Where = Field("phrases", description="where the answer may stand: boxed, phrases or last_number")
    expect: Expect = Field("any", description="kind of answer: any, number, choice or words")
    decimals: Decimals = Field("exact", description="exact, or rounded: a correct rounding at 4 digits or more counts")
    percent: Percent = Field("exact", description="exact, or bare: a reference of 60% also equals 60")
    units: Units = Field("optional", description="optional, or required: a unit of the reference must be given")


class Math(Boxed):
    """Reward 1 if the answer equals the reference mathematically, else 0.

    Raises:
        ValueError: the reference is absent, too large or cannot be graded.
    """

    name = "math"
    Options = MathOptions

    def verify(self, problem: Problem, response: Response) -> Verdict:
        """Reasons: correct, wrong, no_answer, too_large. Evidence: the extracted text, its parsed form, the rule."""
        reference = unboxed(problem.reference or "")
        answer = extract_answer(response.text, self.options.answer, equality.parts(reference))
        if answer is None:
            return Verdict(0.0, "no_answer")
        bound = None if equality.same_text(reference, answer) else too_large(answer)
        if bound is not None:
            return Verdict(0.0, "too_large", evidence={"answer": answer[:SHOWN], "bound": bound})
        if fault := self.audit(problem):
            raise ValueError(fault)
        ruling = equality.judge(reference, answer, self._policy())
        evidence = {"answer": answer[:SHOWN], "parsed": ruling.parsed, "rule": ruling.rule}
        return Verdict(float(ruling.right), "correct" if ruling.right else "wrong", evidence=evidence)

    def audit(self, problem: Problem) -> str | None:
        """A reference that is absent, too large, not parseable or of another kind than expected is a fault."""
        reference = unboxed(problem.reference or "").strip()
        if not reference:
            return "the reference is empty"
        if bound := too_large(reference):
            return f"the reference {reference[:SHOWN]!r} is too large: {bound}"
        fault = equality.fault(reference, self._policy())
        return None if fault is None else f"the reference {reference[:SHOWN]!r} {fault}"

    def warm_up(self) -> None:
        """Import mpmath, math-verify and sympy, and build the parsers' tables, by one comparison each."""
        equality.judge(r"\sqrt{2}", r"2^{1/2}")
        fallback.equal("1", "2")

    def _policy(self) -> Policy:
        chosen: MathOptions = self.options
        return Policy(chosen.decimals, chosen.percent, chosen.units, chosen.expect)
