"""The generator `labelled_chains`: worked solutions whose first wrong step is known, in the fields of ProcessBench."""

import random
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import Field, model_validator

from reasonrl.generators.chains import ChainsOptions, Step, WordProblem, apply, word_problems
from reasonrl.generators.drawing import Row, Split
from reasonrl.generators.stories import Operation

Slip = Literal["wrong_result", "dropped_operand", "wrong_operation"]
SLIPS: tuple[Slip, ...] = ("wrong_result", "dropped_operand", "wrong_operation")
OFFSETS = (-10, -2, -1, 1, 2, 10)  # of a wrong result


class LabelledChainsOptions(ChainsOptions):
    """Solutions of the problems of `chains`, some of them with a slip that later steps build on.

    A wrong step may go beyond `largest`.

    Attributes:
        right: share of the solutions without a slip.
        lucky: share of the others whose slip is made good by a second one, so that the final answer is right; such a
            solution needs two steps.
    """

    right: float = Field(0.4, ge=0, le=1)
    lucky: float = Field(0.1, ge=0, le=1)

    @model_validator(mode="after")
    def _two_slips_need_two_steps(self) -> Self:
        if self.lucky and self.right < 1 and self.max_steps < 2:
            raise ValueError(f"lucky {self.lucky} needs max_steps of at least 2, not {self.max_steps}")
        return self


@dataclass(frozen=True)
class _Written:
    """A step as it is written down: `text` such as "12 + 5 = 18", and the number the next step goes on with."""

    text: str
    result: int


def rows(split: Split, seed: int, options: LabelledChainsOptions) -> list[Row]:
    """Rows {id, generator, problem, steps, final_answer_correct, label, slip}.

    `label` is the index of the first wrong step, −1 if all are right; the last step states the answer in a box.
    `final_answer_correct` may be true of a solution with a wrong step. `slip` is what went wrong first, or "none".
    The fields are those of ProcessBench (Zheng et al. 2024, arXiv 2412.06559). A problem is on the side of the split
    on which `chains` has it.

    Raises:
        ReasonRLError: the options do not allow so many different problems.
    """
    draw = random.Random(f"slips {split} {seed}")  # apart from the problems, which are those of `chains`
    return [_row(problem, options, draw) for problem in word_problems(split, seed, options)]


def _row(problem: WordProblem, options: LabelledChainsOptions, draw: random.Random) -> Row:
    label, slip = -1, "none"
    written = [_carried_out(step) for step in problem.steps]
    if draw.random() >= options.right:
        label, slip, written = _with_slip(problem.steps, draw)
        if label < len(written) - 1 and draw.random() < options.lucky:
            written = _made_good(problem.steps, written, draw.randrange(label + 1, len(written)))
    lines = [f"{lead} {one.text} {problem.things}." for lead, one in zip(problem.leads, written, strict=True)]
    answer = written[-1].result
    return {
        "id": f"{problem.chain} {slip} {label}",
        "generator": "labelled_chains",
        "problem": problem.question,
        "steps": [*lines, rf"The answer is \boxed{{{answer}}}."],
        "final_answer_correct": answer == problem.steps[-1].result,
        "label": label,
        "slip": slip,
    }


def _with_slip(steps: tuple[Step, ...], draw: random.Random) -> tuple[int, Slip, list[_Written]]:
    """The solution with one slip, in the first place and of the first kind drawn that later steps can build on."""
    places = [(index, slip) for index in range(len(steps)) for slip in SLIPS]
    draw.shuffle(places)
    for index, slip in places:
        slipped = _slipped(steps[index], slip)
        draw.shuffle(slipped)
        for wrong in slipped:
            later = _continued(wrong.result, steps[index + 1 :])
            if later is not None:
                right = [_carried_out(step) for step in steps[:index]]
                return index, slip, [*right, wrong, *later]
    raise AssertionError("the last step can always be off by one")


def _slipped(step: Step, slip: Slip) -> list[_Written]:
    """Ways to get this step wrong."""
    if slip == "dropped_operand":
        return [_Written(str(step.before), step.before)]  # a step always changes its number
    if slip == "wrong_result":
        left = _spaced(step.before, step.operation, step.operand)
        results = [step.result + offset for offset in OFFSETS if step.result + offset >= 0]
        return [_Written(f"{left} = {result}", result) for result in results]
    others: list[Operation] = [other for other in ("+", "-", "*", "/") if other != step.operation]
    swapped = [_computed(step.before, other, step.operand) for other in others]
    return [one for one in swapped if one is not None and one.result != step.result]


def _continued(value: int, steps: tuple[Step, ...]) -> list[_Written] | None:
    """The later steps carried out rightly from a wrong number; None if a result is negative or not whole."""
    written: list[_Written] = []
    for step in steps:
        one = _computed(value, step.operation, step.operand)
        if one is None:
            return None
        written.append(one)
        value = one.result
    return written


def _made_good(steps: tuple[Step, ...], written: list[_Written], at: int) -> list[_Written]:
    """The solution with a second slip, at a later step, onto the right number."""
    left = _spaced(written[at - 1].result, steps[at].operation, steps[at].operand)
    right = _continued(steps[at].result, steps[at + 1 :]) or []
    return [*written[:at], _Written(f"{left} = {steps[at].result}", steps[at].result), *right]


def _carried_out(step: Step) -> _Written:
    return _Written(f"{_spaced(step.before, step.operation, step.operand)} = {step.result}", step.result)


def _computed(value: int, operation: Operation, operand: int) -> _Written | None:
    if (operation == "-" and value < operand) or (operation == "/" and value % operand):
        return None
    result = apply(value, operation, operand)
    return _Written(f"{_spaced(value, operation, operand)} = {result}", result)


def _spaced(value: int, operation: Operation, operand: int) -> str:
    return f"{value} {operation} {operand}"
