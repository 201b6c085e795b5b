"""The generator `countdown`: reach a target with given numbers, in the fields of Jiayi-Pan/Countdown-Tasks-3to4."""

import random
from dataclasses import dataclass

from pydantic import Field

from reasonrl.generators.drawing import DrawnOptions, Row, Split, draw_distinct

OPERATIONS = "+-*/"
BINDING = {"+": 1, "-": 1, "*": 2, "/": 2}
ALONE = 3  # a single number binds more tightly than any operation


class CountdownOptions(DrawnOptions):
    """Countdown problems, each of which can be solved with all of its numbers.

    Attributes:
        min_numbers: fewest numbers of a problem.
        max_numbers: most numbers of a problem.
        largest: the largest number given; the smallest is 1, and a number may be given twice.
        largest_target: the largest target; none is smaller than 1 or one of the numbers.
    """

    min_numbers: int = Field(3, ge=2)
    max_numbers: int = Field(4, le=6)
    largest: int = Field(99, ge=2, le=10_000)
    largest_target: int = Field(100, ge=1, le=1_000_000)


@dataclass(frozen=True)
class _Term:
    """A part of the solution: its value, its text, and how tightly its outermost operation binds."""

    value: int
    text: str
    binding: int = ALONE


@dataclass(frozen=True)
class _Puzzle:
    nums: tuple[int, ...]
    target: int
    solution: str

    @property
    def id(self) -> str:
        return f"{','.join(map(str, sorted(self.nums)))}->{self.target}"


def rows(split: Split, seed: int, options: CountdownOptions) -> list[Row]:
    """Rows {id, nums, target, solution}; the same numbers, in whatever order, fall on one side of the split.

    Raises:
        ReasonRLError: the options do not allow so many different problems.
    """
    puzzles = draw_distinct(
        split,
        seed,
        options,
        draw=lambda numbers: _puzzle(numbers, options),
        family=lambda puzzle: str(sorted(puzzle.nums)),
        key=lambda puzzle: puzzle.id,
    )
    return [
        {"id": puzzle.id, "nums": list(puzzle.nums), "target": puzzle.target, "solution": puzzle.solution}
        for puzzle in puzzles
    ]


def _puzzle(draw: random.Random, options: CountdownOptions) -> _Puzzle | None:
    """Numbers joined at random until one is left, the target; None if that one will not do."""
    size = draw.randint(options.min_numbers, options.max_numbers)
    nums = tuple(draw.randint(1, options.largest) for _ in range(size))
    terms = [_Term(number, str(number)) for number in nums]
    draw.shuffle(terms)
    while len(terms) > 1:
        joined = _joined(terms.pop(), terms.pop(), draw.choice(OPERATIONS))
        if joined is None:
            return None
        terms.insert(draw.randrange(len(terms) + 1), joined)
    target = terms[0]
    # A number that is the target already would be a solution of its own.
    if not 1 <= target.value <= options.largest_target or target.value in nums:
        return None
    return _Puzzle(nums, target.value, target.text)


def _joined(left: _Term, right: _Term, operation: str) -> _Term | None:
    """Two terms as one, the larger first where the order matters; None for a result that is no positive integer."""
    if operation in "-/" and left.value < right.value:
        left, right = right, left
    if (operation == "-" and left.value == right.value) or (operation == "/" and left.value % right.value):
        return None
    value = {
        "+": left.value + right.value,
        "-": left.value - right.value,
        "*": left.value * right.value,
        "/": left.value // right.value,
    }[operation]
    binding = BINDING[operation]
    first = left.text if left.binding >= binding else f"({left.text})"
    # a - (b + c) and a / (b * c) need their parentheses, as a - b and a / b do not.
    bare = right.binding > binding or (right.binding == binding and operation in "+*")
    return _Term(value, f"{first} {operation} {right.text if bare else f'({right.text})'}", binding)
