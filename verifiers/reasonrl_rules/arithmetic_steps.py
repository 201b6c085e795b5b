"""arithmetic_steps: the equations of a worked solution, each checked, and its final answer."""

from collections.abc import Sequence

from pydantic import Field

from reasonrl import Problem, Response, StepReward, Verdict, Verifier, VerifierOptions
from reasonrl_rules.answer import answer_after, marker_at, with_marker
from reasonrl_rules.equations import Equation, find_equations
from reasonrl_rules.expressions import read_number

SHOWN = 5  # false equations quoted in the evidence
SHOWN_CHARACTERS = 80  # of each, and of a worked solution in a message


class ArithmeticStepsOptions(VerifierOptions):
    """Options of `arithmetic_steps`.

    Attributes:
        answer: the final answer stands after the last occurrence of this text; equations are looked for before it.
        thousands: whether "1,234" is one number (if not, it is two).
        solution: the metadata column that holds a worked solution; None to do without.
    """

    answer: str = Field("####", min_length=1, description="text after which the final answer stands")
    thousands: bool = Field(True, description='read "1,234" as one number')
    solution: str | None = Field(
        None,
        min_length=1,
        description="metadata column of a worked solution; an equation is then rewarded only if it is true and stands "
        "there at the same place",
    )


class ArithmeticSteps(Verifier):
    """Rewards each equation of the response (1 true, 0 false) and the response (1 if the final answer is right).

    An equation is `a op b = c` or a longer chain with + - * / × ÷ · and parentheses, integers and decimals, compared
    exactly: 10/3 = 3.33 is false. GSM8K's calculator annotations `<<48/2=24>>` are equations too. One step per
    equation, at its characters.

    That an equation is true does not make it a step forward: `1+1=2` always is, and so is `4+8+0=12` where a carry was
    forgotten. With `solution`, the j-th equation must also be the j-th of the worked solution, the same numbers and
    signs on both sides; spaces, thousands separators and the way to write a sign do not matter. One that is left out
    or put in moves all after it out of place. The response's reward does not depend on it.

    Raises:
        ValueError: the reference is not a number, or the worked solution is absent, without equation or false.
    """

    name = "arithmetic_steps"
    Options = ArithmeticStepsOptions
    requires = ("reference",)
    supervises = ("outcome", "process")

    def verify(self, problem: Problem, response: Response) -> Verdict:
        """Reasons: correct, wrong, no_answer. Evidence: the final answer and the first false equations."""
        if fault := self.audit(problem):
            raise ValueError(fault)
        text, equations = response.text, self._equations(response.text)
        false = [text[e.start : e.end][:SHOWN_CHARACTERS] for e in equations if not e.holds][:SHOWN]
        steps = self._steps(problem, equations)
        answer = answer_after(text, self.options.answer)
        evidence = {"answer": answer, "false_equations": false}
        if answer is None or not any(character.isdigit() for character in answer):
            return Verdict(0.0, "no_answer", steps, evidence)
        if read_number(answer, self.options.thousands) == read_number(problem.reference or ""):
            return Verdict(1.0, "correct", steps, evidence)
        return Verdict(0.0, "wrong", steps, evidence)

    def audit(self, problem: Problem) -> str | None:
        """A reference that is not an integer or decimal is a fault, as is a worked solution that cannot be followed."""
        if read_number(problem.reference or "") is None:
            return f"the reference {problem.reference!r} is not a number"
        column = self.options.solution
        if column is None:
            return None
        solution = problem.metadata.get(column)
        if not isinstance(solution, str):
            what = (
                f"holds {repr(solution)[:SHOWN_CHARACTERS]}"
                if column in problem.metadata
                else "is not among the task's `metadata`"
            )
            return f"the column {column!r} should hold a worked solution and {what}"
        equations = self._equations(solution)
        if not equations:
            return f"the worked solution {solution[:SHOWN_CHARACTERS]!r} has no equation"
        false = [solution[e.start : e.end][:SHOWN_CHARACTERS] for e in equations if not e.holds]
        return f"the worked solution says {false[0]!r}, which is false" if false else None

    def right_response(self, problem: Problem) -> str | None:
        """The reference after the marker; without the commas that only `thousands` lets one write."""
        number = (problem.reference or "").strip().replace(",", "")
        return with_marker(number, self.options.answer) if number else None

    def wrong_response(self, problem: Problem) -> str | None:
        """The same with one digit more, which changes the value of every integer and decimal."""
        right = self.right_response(problem)
        return None if right is None else f"{right}1"

    def _equations(self, text: str) -> list[Equation]:
        """Those before the final answer."""
        at = marker_at(text, self.options.answer)
        return find_equations(text if at < 0 else text[:at], self.options.thousands)

    def _steps(self, problem: Problem, equations: Sequence[Equation]) -> tuple[StepReward, ...]:
        column = self.options.solution
        if column is None:
            return tuple(StepReward(e.start, e.end, float(e.holds)) for e in equations)
        worked = [equation.form for equation in self._equations(problem.metadata[column])]  # true: the audit says so
        right = [at < len(worked) and equation.form == worked[at] for at, equation in enumerate(equations)]
        return tuple(StepReward(e.start, e.end, float(one)) for e, one in zip(equations, right, strict=True))
