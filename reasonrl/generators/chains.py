"""The generator `chains`: word problems whose solution is a chain of arithmetic, in the fields of GSM8K."""

import random
from dataclasses import dataclass

from pydantic import Field

from reasonrl.generators.drawing import DrawnOptions, Row, Split, draw_distinct
from reasonrl.generators.stories import LEADS, NAMES, STORIES, Operation

LARGEST_FACTOR = 12  # what a story multiplies or divides by


class ChainsOptions(DrawnOptions):
    """Word problems of several steps, each an addition, subtraction, multiplication or exact division.

    Attributes:
        min_steps: fewest steps of a problem.
        max_steps: most steps of a problem.
        largest: the largest number in a problem or its solution; all are whole and at least 2.
    """

    min_steps: int = Field(2, ge=1)
    max_steps: int = Field(5, le=20)
    largest: int = Field(100, ge=10, le=10**9)


@dataclass(frozen=True)
class Step:
    """One step: the current number, the operation and its operand, and what comes out."""

    before: int
    operation: Operation
    operand: int
    result: int

    @property
    def expression(self) -> str:
        """Such as "12+5"."""
        return f"{self.before}{self.operation}{self.operand}"


@dataclass(frozen=True)
class WordProblem:
    """A chain told as a story; `leads` are the words before the sum of each step of the solution."""

    steps: tuple[Step, ...]
    question: str
    things: str
    leads: tuple[str, ...]

    @property
    def chain(self) -> str:
        """The numbers and operations without the words, such as "12+5*2": what the problem is at bottom."""
        return str(self.steps[0].before) + "".join(f"{step.operation}{step.operand}" for step in self.steps)


def rows(split: Split, seed: int, options: ChainsOptions) -> list[Row]:
    """Rows {id, question, answer}; the answer is worked out, one step a line, and ends with `#### N`.

    A line is such as `That makes 12+5 = <<12+5=17>>17 shells.`
    The fields and the calculator annotations are those of GSM8K (Cobbe et al. 2021, arXiv 2110.14168).

    Raises:
        ReasonRLError: the options do not allow so many different problems.
    """
    return [
        {"id": problem.chain, "question": problem.question, "answer": _solution(problem)}
        for problem in word_problems(split, seed, options)
    ]


def word_problems(split: Split, seed: int, options: ChainsOptions) -> list[WordProblem]:
    """The problems of a split; no chain occurs twice, and none on both sides, in whatever words."""
    return draw_distinct(
        split,
        seed,
        options,
        draw=lambda numbers: _told(_steps(numbers, options), numbers),
        family=lambda problem: problem.chain,
        key=lambda problem: problem.chain,
    )


def _solution(problem: WordProblem) -> str:
    lines = [
        f"{lead} {step.expression} = <<{step.expression}={step.result}>>{step.result} {problem.things}."
        for lead, step in zip(problem.leads, problem.steps, strict=True)
    ]
    return "\n".join([*lines, f"#### {problem.steps[-1].result}"])


def _steps(draw: random.Random, options: ChainsOptions) -> tuple[Step, ...]:
    value = draw.randint(2, options.largest)
    steps: list[Step] = []
    for _ in range(draw.randint(options.min_steps, options.max_steps)):
        possible = _operands(value, options.largest)
        operation = draw.choice([operation for operation, operands in possible.items() if operands])
        operand = draw.choice(possible[operation])
        steps.append(Step(value, operation, operand, apply(value, operation, operand)))
        value = steps[-1].result
    return tuple(steps)


def _operands(value: int, largest: int) -> dict[Operation, range | list[int]]:
    """For each operation the operands that keep the result whole and between 2 and `largest`."""
    factors = range(2, LARGEST_FACTOR + 1)
    return {
        "+": range(2, largest - value + 1),
        "-": range(2, value - 1),
        "*": [factor for factor in factors if value * factor <= largest],
        "/": [factor for factor in factors if value % factor == 0 and value // factor >= 2],
    }


def apply(value: int, operation: Operation, operand: int) -> int:
    """The result of a step; a division is one without remainder."""
    if operation == "+":
        return value + operand
    if operation == "-":
        return value - operand
    return value * operand if operation == "*" else value // operand


def _told(steps: tuple[Step, ...], draw: random.Random) -> WordProblem:
    story = draw.choice(STORIES)
    name, friend = draw.sample(NAMES, 2)
    words = {"name": name, "friend": friend, "things": draw.choice(story.things)}
    events = [draw.choice(story.events[step.operation]).format(n=step.operand, **words) for step in steps]
    opening, ask = story.opening.format(n=steps[0].before, **words), story.ask.format(**words)
    leads = tuple(draw.choice(LEADS[step.operation]) for step in steps)
    return WordProblem(steps, " ".join([opening, *events, ask]), words["things"], leads)
