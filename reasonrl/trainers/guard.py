"""A guard against reward hacking: does the reward rise while a verifier that is no part of it says responses get worse?

The verifier is in the task with weight 0: it is asked, stored and in the metrics as `reward/NAME`, and trains nothing
(Gao, Schulman and Hilton 2022, arXiv 2210.10760, on what a policy does to a learned reward).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from rich.console import Console

from reasonrl.config import GuardConfig
from reasonrl.errors import ReasonRLError
from reasonrl.scoring import WeightedVerifier


class GuardStop(ReasonRLError):
    """The guard has ended a run early; the policy of its last step is kept and evaluated as at the end of any run.

    Args:
        message: why, and what there is to do.
        step: the last one.
    """

    def __init__(self, message: str, step: int) -> None:
        super().__init__(message)
        self.step = step


@dataclass(frozen=True)
class Divergence:
    """The reward rises while the observer's score falls, and the run is to stop.

    Attributes:
        text: what is wrong.
        best: the step in the middle of those where the observer's score was best.
    """

    text: str
    best: int


def fall(rewards: Sequence[float], observed: Sequence[float], window: int) -> float:
    """How far the observer's score lies below its best so far, if the reward is higher than it was there; else 0.

    Both are means over the last `window` steps. Rewards and scores have one number a step; 0 as long as there are not
    so many steps.
    """
    reward, score = (_moving(values, window) for values in (rewards, observed))
    if not score:
        return 0.0
    best = _highest(score)
    return score[best] - score[-1] if reward[-1] > reward[best] else 0.0


def best_step(observed: Sequence[float], window: int) -> int:
    """The step, from 1, in the middle of the `window` steps where the observer's score was best."""
    return _highest(_moving(observed, window)) + (window + 1) // 2


class Guard:
    """Looks at each step's metrics, warns, and says when to stop.

    Args:
        config: which verifier, and what is too far.
        phase: the algorithm's name in metrics.jsonl.
        metrics: that file, for a run that goes on.
        console: where it warns.
    """

    def __init__(self, config: GuardConfig, phase: str, metrics: Path, console: Console) -> None:
        self._config, self._phase, self._metrics, self._console = config, phase, metrics, console
        self._rewards: list[float] = []
        self._observed: list[float] = []
        self._warned = False

    def resumed(self, step: int) -> Divergence | None:
        """Look at the steps up to one, behind which a run goes on, and say what was said of it."""
        for line in self._metrics.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row["phase"] == self._phase and row["step"] <= step:
                self._take(row)
        return self._divergence(step)

    def after_step(self, step: int, metrics: Mapping[str, float]) -> Divergence | None:
        """Look at a step. All processes see the same metrics, and do the same."""
        self._take(metrics)
        return self._divergence(step)

    def _take(self, metrics: Mapping[str, float]) -> None:
        self._rewards.append(metrics["reward"])
        self._observed.append(metrics[f"reward/{self._config.verifier}"])

    def _divergence(self, step: int) -> Divergence | None:
        """What there is to stop for; a warning is spoken once, until it was better in between."""
        window = self._config.window
        fallen = fall(self._rewards, self._observed, window)
        if fallen < self._config.drop:
            self._warned = False
            return None
        text = (
            f"guard: step {step}: the reward rises, and what {self._config.verifier} says has fallen by {fallen:.3f} "
            f"from its best, in means over {window} steps: the policy may exploit the reward"
        )
        if not self._warned:
            self._console.print(text, style="yellow", highlight=False, markup=False, soft_wrap=True)
        self._warned = True
        return Divergence(text, best_step(self._observed, window)) if self._config.action == "stop" else None


def check_guard(config: GuardConfig, verifiers: Sequence[WeightedVerifier]) -> None:
    """Is the observer among the verifiers, and silent?

    Raises:
        ReasonRLError: it is not.
    """
    there = {one.name: one.weight for one in verifiers}
    if config.verifier not in there:
        raise ReasonRLError(
            f"guard.verifier: no verifier of the task is named {config.verifier!r}; there are: {', '.join(there)}"
        )
    if there[config.verifier] != 0:
        raise ReasonRLError(
            f"guard.verifier: {config.verifier} has weight {there[config.verifier]:g}, so it is part of the reward; "
            "give it weight 0 in the task"
        )


def _moving(values: Sequence[float], window: int) -> list[float]:
    sums = [0.0, *accumulate(values)]
    return [(sums[at] - sums[at - window]) / window for at in range(window, len(sums))]


def _highest(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)
