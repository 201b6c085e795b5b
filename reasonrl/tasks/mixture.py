"""A mixture: several tasks trained on at once, each judged by its own verifiers."""

from collections.abc import Sequence
from pathlib import Path

from reasonrl.errors import ReasonRLError
from reasonrl.generators import Split
from reasonrl.tasks.config import MixtureConfig
from reasonrl.tasks.leftout import LeftOut
from reasonrl.tasks.task import Task
from reasonrl.types import Problem


class Mixture:
    """A loaded mixture.

    Args:
        config: the validated YAML.
        path: where it came from, for messages.
        tasks: its parts, in the order of the YAML.

    Raises:
        ReasonRLError: two parts have one name.
    """

    def __init__(self, config: MixtureConfig, path: Path, tasks: list[Task]) -> None:
        names = [task.name for task in tasks]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ReasonRLError(f"{path}: mixture: two tasks are named {min(twice)!r}; give one of them another `name`")
        self.config = config
        self.path = path
        self.name = config.name
        self.missing = tuple(message for task in tasks for message in task.missing)
        self.sampling = config.sampling
        self.parts = tuple(zip(tasks, (part.weight for part in config.mixture), strict=True))

    def splits(self) -> list[Split]:
        """The splits that at least one of its tasks has."""
        return [split for split in ("train", "eval") if any(split in task.splits() for task, _ in self.parts)]

    def problems(self, split: Split, rows: int | None = None) -> list[Problem]:
        """The problems of all tasks that have such a split, task after task.

        Args:
            split: of the data.
            rows: so many in all, if there are, of each task the first ones. The tasks share them evenly, the first
                ones taking what does not divide, and the others what a small task has too few of.
        """
        found = [task.problems(split, rows) for task, _ in self.parts if split in task.splits()]
        if rows is not None:
            shares = even_shares(rows, [len(problems) for problems in found])
            found = [problems[:share] for problems, share in zip(found, shares, strict=True)]
        return [problem for problems in found for problem in problems]

    def left_out(self, split: Split) -> tuple[LeftOut, ...]:
        """What was last left out of a split of its tasks, by task."""
        return tuple(one for task, _ in self.parts for one in task.left_out(split))


def even_shares(total: int, limits: Sequence[int]) -> list[int]:
    """How many each gets of a total, at most its limit: one each, again and again, until none are left or wanted."""
    shares = [0] * len(limits)
    for _ in range(max(limits, default=0)):
        for index, limit in enumerate(limits):
            if shares[index] < limit and sum(shares) < total:
                shares[index] += 1
    return shares
