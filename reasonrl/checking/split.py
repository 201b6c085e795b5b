"""One split of a task, checked row by row in chunks, so that data larger than memory can be checked."""

import itertools
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jinja2
import numpy as np
from numpy.typing import NDArray

from reasonrl.checking.fingerprints import Fingerprints, normalised
from reasonrl.checking.judging import Judging, Numbered
from reasonrl.checking.kinds import KEPT, Tally, cut
from reasonrl.checking.records import Examined, SplitReport, Spread
from reasonrl.errors import ReasonRLError
from reasonrl.generators import Row, Split
from reasonrl.models.prompt import prompt_ids
from reasonrl.tasks import Task
from reasonrl.tasks.templates import Template
from reasonrl.types import Problem

CHUNK = 64  # rows judged at once: few enough that a progress bar moves, enough to keep the workers busy
CHEATED = 8  # usable problems of a split on which cheats are tried: these hardly depend on the problem

Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Model:
    """What a check needs of a model.

    Attributes:
        path: as the user names it.
        tokenizer: of transformers.
        max_positions: its context in tokens, if known.
    """

    path: str
    tokenizer: Any
    max_positions: int | None


class SplitCheck:
    """The check of one split.

    Args:
        task, split: which.
        judging: its verifiers.
        model: counts the tokens of prompts, if given.
        max_tokens: most tokens of a response.
    """

    def __init__(self, task: Task, split: Split, judging: Judging, model: Model | None, max_tokens: int) -> None:
        self.tally = Tally(task.name, split)
        self.texts = Fingerprints()
        self.task, self.split = task, split
        self._judging, self._model, self._max_tokens = judging, model, max_tokens
        self._text = Template(task.config.prompt.template)
        self._ids = Fingerprints()
        self._characters, self._tokens = array("Q"), array("Q")
        self._rows = self._problems = 0
        self._examined = Examined()
        self._name = f"{task.name}, {split}"
        self._read_whole = False
        self._overlap: NDArray[np.uint64] = np.empty(0, np.uint64)  # rows that are in a training split
        self._trainings: list[SplitCheck] = []
        self._seconds = 0.0

    def run(self, most: int | None, progress: Progress) -> None:
        """Read and check the rows, the first so many if `most` is given."""
        start = time.monotonic()
        try:
            rows, total = self._read(most, progress)
            for chunk in _chunks(rows):
                self._take(chunk)
                progress(f"{self._name}: checked", self._rows, total)
        except ReasonRLError as error:  # no such file, a column that is not there: what was read until then counts
            self.tally.add("data", None, str(error))
        else:
            self._read_whole = self._problems > 0
            if not self._problems:
                self.tally.add("empty", None, f"{self._rows} rows, of which none became a problem")
        self._seconds = time.monotonic() - start

    def compare(self, training: "SplitCheck") -> None:
        """Count what of these problems, which are held out, is in a training split, too: once, though in several."""
        self._trainings.append(training)
        rows, others = self.texts.common(training.texts)
        fresh = ~np.isin(rows, self._overlap)
        self._overlap = np.union1d(self._overlap, rows)
        other = training.task.name
        where = "the training split" if other == self.task.name else f"the training split of {other}"
        some = list(zip(rows[fresh][:KEPT].tolist(), others[fresh][:KEPT].tolist(), strict=True))
        self._tell("overlap", int(fresh.sum()), some, f"as row {{}} of {where}")

    def compare_examples(self, part: Task) -> None:
        """Find which of these problems, which are held out, a task shows with their solutions in its prompts."""
        shown, template = Fingerprints(), Template(part.config.prompt.template)
        try:
            examples = part.examples()
            for number, (_, row) in enumerate(examples):
                shown.add(number, normalised(template.render(row)))
        except (ReasonRLError, ValueError):
            return  # every problem of that task has failed with it before
        rows, numbers = self.texts.common(shown)
        for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
            self.tally.add("shown", row, f"as the example of {part.name}, {examples[number][0]}")

    def _read(self, most: int | None, progress: Progress) -> tuple[Iterable[tuple[int, Row]], int | None]:
        """The rows, and how many there are if that is known before they are checked."""
        progress(f"{self._name}: reading", 0, None)
        rows = itertools.islice(self.task.rows(self.split), most)
        if self.task.streams:
            return rows, most
        every: list[tuple[int, Row]] = []
        for chunk in _chunks(rows):
            every += chunk  # they are in memory already, but for a generator's
            progress(f"{self._name}: reading", len(every), None)
        return every, len(every)

    def _take(self, chunk: list[tuple[int, Row]]) -> None:
        problems: list[Numbered] = []
        for index, row in chunk:
            self._rows += 1
            try:
                problem = self.task.problem(row, self.split, index)
            except ReasonRLError as error:
                self._faulty(index, error)
                continue
            problems.append((index, problem))
            self._ids.add(index, problem.id)
            self.texts.add(index, normalised(self._text.render(row)))
            self._measure(index, problem)
        self._problems += len(problems)
        self._examined += self._judging.examine(problems, self.tally, max(0, CHEATED - self._examined.usable))

    def _faulty(self, index: int, error: ReasonRLError) -> None:
        dataset = self.task.config.dataset
        kind = "skipped" if dataset is not None and dataset.skip_faulty else "row"
        # The message begins with file and row, which the finding says, too.
        self.tally.add(kind, index, str(error).removeprefix(f"{self.task.path}: ").removeprefix(f"row {index}: "))

    def _measure(self, index: int, problem: Problem) -> None:
        """How long is the prompt, and does it fit the model?"""
        prompt = problem.prompt
        self._characters.append(len(prompt) if isinstance(prompt, str) else sum(len(one["content"]) for one in prompt))
        if self._model is None:
            return
        try:
            tokens = len(prompt_ids(prompt, self._model.tokenizer))
        except (ReasonRLError, jinja2.TemplateError) as error:  # a chat template may refuse, say, a system message
            self.tally.add("tokens", index, cut(str(error)))
            return
        self._tokens.append(tokens)
        limit = self._model.max_positions
        if limit is not None and tokens + self._max_tokens > limit:
            told = f"{tokens} tokens and sampling.max_tokens {self._max_tokens} are more than {limit}"
            self.tally.add("context", index, told)

    def report(self) -> SplitReport:
        """The figures, and in the tally the last findings. Once, after all else."""
        self._tell("ids", *self._ids.repeats(KEPT), "as row {}")
        duplicates, some = self.texts.repeats(KEPT)
        self._tell("duplicates", duplicates, some, "as row {}")
        known = self._model is not None and self._model.max_positions is not None
        return SplitReport(
            task=self.task.name,
            split=self.split,
            rows=self._rows,
            problems=self._problems,
            audited=self._examined.audited,
            usable=self._examined.usable,
            right=self._examined.right,
            wrong=self._examined.wrong,
            cheats=self._examined.cheats,
            characters=spread(self._characters),
            tokens=spread(self._tokens),
            beyond_context=self.tally.counts["context"] if known else None,
            duplicates=duplicates,
            in_training=self._in_training(),
            seconds=round(self._seconds, 2),
        )

    def _in_training(self) -> int | None:
        known = self._trainings and all(training._read_whole for training in self._trainings)
        return len(self._overlap) if known else None

    def _tell(self, kind: str, count: int, some: list[tuple[int, int]], text: str) -> None:
        """Count cases of which some are known with their row and the row they are like."""
        for at, (row, other) in enumerate(some):
            self.tally.add(kind, row, text.format(other), count if at == 0 else 0)


def _chunks(rows: Iterable[tuple[int, Row]]) -> Iterator[list[tuple[int, Row]]]:
    rows = iter(rows)
    while chunk := list(itertools.islice(rows, CHUNK)):
        yield chunk


def spread(lengths: Sequence[int]) -> Spread | None:
    """How long prompts are; None if there are none."""
    if not lengths:
        return None
    # Each one is the length of a prompt, not the mean of two.
    found = np.quantile(np.array(lengths, dtype=np.uint64), [0, 0.5, 0.95, 1], method="inverted_cdf")
    return Spread(*map(int, found))
