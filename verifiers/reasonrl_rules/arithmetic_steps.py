"""arithmetic_steps: the equations of a worked solution, each checked, and its final answer."""

from pydantic import Field

from reasonrl import Problem, Response, StepReward, Verdict, Verifier, VerifierOptions
from reasonrl_rules.answer import answer_after, marker_at, with_marker
from reasonrl_rules.equations import find_equations
from reasonrl_rules.expressions import read_number

SHOWN = 5  # false equations quoted in the evidence
SHOWN_CHARACTERS = 80  # of each


class ArithmeticStepsOptions(VerifierOptions):
    """Options of `arithmetic_steps`.

    Attributes:
        answer: the final answer stands after the last occurrence of this text; equations are looked for before it.
        thousands: whether "1,234" is one number (if not, it is two).
    """

    answer: str = Field("####", min_length=1, description="text after which the final answer stands")
    thousands: bool = Field(True, description='read "1,234" as one number')


class ArithmeticSteps(Verifier):
    """Rewards each equation of the solution (1 true, 0 false) and the response (1 if the final answer is right).

    An equation is `a op b = c` or a longer chain with + - * / × ÷ · and parentheses, integers and decimals, compared
    exactly: 10/3 = 3.33 is false. GSM8K's calculator annotations `<<48/2=24>>` are equations too. One step per
    equation, at its characters.

    Raises:
        ValueError: the reference is not a number.
    """

    name = "arithmetic_steps"
    Options = ArithmeticStepsOptions
    requires = ("reference",)
    supervises = ("outcome", "process")

    def verify(self, problem: Problem, response: Response) -> Verdict:
        """Reasons: correct, wrong, no_answer. Evidence: the final answer and the first false equations."""
        reference = read_number(problem.reference or "")
        if reference is None:
            raise ValueError(self.audit(problem))
        text, marker, thousands = response.text, self.options.answer, self.options.thousands
        at = marker_at(text, marker)
        equations = find_equations(text if at < 0 else text[:at], thousands)
        steps = tuple(StepReward(e.start, e.end, float(e.holds)) for e in equations)
        false = [text[e.start : e.end][:SHOWN_CHARACTERS] for e in equations if not e.holds][:SHOWN]
        answer = answer_after(text, marker)
        evidence = {"answer": answer, "false_equations": false}
        if answer is None or not any(character.isdigit() for character in answer):
            return Verdict(0.0, "no_answer", steps, evidence)
        if read_number(answer, thousands) == reference:
            return Verdict(1.0, "correct", steps, evidence)
        return Verdict(0.0, "wrong", steps, evidence)

    def audit(self, problem: Problem) -> str | None:
        """A reference that is not an integer or decimal is a fault."""
        if read_number(problem.reference or "") is not None:
            return None
        return f"the reference {problem.reference!r} is not a number"

    def right_response(self, problem: Problem) -> str | None:
        """The reference after the marker; without the commas that only `thousands` lets one write."""
        number = (problem.reference or "").strip().replace(",", "")
        return with_marker(number, self.options.answer) if number else None

    def wrong_response(self, problem: Problem) -> str | None:
        """The same with one digit more, which changes the value of every integer and decimal."""
        right = self.right_response(problem)
        return None if right is None else f"{right}1"
