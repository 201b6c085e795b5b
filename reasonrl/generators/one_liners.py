"""The generator `one_liners`: a Python function of one line, asked for in words and tested by calls."""

import random
from dataclasses import dataclass

from pydantic import Field

from reasonrl.generators.drawing import DrawnOptions, Row, Split, draw_distinct

INPUTS = (2, 7, -5)  # of the tests; two would tell any two of these functions apart
WORDS = {"+": "plus", "-": "minus", "*": "times"}


class OneLinersOptions(DrawnOptions):
    """Functions of x that add, subtract and multiply, and the demonstrations of a careless tutor.

    Attributes:
        min_steps: fewest operations of a function.
        max_steps: most operations of a function.
        largest: the largest number in a function; the smallest is 2.
        demonstrations: how many training problems come with a demonstration.
        forget: probability that the tutor forgets a pair of parentheses.
        slip: probability that the tutor takes a wrong operation in a step.
    """

    min_steps: int = Field(2, ge=1)
    max_steps: int = Field(3, le=8)
    largest: int = Field(9, ge=3, le=1000)
    demonstrations: int = Field(1000, ge=0)
    forget: float = Field(0.5, ge=0, le=1)
    slip: float = Field(0.15, ge=0, le=1)


@dataclass(frozen=True)
class Function:
    """A function of x, as the operations that are done to x one after another."""

    steps: tuple[tuple[str, int], ...]

    @property
    def words(self) -> str:
        """Such as "x plus 3, times 2"."""
        return "x " + ", ".join(f"{WORDS[operation]} {number}" for operation, number in self.steps)

    @property
    def line(self) -> str:
        """Such as "factor 2, summand 6": what it comes to. The same for all functions with the same values."""
        summand = self.value(0)
        return f"factor {self.value(1) - summand}, summand {summand}"

    def value(self, x: int) -> int:
        """f(x)."""
        for operation, number in self.steps:
            x = x + number if operation == "+" else x - number if operation == "-" else x * number
        return x


def rows(split: Split, seed: int, options: OneLinersOptions) -> list[Row]:
    """Rows {id, question, tests, solution, demonstration}; `solution` is right, `demonstration` at times is not.

    The function "x plus 3, times 2" has the solution `def f(x): return (x+3)*2`.

    Raises:
        ReasonRLError: the options do not allow so many different functions.
    """
    functions = draw_distinct(
        split,
        seed,
        options,
        draw=lambda numbers: _drawn(numbers, options),
        family=lambda function: function.line,
        key=lambda function: function.words,
    )
    tutor = random.Random(f"tutor {seed}")
    shown = options.demonstrations if split == "train" else 0
    return [
        _row(function, written(function, options, tutor) if at < shown else None)
        for at, function in enumerate(functions)
    ]


def written(function: Function, options: OneLinersOptions | None = None, careless: random.Random | None = None) -> str:
    """The function in Python, with no more parentheses than it needs; with the tutor's mistakes if `careless`."""
    text, is_sum = "x", False
    for operation, number in function.steps:
        if careless and options and careless.random() < options.slip:
            operation = careless.choice([other for other in WORDS if other != operation])
        if operation == "*" and is_sum and not (careless and options and careless.random() < options.forget):
            text = f"({text})"
        text, is_sum = f"{text}{operation}{number}", operation != "*"
    return f"def f(x): return {text}"


def _drawn(draw: random.Random, options: OneLinersOptions) -> Function:
    count = draw.randint(options.min_steps, options.max_steps)
    return Function(tuple((draw.choice(list(WORDS)), draw.randint(2, options.largest)) for _ in range(count)))


def _row(function: Function, demonstration: str | None) -> Row:
    return {
        "id": function.words,
        "question": f"f(x) is {function.words}",
        "tests": [{"type": "call", "fn": "f", "args": [x], "expected": function.value(x)} for x in INPUTS],
        "solution": written(function),
        "demonstration": demonstration,
    }
