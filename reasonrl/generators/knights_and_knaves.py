"""The generator `knights_and_knaves`: who speaks the truth and who lies? Exactly one answer fits."""

import hashlib
import random
from dataclasses import dataclass
from typing import get_args

from pydantic import Field

from reasonrl.generators.drawing import DrawnOptions, Row, Split, draw_distinct
from reasonrl.generators.statements import Kind, Statement, shape, solutions
from reasonrl.generators.stories import NAMES

RULES = (
    "On an island every person is either a knight or a knave. Knights always tell the truth; knaves always lie. "
    "You meet {people}."
)
QUESTION = (
    "Who is a knight and who is a knave? Everybody's kind follows from what was said. "
    'End with one line of the form "Answer: {form}", without a full stop, that names everybody in this order and has '
    '"knight" or "knave" in place of each "…".'
)


class KnightsOptions(DrawnOptions):
    """Puzzles in which each person says one thing about who is a knight and who is a knave.

    Attributes:
        min_people: fewest people of a puzzle.
        max_people: most people of a puzzle.
    """

    min_people: int = Field(2, ge=2)
    max_people: int = Field(3, le=5)


@dataclass(frozen=True)
class _Puzzle:
    names: tuple[str, ...]
    statements: tuple[Statement, ...]
    knights: tuple[bool, ...]

    @property
    def said(self) -> str:
        """One line per person: what they say."""
        lines = (
            f'{name} says: "{statement.worded(speaker, self.names)}"'
            for speaker, (name, statement) in enumerate(zip(self.names, self.statements, strict=True))
        )
        return "\n".join(lines)


def rows(split: Split, seed: int, options: KnightsOptions) -> list[Row]:
    """Rows {id, question, answer, people}; the answer is such as "Ada is a knight, Bruno is a knave".

    Two puzzles that differ in the names alone are on the same side of the split.

    Raises:
        ReasonRLError: the options do not allow so many different problems.
    """
    puzzles = draw_distinct(
        split,
        seed,
        options,
        draw=lambda numbers: _puzzle(numbers, options),
        family=lambda puzzle: shape(puzzle.statements),
        key=lambda puzzle: puzzle.said,
    )
    return [_row(puzzle) for puzzle in puzzles]


def _row(puzzle: _Puzzle) -> Row:
    people = f"{', '.join(puzzle.names[:-1])} and {puzzle.names[-1]}"
    form = ", ".join(f"{name} is a …" for name in puzzle.names)
    kinds = ("knight" if knight else "knave" for knight in puzzle.knights)
    return {
        "id": hashlib.sha256(puzzle.said.encode()).hexdigest()[:16],
        "question": f"{RULES.format(people=people)}\n{puzzle.said}\n{QUESTION.format(form=form)}",
        "answer": ", ".join(f"{name} is a {kind}" for name, kind in zip(puzzle.names, kinds, strict=True)),
        "people": list(puzzle.names),
    }


def _puzzle(draw: random.Random, options: KnightsOptions) -> _Puzzle | None:
    """A puzzle, or None if what was said leaves no answer or several."""
    people = draw.randint(options.min_people, options.max_people)
    names = tuple(draw.sample(NAMES, people))
    statements = tuple(_statement(draw, speaker, people) for speaker in range(people))
    found = solutions(statements)
    return _Puzzle(names, statements, found[0]) if len(found) == 1 else None


def _statement(draw: random.Random, speaker: int, people: int) -> Statement:
    kind: Kind = draw.choice(get_args(Kind))
    if kind == "count":
        return Statement(kind, count=draw.randint(0, people))
    if kind == "is":  # never of oneself: "I am a knight" says nothing, and nobody can say the other
        other = draw.choice([person for person in range(people) if person != speaker])
        return Statement(kind, (other,), (draw.random() < 0.5,))
    pair = tuple(draw.sample(range(people), 2))
    if kind == "if":
        return Statement(kind, pair, (draw.random() < 0.5, draw.random() < 0.5))
    said = draw.random() < 0.5
    return Statement(kind, pair, (said, said) if kind in ("all", "any") else (said,))
