"""Words for chains of arithmetic: short stories, each with a sentence for every operation."""

from dataclasses import dataclass
from typing import Literal

Operation = Literal["+", "-", "*", "/"]

NAMES = (
    "Ada", "Bruno", "Chen", "Dalia", "Emeka", "Freya", "Goran", "Hana", "Ines", "Jonas", "Kofi", "Lena",
    "Mateo", "Nadia", "Oskar", "Priya", "Quinn", "Rosa", "Sami", "Tove", "Umar", "Vera", "Wanda", "Yusuf",
)  # fmt: skip


@dataclass(frozen=True)
class Story:
    """Sentences with the places {name}, {friend}, {things} and {n}; every number put at {n} is at least 2.

    Attributes:
        things: what is counted, in the plural.
        opening: how many there are at first.
        events: for each operation, sentences that do it to the current number.
        ask: the question after the last event.
    """

    things: tuple[str, ...]
    opening: str
    events: dict[Operation, tuple[str, ...]]
    ask: str


LEADS: dict[Operation, tuple[str, ...]] = {
    "+": ("That makes", "Together that is", "Now the number is"),
    "-": ("That leaves", "What remains is", "Now the number is"),
    "*": ("That makes", "The new number is", "Now the number is"),
    "/": ("One share is", "Each part has", "Now the number is"),
}

STORIES = (
    Story(
        things=("marbles", "stickers", "stamps", "shells", "postcards", "buttons"),
        opening="{name} starts a collection with {n} {things}.",
        events={
            "+": (
                "{friend} gives {name} another {n} {things}.",
                "{name} buys {n} more {things}.",
                "At a flea market {name} finds {n} {things} to add.",
            ),
            "-": ("{name} gives {n} {things} to {friend}.", "{name} loses {n} of the {things}."),
            "*": ("A lucky trade leaves {name} with {n} times as many {things} as before.",),
            "/": ("{name} sorts the {things} into {n} equal piles and keeps just one pile.",),
        },
        ask="How many {things} does {name} have now?",
    ),
    Story(
        things=("dollars", "euros", "pesos"),
        opening="{name} has saved {n} {things}.",
        events={
            "+": ("{name} earns {n} {things} by washing cars.", "{friend} pays back a loan of {n} {things}."),
            "-": ("{name} spends {n} {things} on a present for {friend}.", "A bus ticket costs {name} {n} {things}."),
            "*": ("An uncle tops the savings up until they are {n} times what they were.",),
            "/": ("{name} splits the money into {n} equal shares and keeps one of them.",),
        },
        ask="How many {things} does {name} have in the end?",
    ),
    Story(
        things=("rolls", "muffins", "pretzels", "bagels"),
        opening="When {name} opens the bakery, there are {n} {things} on the shelf.",
        events={
            "+": ("{name} takes {n} more {things} out of the oven.", "{friend} delivers another {n} {things}."),
            "-": ("A café orders {n} {things}, which {friend} takes there.", "Customers buy {n} {things}."),
            "*": ("A second shift bakes until there are {n} times as many {things}.",),
            "/": ("The {things} are packed into {n} equal crates, and all crates but one are driven away.",),
        },
        ask="How many {things} are in the bakery now?",
    ),
    Story(
        things=("points",),
        opening="{name} begins a board game with {n} {things}.",
        events={
            "+": ("{name} solves a riddle and gains {n} {things}.", "A card of {friend} gives {name} {n} {things}."),
            "-": ("A wrong move costs {name} {n} {things}.", "{name} pays {friend} {n} {things}."),
            "*": ("A bonus field multiplies the score of {name} by {n}.",),
            "/": ("A trap divides the score of {name} by {n}.",),
        },
        ask="How many {things} does {name} have at the end of the game?",
    ),
    Story(
        things=("books", "maps", "comics"),
        opening="The reading room that {name} looks after holds {n} {things}.",
        events={
            "+": ("{friend} donates {n} {things}.", "{name} orders {n} new {things}."),
            "-": ("{n} {things} are worn out and thrown away.", "{name} sends {n} {things} to a school."),
            "*": ("After a merger the room holds {n} times as many {things}.",),
            "/": ("The {things} are divided equally among {n} rooms, of which {name} goes on with one.",),
        },
        ask="How many {things} are in the room of {name} now?",
    ),
    Story(
        things=("seedlings", "tulips", "tomato plants", "strawberry plants"),
        opening="{name} has {n} {things} in the garden.",
        events={
            "+": ("{name} plants {n} more {things}.", "{friend} comes by with {n} {things} as a gift."),
            "-": ("Snails eat {n} of the {things}.", "{name} digs up {n} {things} for {friend}."),
            "*": ("By the next spring there are {n} times as many {things}.",),
            "/": ("{name} arranges the {things} in {n} equal beds and gives all beds but one to neighbours.",),
        },
        ask="How many {things} does {name} have left in the garden?",
    ),
)  # fmt: skip
