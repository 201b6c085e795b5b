"""`--data [SPLIT=]FILE`, of all commands that read a task's data."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reasonrl.errors import ReasonRLError
from reasonrl.generators import Split

_SPLITS: tuple[Split, ...] = ("train", "eval")


def parse_data(values: Sequence[str], alone: Split | None) -> dict[Split, str]:
    """The files given in place of a task's own data, by split.

    Args:
        values: as given: `train=FILE`, `eval=FILE`, or just FILE (or a pattern, `data/*.jsonl`).
        alone: the split that just a FILE is meant for; None where it could be either.

    Raises:
        ReasonRLError: a split is unknown, missing where it could be either, or given twice; or a file is missing.
    """
    files: dict[Split, str] = {}
    for value in values:
        split, file = _parse(value, alone)
        if not file:
            raise ReasonRLError(f"--data {value}: expected a file, as in --data {split}=FILE")
        if split in files:
            raise ReasonRLError(
                f"--data {value}: the {split} split has a file already, {files[split]}; a pattern takes several files: "
                f"--data '{split}=data/*.jsonl'"
            )
        files[split] = file
    return files


def split_meant(task: Any) -> Split | None:
    """The split that just a FILE is meant for: the only one the task has; None if it could be either."""
    splits: list[Split] = task.splits()
    return splits[0] if len(splits) == 1 else None


def _parse(value: str, alone: Split | None) -> tuple[Split, str]:
    before, sign, file = value.partition("=")
    for split in _SPLITS:
        if sign and before == split:
            return split, file
    if sign and before.isidentifier() and not Path(value).exists():
        raise ReasonRLError(f"--data {value}: there is no split {before!r}; the splits are train and eval")
    if alone is None:
        raise ReasonRLError(f"--data {value}: of which split? say --data train={value} or --data eval={value}")
    return alone, value
