"""Which problems a step trains on: a function of seed and step alone, so that a resumed run draws the same."""

import random
from collections.abc import Sequence

from reasonrl.errors import ReasonRLError
from reasonrl.evaluation.evaluate import Prompted


class ProblemStream:
    """Epochs over the problems, each shuffled anew; the remainder that does not fill a step waits for the next epoch.

    Args:
        prompted: all training problems.
        per_step: problems of a step, over all processes.
        seed: of the order.
        rank, world: this process and how many there are; process r takes every world-th problem of a step, from
            the r-th on.

    Raises:
        ReasonRLError: there are fewer problems than a step needs, or some processes would be left without one.
    """

    def __init__(self, prompted: Sequence[Prompted], per_step: int, seed: int, rank: int = 0, world: int = 1) -> None:
        if per_step > len(prompted):
            raise ReasonRLError(
                f"problems_per_step is {per_step}, but there are only {len(prompted)} training problems; lower it"
            )
        if per_step < world:
            raise ReasonRLError(f"problems_per_step {per_step} leaves some of the {world} processes without a problem")
        self._prompted = prompted
        self._per_step = per_step
        self._seed = seed
        self._rank, self._world = rank, world

    def of_step(self, step: int) -> tuple[list[Prompted], list[int]]:
        """This process's problems of a step (from 1), and their positions in the step's global batch."""
        epoch, index = divmod(step - 1, len(self._prompted) // self._per_step)
        order = list(range(len(self._prompted)))
        random.Random(f"{self._seed}/{epoch}").shuffle(order)
        chosen = order[index * self._per_step : (index + 1) * self._per_step]
        positions = list(range(self._rank, self._per_step, self._world))
        return [self._prompted[chosen[position]] for position in positions], positions
