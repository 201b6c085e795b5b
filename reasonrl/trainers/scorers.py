"""What training a reward model and a process reward model share: fixed examples, one update a step, evaluations."""

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from reasonrl.config import ScorerConfig
from reasonrl.models.trainable_scorer import TrainableScorer
from reasonrl.tracking import Tracker
from reasonrl.trainers.session import Session, gather
from reasonrl.trainers.sft import epoch_indices

Example = TypeVar("Example")
Measured = tuple[float, ...]


class ScorerLoss(ABC, Generic[Example]):
    """The loss of examples, and what is counted of them.

    Class attributes:
        shown: what the table before and after shows of a report, each by its label.

    Args:
        scorer: what is trained.
        session: how.
        max_tokens: most tokens of a micro-batch, padding included.
        beat: called with each micro-batch: something progresses.
    """

    shown: ClassVar[dict[str, str]]

    def __init__(
        self, scorer: TrainableScorer, session: Session, max_tokens: int, beat: Callable[[], None] = lambda: None
    ) -> None:
        self.scorer, self.session, self.max_tokens, self.beat = scorer, session, max_tokens, beat

    @abstractmethod
    def rows(self, example: Example) -> list[tuple[int, ...]]:
        """The token ids that one forward pass has of an example."""

    @abstractmethod
    def places(self, example: Example) -> list[tuple[int, int]]:
        """Where logits are read: (row of the example, token)."""

    @abstractmethod
    def units(self, example: Example) -> int:
        """How many of what the loss is the mean over."""

    @abstractmethod
    def losses(self, logits: Tensor, examples: Sequence[Example]) -> Tensor:
        """The loss of each unit, from the logits at all places, (N, labels)."""

    @abstractmethod
    def measured(self, logits: Tensor, example: Example) -> list[Measured]:
        """What a report needs of an example, from the logits at its places."""

    @abstractmethod
    def report(self, measured: Sequence[list[Measured]]) -> dict[str, float]:
        """The numbers of a report, of all examples."""

    def shares(self, examples: Sequence[Example], total: float) -> Iterator[Tensor]:
        """The micro-batches' shares of the loss, which is the mean over `total` units."""
        for places in self.batches(examples):
            chosen = [examples[at] for at in places]
            yield self.losses(self.logits(chosen), chosen).sum() / total

    def logits(self, examples: Sequence[Example]) -> Tensor:
        """The logits of some examples at all their places, in one forward pass."""
        self.beat()
        rows: list[tuple[int, ...]] = []
        places: list[tuple[int, int]] = []
        for example in examples:
            places += [(len(rows) + row, token) for row, token in self.places(example)]
            rows += self.rows(example)
        with self.session.accelerator.autocast():
            return self.scorer.logits(rows, places)

    @torch.no_grad()
    def measure(self, examples: Sequence[Example]) -> dict[str, float]:
        """A report on examples that all processes have; each computes a share, and all call this together."""
        rank, world = self.session.accelerator.process_index, self.session.accelerator.num_processes
        mine = list(range(len(examples))[rank::world])
        found: list[tuple[int, list[Measured]]] = []
        for places in self.batches([examples[at] for at in mine]):
            chosen = [examples[mine[at]] for at in places]
            pieces = torch.split(self.logits(chosen).float().cpu(), [len(self.places(one)) for one in chosen])
            found += [
                (mine[at], self.measured(piece, one)) for at, piece, one in zip(places, pieces, chosen, strict=True)
            ]
        everyone = sorted(gather(self.session.accelerator, found), key=lambda one: one[0])
        return self.report([measured for _, measured in everyone])

    def batches(self, examples: Sequence[Example]) -> list[list[int]]:
        """The examples' places in micro-batches of examples of like length; the longest come first."""
        sizes = [(max(map(len, rows)), len(rows)) for rows in map(self.rows, examples)]
        found: list[list[int]] = []
        width = height = 0
        for at in sorted(range(len(examples)), key=lambda at: -sizes[at][0]):
            longest, rows = sizes[at]
            if found and (height + rows) * width <= self.max_tokens:
                found[-1].append(at)
                height += rows
            else:
                found.append([at])
                width, height = longest, rows
        return found


def train_scorer(
    config: ScorerConfig,
    examples: Sequence[Example],
    loss: ScorerLoss[Example],
    tracker: Tracker,
    *,
    seed: int,
    done: int = 0,
    after_step: Callable[[int], None] = lambda step: None,
) -> None:
    """Minimise the mean loss of each step's examples.

    Args:
        config: steps and batch size.
        examples: the same on every process.
        loss: of an example, with the session that updates the model.
        tracker: where metrics go.
        seed: of the order of examples.
        done: steps that are taken already.
        after_step: called with the number of each finished step.

    Raises:
        ReasonRLError: too many updates in a row were not finite.
    """
    session = loss.session
    rank, world = session.accelerator.process_index, session.accelerator.num_processes
    for step in range(done + 1, config.steps + 1):
        started = time.monotonic()
        places = epoch_indices(len(examples), (step - 1) * config.batch_size, config.batch_size, seed)
        batch = [examples[at] for at in places]
        update = session.update(loss.shares(batch[rank::world], sum(map(loss.units, batch))))
        seconds = time.monotonic() - started
        tokens = sum(len(row) for example in batch for row in loss.rows(example))
        tracker.log(
            step,
            {
                "loss": update.loss,
                "grad_norm": update.grad_norm,
                "learning_rate": update.learning_rate,
                "skipped_updates": float(session.skipped),
                "tokens_per_second": tokens / seconds,
                "seconds": seconds,
            },
        )
        after_step(step)


def held_out_prompts(prompts: Sequence[str], share: float, seed: int) -> frozenset[str]:
    """A share of the distinct prompts, at least one, drawn by the seed: nothing is asked on both sides."""
    distinct = sorted(set(prompts))
    random.Random(f"{seed}/held-out").shuffle(distinct)
    return frozenset(distinct[: max(1, round(share * len(distinct)))])
