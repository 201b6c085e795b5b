"""Files of examples to learn from, row by row: what teaches nothing is left out and counted. Imports no torch."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from reasonrl import rowfiles
from reasonrl.errors import ReasonRLError
from reasonrl.generators import Row

Example = TypeVar("Example")


def read_examples(
    files: Sequence[str | Path],
    of_row: Callable[[Row], Example],
    useless: Callable[[Example], str | None],
    *,
    kind: str,
    lacking: str,
) -> tuple[list[Example], Counter[str]]:
    """The examples of files (JSON Lines, JSON, CSV, Parquet), in order; and how many are left out, by the reason.

    Args:
        files: their paths.
        of_row: an example from a row; raises a ValueError if there is none in it.
        useless: why an example teaches nothing; None if it does.
        kind, lacking: what the examples are called, and what there is none of if all of them are left out.

    Raises:
        ReasonRLError: a row holds no example, or none is left.
    """
    found: list[Example] = []
    skipped: Counter[str] = Counter()
    for file in map(Path, files):
        for place, row in rowfiles.read(file):
            try:
                example = of_row(row)
            except ValueError as error:
                raise ReasonRLError(f"{file}: {place}: {error}") from None
            reason = useless(example)
            if reason is None:
                found.append(example)
            else:
                skipped[reason] += 1
    if not found:
        why = f"; {left_out(skipped, 0, kind)}" if skipped else ""
        raise ReasonRLError(f"{', '.join(map(str, files))}: no {lacking} to learn from{why}")
    return found, skipped


def left_out(skipped: Counter[str], kept: int, kind: str) -> str:
    """What was skipped, beside so many examples that are kept, in one line."""
    why = ", ".join(f"{reason} ({number:,})" for reason, number in skipped.items())
    return f"{skipped.total():,} of {kept + skipped.total():,} {kind} are left out: {why}"
