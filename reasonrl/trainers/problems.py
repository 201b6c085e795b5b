"""Which problems a step trains on: a function of seed and step alone, so that a resumed run draws the same."""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

from reasonrl.errors import ReasonRLError
from reasonrl.evaluation.evaluate import Prompted
from reasonrl.selection import shuffled_window
from reasonrl.trainers.quotas import Quotas
from reasonrl.types import Problem


class Source(ABC):
    """The training problems of one task, in epochs, each shuffled anew.

    The remainder of an epoch that cannot serve a whole step is left out, so that no step has a problem twice.
    """

    @abstractmethod
    def take(self, count: int) -> list[Prompted]:
        """The next problems, all different.

        Raises:
            ReasonRLError: there are not so many.
        """

    @property
    @abstractmethod
    def longest_prompt(self) -> int | None:
        """Tokens of the longest prompt; None if that is not known before all is read."""

    @abstractmethod
    def restart(self) -> None:
        """Begin again with the first problem of the first epoch."""


class Listed(Source):
    """Problems that are in memory.

    Args:
        prompted: all of them.
        key: what the order derives from.
    """

    def __init__(self, prompted: Sequence[Prompted], key: str) -> None:
        self._prompted = prompted
        self._key = key
        self.restart()

    @property
    def longest_prompt(self) -> int:
        """As of `Source`."""
        return max((len(one.prompt_ids) for one in self._prompted), default=0)

    def restart(self) -> None:
        """As of `Source`."""
        self._epoch, self._next = -1, len(self._prompted)
        self._order: list[int] = []

    def take(self, count: int) -> list[Prompted]:
        """As of `Source`."""
        if count > len(self._prompted):
            raise too_few(count, len(self._prompted))
        if self._next + count > len(self._prompted):
            self._epoch, self._next = self._epoch + 1, 0
            self._order = list(range(len(self._prompted)))
            random.Random(f"{self._key}/{self._epoch}").shuffle(self._order)
        taken = self._order[self._next : self._next + count]
        self._next += count
        return [self._prompted[index] for index in taken]


class Streamed(Source):
    """Problems read as they are needed, for data larger than memory; the order is random within a window.

    Args:
        read: begins to read the problems.
        prompted: makes one ready to sample; None leaves it out.
        window: how many are held.
        key: what the order derives from.
    """

    def __init__(
        self,
        read: Callable[[], Iterator[Problem]],
        prompted: Callable[[Problem], Prompted | None],
        window: int,
        key: str,
    ) -> None:
        self._read = read
        self._prompted = prompted
        self._window = window
        self._key = key
        self.restart()

    @property
    def longest_prompt(self) -> None:
        """As of `Source`."""
        return None

    def restart(self) -> None:
        """As of `Source`."""
        self._epoch = -1
        self._problems: Iterator[Problem] = iter(())

    def take(self, count: int) -> list[Prompted]:
        """As of `Source`."""
        taken = self._up_to(count)
        if len(taken) < count:
            self._epoch += 1
            draw = random.Random(f"{self._key}/{self._epoch}")
            self._problems = shuffled_window(self._read(), self._window, draw)
            taken = self._up_to(count)
        if len(taken) < count:
            raise too_few(count, len(taken))
        return taken

    def _up_to(self, count: int) -> list[Prompted]:
        taken: list[Prompted] = []
        while len(taken) < count and (problem := next(self._problems, None)) is not None:
            one = self._prompted(problem)
            if one is not None:
                taken.append(one)
        return taken


class ProblemStream:
    """The problems of each step: of every task its share.

    Args:
        sources: the tasks' problems, each with its weight.
        per_step: problems of a step, over all processes.
        rank, world: this process and how many there are; process r takes every world-th problem of a step, from
            the r-th on.

    Raises:
        ReasonRLError: some processes would be left without a problem.
    """

    def __init__(self, sources: Sequence[tuple[Source, float]], per_step: int, rank: int = 0, world: int = 1) -> None:
        if per_step < world:
            raise ReasonRLError(
                f"problems_per_step {per_step} leaves some of the {world} processes without a problem; it must be at "
                f"least {world}"
            )
        self._sources = [source for source, _ in sources]
        self._quotas = Quotas([weight for _, weight in sources], per_step)
        self._per_step = per_step
        self._rank, self._world = rank, world
        self._step, self._drawn = 0, list[Prompted]()

    @property
    def longest_prompt(self) -> int | None:
        """Tokens of the longest prompt of all tasks; None if a task streams."""
        lengths = [source.longest_prompt for source in self._sources]
        return None if None in lengths else max(length for length in lengths if length is not None)

    def of_step(self, step: int) -> tuple[list[Prompted], list[int]]:
        """This process's problems of a step (from 1), and their positions in the step's global batch.

        Raises:
            ReasonRLError: a task has fewer problems than the step needs of it.
        """
        if step < self._step:
            for source in self._sources:
                source.restart()
            self._step = 0
        while self._step < step:
            counts = self._quotas.of_step(self._step + 1)
            self._drawn = [one for source, n in zip(self._sources, counts, strict=True) for one in source.take(n)]
            self._step += 1
        positions = list(range(self._rank, self._per_step, self._world))
        return [self._drawn[position] for position in positions], positions


def too_few(needed: int, there: int) -> ReasonRLError:
    """The error for a task with fewer problems than a step takes of it."""
    return ReasonRLError(
        f"a step takes {needed} different problems of a task, but there are only {there} training problems; lower "
        "problems_per_step"
    )
