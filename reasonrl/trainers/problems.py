"""Which problems a step trains on: a function of seed and step alone, so that a resumed run draws the same."""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence

from reasonrl.errors import ReasonRLError
from reasonrl.evaluation.evaluate import Prompted
from reasonrl.selection import shuffled_window
from reasonrl.tasks.leftout import LeftOut
from reasonrl.trainers.fingerprints import of_prompted
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

    A row that cannot be used is left out and counted: one of a million must not end a run in its middle. Nor may two
    problems of a step have one id, by which responses find their problem.

    Args:
        read: begins to read the rows: the number of each with its problem, or with what is wrong with it.
        prompted: makes a problem ready to sample, or finds a fault; None if its prompt is too long.
        window: how many are held.
        key: what the order derives from.
        task: its name, for messages.
        limited: is it an error if more than a few rows are at fault?
        tell: is told of the first row that is left out.
    """

    def __init__(
        self,
        read: Callable[[], Iterator[tuple[int, Problem | ReasonRLError]]],
        prompted: Callable[[Problem], Prompted | None],
        window: int,
        key: str,
        task: str = "",
        *,
        limited: bool = True,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._read = read
        self._prompted = prompted
        self._window = window
        self._key = key
        self._task, self._limited, self._tell = task, limited, tell
        self.restart()

    @property
    def longest_prompt(self) -> None:
        """As of `Source`."""
        return None

    def restart(self) -> None:
        """As of `Source`."""
        self._epoch = -1
        self._rows: Iterator[tuple[int, Problem | ReasonRLError]] = iter(())
        self.left_out = LeftOut(self._task, "train")

    def take(self, count: int) -> list[Prompted]:
        """As of `Source`."""
        taken = self._up_to(count)
        if len(taken) < count:
            self._epoch += 1
            draw = random.Random(f"{self._key}/{self._epoch}")
            self._rows = shuffled_window(self._read(), self._window, draw)
            taken = self._up_to(count)
        if len(taken) < count:
            raise too_few(count, len(taken), self.left_out)
        return taken

    def _up_to(self, count: int) -> list[Prompted]:
        taken: dict[str, Prompted] = {}
        while len(taken) < count and (row := next(self._rows, None)) is not None:
            index, made = row
            self.left_out.read += 1
            try:
                one = self._ready(made, taken)
            except ReasonRLError as error:
                self._leave_out(index, error)
                continue
            if one is None:
                self._leave_out(index, None)
            else:
                taken[one.problem.id] = one
        return list(taken.values())

    def _ready(self, made: Problem | ReasonRLError, taken: Mapping[str, Prompted]) -> Prompted | None:
        if isinstance(made, ReasonRLError):
            raise made
        one = self._prompted(made)
        if one is not None and made.id in taken:
            other = taken[made.id].problem.row
            raise ReasonRLError(f"has the id {made.id!r} of row {other} in the same step; choose another `id` column")
        return one

    def _leave_out(self, index: int, fault: ReasonRLError | None) -> None:
        if fault is None:
            self.left_out.add(index, "its prompt is beyond task.max_prompt_tokens")
        else:
            self.left_out.add_fault(index, fault)
        if self.left_out.rows == 1:
            self._tell(f"{self._task}: rows are left out and counted, rows_left_out (first: {self.left_out.first})")
        if fault is not None and self._limited:
            self.left_out.check()


class ProblemStream:
    """The problems of each step: of every task its share.

    Args:
        sources: the tasks' problems, each with its weight.
        per_step: problems of a step, over all processes.
        rank, world: this process and how many there are; process r takes every world-th problem of a step, from
            the r-th on.
        rounds: so many times `per_step` problems are set aside for each step, all different, each round with the tasks'
            shares, for a sampler that goes on where the first ones teach nothing.

    Raises:
        ReasonRLError: some processes would be left without a problem.
    """

    def __init__(
        self, sources: Sequence[tuple[Source, float]], per_step: int, rank: int = 0, world: int = 1, rounds: int = 1
    ) -> None:
        if per_step < world:
            raise ReasonRLError(
                f"problems_per_step {per_step} leaves some of the {world} processes without a problem; it must be at "
                f"least {world}"
            )
        self._sources = [source for source, _ in sources]
        self._quotas = Quotas([weight for _, weight in sources], per_step)
        self._per_step = per_step
        self._rank, self._world, self._rounds = rank, world, rounds
        self._step, self._drawn = 0, list[list[Prompted]]()
        self._digest = ""

    @property
    def longest_prompt(self) -> int | None:
        """Tokens of the longest prompt of all tasks; None if a task streams."""
        lengths = [source.longest_prompt for source in self._sources]
        return None if None in lengths else max(length for length in lengths if length is not None)

    def metrics(self) -> dict[str, float]:
        """How many rows of streams were left out so far; nothing where no task streams."""
        streams = [source.left_out.rows for source in self._sources if isinstance(source, Streamed)]
        return {"rows_left_out": float(sum(streams))} if streams else {}

    def of_step(self, step: int) -> list[tuple[list[Prompted], list[int]]]:
        """For each round of a step (from 1): this process's problems, and their positions in the global batch.

        Positions go on from round to round, so that no two problems of a step have the same; a place in the round is
        a position modulo `per_step`, and this process has the same places in each.

        Raises:
            ReasonRLError: a task has fewer problems than the step needs of it.
        """
        if step < self._step:
            for source in self._sources:
                source.restart()
            self._step, self._digest = 0, ""
        while self._step < step:
            self._drawn = self._draw(self._step + 1)
            self._digest = self._digest[:32] + of_prompted(one for drawn in self._drawn for one in drawn)
            self._step += 1
        local = range(self._rank, self._per_step, self._world)
        return [
            ([drawn[at] for at in local], [number * self._per_step + at for at in local])
            for number, drawn in enumerate(self._drawn)
        ]

    def digest(self, step: int) -> str:
        """A digest of all problems that the steps up to this one draw, the same on every process."""
        self.of_step(step)
        return self._digest

    def all_of(self, steps: int) -> list[Prompted]:
        """This process's problems of the first so many steps, of all rounds, each once."""
        drawn = [one for step in range(1, steps + 1) for problems, _ in self.of_step(step) for one in problems]
        return list({one.problem.id: one for one in drawn}.values())

    def _draw(self, step: int) -> list[list[Prompted]]:
        """All problems of a step, round by round: taken together, since only so are they all different."""
        counts = [self._quotas.of_step((step - 1) * self._rounds + number + 1) for number in range(self._rounds)]
        taken = [
            iter(source.take(sum(of))) for source, of in zip(self._sources, zip(*counts, strict=True), strict=True)
        ]
        return [[next(problems) for problems, n in zip(taken, of, strict=True) for _ in range(n)] for of in counts]


def too_few(needed: int, there: int, left_out: LeftOut | None = None) -> ReasonRLError:
    """The error for a task with fewer problems than a step takes of it."""
    others = f" ({left_out.line()})" if left_out is not None and left_out.rows else ""
    return ReasonRLError(
        f"a step takes {needed} different problems of a task, but there are only {there} training problems{others}; "
        "lower problems_per_step or, where there are refills, these: each sets aside as many problems again"
    )
