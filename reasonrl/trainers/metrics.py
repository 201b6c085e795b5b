"""What a step of reinforcement learning measures."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

import torch
from torch import Tensor

from reasonrl.batch import Row
from reasonrl.evaluation.evaluate import Judged
from reasonrl.scoring import WeightedVerifier


@dataclass(frozen=True)
class Sample:
    """One response on its way through a step.

    Attributes:
        judged: the response and its verdicts.
        row: what is trained on, with its advantage.
        counted: is it part of the loss (judged, and not masked for being cut)?
        learns: does it have a gradient? Responses of a group that agrees have none.
    """

    judged: Judged
    row: Row
    counted: bool
    learns: bool


class Clock:
    """Seconds of each phase of a step."""

    def __init__(self) -> None:
        self.started = self._last = time.monotonic()
        self.seconds: dict[str, float] = {}

    def lap(self, phase: str) -> None:
        """The time since the last lap was spent on `phase`."""
        now = time.monotonic()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last
        self._last = now


class TokenStats:
    """Sums over trained response tokens, to be divided by their number at the end of the step."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}

    def add(self, name: str, value: Tensor) -> None:
        """Add a scalar; it stays on its device."""
        self._sums[name] = self._sums.get(name, torch.zeros((), device=value.device, dtype=torch.float64)) + value

    def sum(self, name: str) -> float:
        """The sum on this process, 0 if nothing was added."""
        return float(self._sums.get(name, torch.zeros(())))


def response_metrics(samples: Sequence[Sample], verifiers: Sequence[WeightedVerifier]) -> dict[str, float]:
    """Rewards, correctness, lengths and reasons of all responses of a step, over all processes."""
    judged = [s.judged for s in samples]
    rewards = [one.scored.reward for one in judged if one.scored.reward is not None]
    correct = [one.scored.correct for one in judged if one.scored.correct is not None]
    groups = {s.row.group for s in samples}
    lengths = [len(s.row.response_ids) for s in samples]
    metrics = {
        "reward": fmean(rewards) if rewards else 0.0,
        "reward_std": pstdev(rewards) if rewards else 0.0,
        "pass_rate": fmean(correct) if correct else 0.0,
        "unjudged": float(len(judged) - len(rewards)),
        "groups_that_agree": 1 - len({s.row.group for s in samples if s.learns}) / len(groups),
        "response_length": fmean(lengths),
        "response_length_max": float(max(lengths)),
        "truncated": fmean(one.rollout.finish_reason == "length" for one in judged),
    }
    for index, weighted in enumerate(verifiers):
        verdicts = [one.scored.verdicts[index] for one in judged]
        given = [v.reward for v in verdicts if v.reward is not None]
        metrics[f"reward/{weighted.name}"] = fmean(given) if given else 0.0
        for reason, number in Counter(v.reason for v in verdicts).items():
            metrics[f"reason/{weighted.name}/{reason}"] = number / len(judged)
    return metrics
