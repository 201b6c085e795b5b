"""The engine interface: requests in, rollouts out as each is finished."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from reasonrl.types import Rollout


@dataclass(frozen=True)
class Sampling:
    """The distribution responses are drawn from, and when they end.

    Attributes:
        temperature: divides the logits; 0 is greedy (the logprobs are then those at temperature 1).
        top_p: keep the smallest set of likeliest tokens with at least this mass.
        top_k: keep the k likeliest tokens; 0 keeps all.
        min_p: keep the tokens whose probability is at least min_p times that of the likeliest; 0 keeps all.
        max_tokens: most response tokens, the end-of-sequence token included.
        stop: texts that end a response. The text is cut before them; the token ids keep all that was sampled.

    Raises:
        ValueError: a number is out of its range, or a stop text is empty.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    max_tokens: int = 512
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        kept = 0 < self.top_p <= 1 and self.top_k >= 0 and 0 <= self.min_p <= 1
        if not (kept and self.temperature >= 0 and self.max_tokens >= 1):
            raise ValueError(
                "sampling needs temperature ≥ 0, 0 < top_p ≤ 1, top_k ≥ 0, 0 ≤ min_p ≤ 1 and max_tokens ≥ 1, "
                f"not {self}"
            )
        if "" in self.stop:
            raise ValueError("an empty stop text would end every response at once")


@dataclass(frozen=True)
class Request:
    """Sample `len(seeds)` responses to one prompt; response j draws from seeds[j] alone, whatever else is sampled."""

    problem_id: str
    prompt_ids: tuple[int, ...]
    seeds: tuple[int, ...]


class Engine(ABC):
    """Samples responses from the current weights.

    Class attributes:
        keeps_copy: does it sample from a copy of the weights? Then a sync brings them under the checkpoint's names.
    """

    keeps_copy: ClassVar[bool] = False

    @abstractmethod
    def sample(self, requests: Sequence[Request], sampling: Sampling) -> Iterator[Rollout]:
        """Yield each response as soon as it is finished, in any order."""

    @abstractmethod
    def sync(self, weights: Iterator[tuple[str, Tensor]], version: int) -> None:
        """Take over the policy's weights (by parameter name); later rollouts carry this version."""

    def rest(self) -> None:  # noqa: B027  (an engine that shares the trainer's model has nothing to give)
        """Give memory back until the next `sync`: the trainer calls it when a step's responses are there."""

    @abstractmethod
    def close(self) -> None:
        """Give back what the engine holds. Safe to call twice."""


def sample_seed(run_seed: int, step: int, problem_id: str, sample: int) -> int:
    """The seed of one sample (63 bits), the same in a resumed run and on any number of processes."""
    text = f"{run_seed}/{step}/{sample}/{problem_id}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
