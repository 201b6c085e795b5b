"""How rows are drawn: distinct ones, and of each family of problems only on one side of the split."""

import hashlib
import random
from collections.abc import Callable
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from reasonrl.errors import ReasonRLError

Split = Literal["train", "eval"]
Row = dict[str, Any]
Item = TypeVar("Item")

ONE_IN = 5  # of this many families of problems, one is held out
PATIENCE = 5_000  # draws in a row that bring nothing new, after which there is nothing new to be had


class DrawnOptions(BaseModel):
    """Options of every generator that draws its rows; where there are min_X and max_X, they are in order.

    Attributes:
        train_rows: problems to train on.
        eval_rows: problems held out; a change of either number leaves the first rows of both splits as they were.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    train_rows: int = Field(5000, ge=1, le=1_000_000)
    eval_rows: int = Field(500, ge=1, le=100_000)

    @model_validator(mode="after")
    def _ranges_in_order(self) -> Self:
        for least in type(self).model_fields:
            most = least.replace("min_", "max_", 1)
            if least.startswith("min_") and getattr(self, least) > getattr(self, most):
                raise ValueError(f"{least} {getattr(self, least)} is more than {most} {getattr(self, most)}")
        return self


def is_held_out(family: str) -> bool:
    """Whether a family of problems belongs to the eval split.

    The family alone decides: not the seed and not the options, so no run trains on what another one holds out.
    """
    return hashlib.sha256(family.encode()).digest()[0] % ONE_IN == 0


def draw_distinct(
    split: Split,
    seed: int,
    options: DrawnOptions,
    draw: Callable[[random.Random], Item | None],
    family: Callable[[Item], str],
    key: Callable[[Item], str],
) -> list[Item]:
    """As many items of a split as the options ask for, no two with the same key.

    Args:
        draw: makes an item, or None where this draw came to nothing.
        family: what an item is at bottom; all items of a family are on the same side of the split.
        key: what makes an item a different one.

    Raises:
        ReasonRLError: the options do not allow so many different items.
    """
    rows = options.eval_rows if split == "eval" else options.train_rows
    random_numbers = random.Random(f"{split} {seed}")  # a text is hashed with SHA-512, the same everywhere
    found: dict[str, Item] = {}
    misses = 0
    while len(found) < rows:
        item = draw(random_numbers)
        new = item is not None and is_held_out(family(item)) == (split == "eval") and key(item) not in found
        if item is not None and new:
            found[key(item)] = item
        misses = 0 if new else misses + 1
        if misses > PATIENCE:
            raise ReasonRLError(
                f"{split}_rows is {rows}, but the generator's options give only about {len(found)} different "
                f"problems of the {split} split; ask for fewer rows or widen the options"
            )
    return list(found.values())
