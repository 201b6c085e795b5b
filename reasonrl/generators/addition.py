"""The generator `arithmetic`: addition with the working written out, column by column."""

import random
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from reasonrl.generators.drawing import Row, Split

TRAINING_PAIRS = 20_000  # a + b and b + a counted once, of numbers with more than two digits


class ArithmeticOptions(BaseModel):
    """Addition of two numbers with the working written out, and the demonstrations of a careless tutor.

    Attributes:
        digits: digits of each number.
        eval_rows: how many problems are held out; a+b and b+a always fall on the same side.
        demonstrations: how many training problems come with a demonstration.
        forget: probability that the tutor forgets a carry.
        slip: probability that the tutor is off by one in a column.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    digits: int = Field(2, ge=1, le=6)
    eval_rows: int = Field(1000, ge=1)
    demonstrations: int = Field(1000, ge=0)
    forget: float = Field(0.8, ge=0, le=1)
    slip: float = Field(0.2, ge=0, le=1)

    @model_validator(mode="after")
    def _leaves_problems_to_train_on(self) -> Self:
        # Held-out pairs are taken together with their swapped twins: half of all unordered pairs is still a lot.
        most = _unordered_pairs(self.digits) // 2
        if self.eval_rows > most:
            raise ValueError(f"eval_rows {self.eval_rows} leaves too few problems to train on; at most {most} here")
        return self


def arithmetic(split: Split, seed: int, options: ArithmeticOptions) -> list[Row]:
    """Rows {id, question, solution, answer, demonstration}; `solution` is right, `demonstration` often is not.

    The problem 47+89 has the solution `7+9+0=16,4+8+1=13:136`: the columns from the right, then the answer.
    """
    draw = random.Random(seed)
    held_out, pairs = _split_pairs(options, draw)
    if split == "eval":
        draw.shuffle(held_out)  # so that the first n rows are not n/2 problems and their twins
        return [_row(a, b, options, demonstration=None) for a, b in held_out]
    return [
        _row(a, b, options, _working(a, b, options, draw) if index < options.demonstrations else None)
        for index, (a, b) in enumerate(pairs)
    ]


def _split_pairs(
    options: ArithmeticOptions, draw: random.Random
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Held-out pairs, and training pairs shuffled. Large number spaces are sampled, small ones enumerated."""
    size = 10**options.digits
    if options.digits <= 2:
        unordered = [(a, b) for a in range(size) for b in range(a, size)]
    else:
        drawn: set[tuple[int, int]] = set()
        while len(drawn) < TRAINING_PAIRS + options.eval_rows:
            a, b = draw.randrange(size), draw.randrange(size)
            drawn.add((min(a, b), max(a, b)))
        unordered = sorted(drawn)
    draw.shuffle(unordered)
    held_out: list[tuple[int, int]] = []
    while len(held_out) < options.eval_rows:
        a, b = unordered.pop()
        held_out += [(a, b), (b, a)] if a != b else [(a, b)]
    training = [pair for a, b in unordered for pair in ([(a, b), (b, a)] if a != b else [(a, b)])]
    draw.shuffle(training)
    return held_out[: options.eval_rows], training


def _unordered_pairs(digits: int) -> int:
    size: int = 10**digits
    return size * (size + 1) // 2


def _row(a: int, b: int, options: ArithmeticOptions, demonstration: str | None) -> Row:
    question = f"{a:0{options.digits}d}+{b:0{options.digits}d}="
    return {
        "id": question,
        "question": question,
        "solution": _working(a, b, options, None),
        "answer": str(a + b),
        "demonstration": demonstration,
    }


def _working(a: int, b: int, options: ArithmeticOptions, careless: random.Random | None) -> str:
    """Columns from the right, each `x+y+carry=sum`, then `:answer`; with the tutor's mistakes if `careless`."""
    columns, carry, total = [], 0, 0
    for place in range(options.digits):
        x, y = a // 10**place % 10, b // 10**place % 10
        column = x + y + carry
        if careless and careless.random() < options.slip:
            column = max(0, column + careless.choice((-1, 1)))
        columns.append(f"{x}+{y}+{carry}={column}")
        total += column % 10 * 10**place
        carry = column // 10
        if careless and carry and careless.random() < options.forget:
            carry = 0
    total += carry * 10**options.digits
    return f"{','.join(columns)}:{total}"
