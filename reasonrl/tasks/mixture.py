"""A mixture: several tasks trained on at once, each judged by its own verifiers."""

from pathlib import Path

from reasonrl.errors import ReasonRLError
from reasonrl.generators import Split
from reasonrl.tasks.config import MixtureConfig
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
        """The problems of all tasks that have such a split, task after task; of each the first so many."""
        return [problem for task, _ in self.parts if split in task.splits() for problem in task.problems(split, rows)]
