"""What knights and knaves say of one another: the meaning of a statement and its wording."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import Literal

Kind = Literal["is", "alike", "all", "any", "if", "count"]
NUMBERS = ("none", "exactly one", "exactly two", "exactly three", "exactly four")


@dataclass(frozen=True)
class Statement:
    """What one person says.

    Attributes:
        kind: "is" (a person is a knight), "alike" (two are of the same kind), "all" or "any" (all or at least one of
            two are knights), "if" (if the first is a knight, so is the second), "count" (so many are knights).
        people: whom it is about, by number; of "count" nobody.
        knights: for each of them, whether it calls that person a knight (of "alike": whether they are alike).
        count: how many knights a statement of kind "count" counts.
    """

    kind: Kind
    people: tuple[int, ...] = ()
    knights: tuple[bool, ...] = ()
    count: int = 0

    def holds(self, knight: Sequence[bool]) -> bool:
        """Whether the statement is true where `knight` says of each person whether they are a knight."""
        if self.kind == "count":
            return sum(knight) == self.count
        if self.kind == "alike":
            return (knight[self.people[0]] == knight[self.people[1]]) == self.knights[0]
        as_said = [knight[person] == said for person, said in zip(self.people, self.knights, strict=True)]
        if self.kind == "if":
            return not as_said[0] or as_said[1]
        return any(as_said) if self.kind == "any" else all(as_said)

    def renamed(self, number: Sequence[int]) -> tuple[str, tuple[tuple[int, bool], ...], int]:
        """The statement with every person i called number[i], in one form whatever the order of two people."""
        about = list(zip((number[person] for person in self.people), self.knights * len(self.people), strict=False))
        return self.kind, tuple(about if self.kind == "if" else sorted(about)), self.count

    def worded(self, speaker: int, names: Sequence[str]) -> str:
        """The sentence in the mouth of `speaker`, who calls themselves I."""
        if self.kind == "count":
            counted = "all" if self.count == len(names) else NUMBERS[self.count]
            return f"{counted.capitalize()} of us {'is a knight' if self.count == 1 else 'are knights'}."
        kind_of = ["a knight" if knight else "a knave" for knight in self.knights]
        # I come last, but not in a conditional, where the order is what it says.
        order = sorted(self.people, key=lambda person: person == speaker)
        pair = " and ".join("I" if person == speaker else names[person] for person in order)
        if self.kind == "alike":
            return f"{pair} are {'of the same kind' if self.knights[0] else 'of different kinds'}."
        if self.kind == "all":
            return f"Both {pair} are {kind_of[0][2:]}s."
        if self.kind == "any":
            objects = " and ".join("me" if person == speaker else names[person] for person in order)
            return f"At least one of {objects} is {kind_of[0]}."
        parts = [
            f"I am {kind}" if person == speaker else f"{names[person]} is {kind}"
            for person, kind in zip(self.people, kind_of, strict=True)
        ]
        return f"If {parts[0]}, then {parts[1]}." if self.kind == "if" else f"{parts[0]}."


def solutions(statements: Sequence[Statement]) -> list[tuple[bool, ...]]:
    """Every way the people may be knights (True) and knaves such that knights speak the truth and knaves do not."""
    people = len(statements)
    worlds = (tuple(bool(world >> person & 1) for person in range(people)) for world in range(2**people))
    return [world for world in worlds if all(said.holds(world) == world[who] for who, said in enumerate(statements))]


def shape(statements: Sequence[Statement]) -> str:
    """The same text for two puzzles that differ in nothing but who is called what."""
    # People are put in the order of what can be said of their statements without numbers; only ties are tried out.
    looks = [(said.kind, said.count, sorted(said.knights), who in said.people) for who, said in enumerate(statements)]
    forms = []
    for order in permutations(range(len(statements))):
        if all(looks[one] <= looks[other] for one, other in pairwise(order)):
            number = [order.index(person) for person in range(len(statements))]
            forms.append([statements[person].renamed(number) for person in order])
    return str(min(forms))
