"""Problems made on the spot: seeded, offline, the same on every machine. Rows have the fields a data set would have.

One file per generator: its options and a function (split, seed, options) → rows, entered in GENERATORS.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from reasonrl.generators import chains, countdown, knights_and_knaves, labelled_chains, one_liners
from reasonrl.generators.addition import TRAINING_PAIRS, ArithmeticOptions, arithmetic
from reasonrl.generators.drawing import Row, Split

__all__ = [
    "GENERATORS",
    "TRAINING_PAIRS",
    "ArithmeticOptions",
    "Generator",
    "Row",
    "Split",
    "arithmetic",
    "generate",
]


@dataclass(frozen=True)
class Generator:
    """A generator: its options and the function that makes the rows of a split from a seed."""

    options: type[BaseModel]
    rows: Callable[[Split, int, Any], list[Row]]


GENERATORS: dict[str, Generator] = {
    "arithmetic": Generator(options=ArithmeticOptions, rows=arithmetic),
    "chains": Generator(options=chains.ChainsOptions, rows=chains.rows),
    "countdown": Generator(options=countdown.CountdownOptions, rows=countdown.rows),
    "knights_and_knaves": Generator(options=knights_and_knaves.KnightsOptions, rows=knights_and_knaves.rows),
    "labelled_chains": Generator(options=labelled_chains.LabelledChainsOptions, rows=labelled_chains.rows),
    "one_liners": Generator(options=one_liners.OneLinersOptions, rows=one_liners.rows),
}


def generate(name: str, split: Split, seed: int, options: BaseModel) -> list[Row]:
    """The rows of one split of the generator of that name.

    Raises:
        ReasonRLError: the options do not allow so many different problems.
    """
    return GENERATORS[name].rows(split, seed, options)
