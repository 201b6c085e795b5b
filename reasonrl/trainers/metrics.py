"""What a step of reinforcement learning measures: one line of metrics.jsonl.

Of all responses of the step, over all processes: `reward`, `reward_std`, `pass_rate` (of those that could be judged);
`unjudged` (how many could not); `groups_that_agree` (share of groups whose rewards have no spread);
`response_length`, `response_length_max` (tokens); `truncated` (share cut at the limit); `reward/VERIFIER` (mean),
`reason/VERIFIER/REASON` (share); `policy_version` (the weights that sampled). Where a task streams, `rows_left_out`:
rows that were faulty, or whose prompt was too long, since the run began, each epoch anew.

Of the same responses, with process supervision: `step_reward` (mean, by the verifiers' weights) and `steps` (of a
response), the outcome among them where it counts as one. With dynamic sampling, `groups_left_out`: whose rewards had no
spread, and which others were sampled for.

Of the tokens trained on: `approx_kl`, KL(π_old ‖ π_θ), where π_old is the sampler's μ unless the trainer computed its
own, so that on policy it is what sampler and trainer differ by; `kl`, the policy against the reference, or `approx_kl`
where there is none; `clip_fraction`; `entropy` (nats, where asked for); `padding` (share of computed response tokens).
`kl_coefficient` is β, where it adapts; `penalty_kl`, KL(π_old ‖ π_θ) over the whole vocabulary after the step's
updates, and `penalty_coefficient`, the weight that it had in them (PPO-Penalty).

Of the same tokens, where the trainer's π_old is known (on policy, or with importance sampling): `mismatch_mean`,
`mismatch_max`, abs(log μ − log π_old) in nats; `importance_mean`, `importance_min`, `importance_max`, π_old/μ before
the cap; `importance_capped` (share of tokens above the cap). Whatever μ is, π_old/μ is 1 on average over all that is
sampled; the mean here is of the tokens trained on.

Of the updates: `policy_loss` (KL term included) and `grad_norm` (before clipping), means of the step; `updates`
(taken); `skipped_updates` (not finite, since the run began); `stopped_updates` (of this step, skipped since the policy
had moved as far as `target_kl` lets it); `learning_rate` (of the last update).

Of TRPO's one step: `trust_kl`, KL(π_old ‖ π_θ) over the whole vocabulary, and `surrogate_gain`, how much E[ρA] rose
(less β times how much a KL in the loss rose), both measured after it; `step_fraction`, what the line search left of it
(0: refused), and `line_search_tried`.

Of a critic: `value_loss`, `value_clip_fraction`, `explained_variance` (1 − Var[R̂ − V]/Var[R̂], before the updates),
`value_mean`; of one of its own `critic_grad_norm` and `critic_skipped_updates` (not finite, since the run began).

`seconds`, `seconds/PHASE`, `tokens_per_second` (sampled tokens, whole step) and `sampled_tokens_per_second` (sampling
alone).
"""

import math
import time
from collections import Counter
from collections.abc import Collection, Sequence
from statistics import fmean, pstdev

import torch
from torch import Tensor

from reasonrl.algorithms.importance import log_importance
from reasonrl.algorithms.masking import masked_sum
from reasonrl.trainers.sample import Sample
from reasonrl.trainers.session import Session, Update
from reasonrl.verifier import Verdict


class Clock:
    """Seconds of each phase of a step."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self.seconds: dict[str, float] = {}

    def lap(self, phase: str) -> None:
        """The time since the last lap was spent on `phase`."""
        now = time.monotonic()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last
        self._last = now


class TokenStats:
    """Means and extremes over the response tokens a step trains on, over all its micro-batches and processes.

    Args:
        means, maxima, minima: names of what `add` is given, by what is kept of it; the same everywhere, since processes
            without a micro-batch take part in the sums.
    """

    def __init__(self, means: Collection[str], maxima: Collection[str] = (), minima: Collection[str] = ()) -> None:
        self._sums: dict[str, float | Tensor] = dict.fromkeys(means, 0.0)
        self._signs = dict.fromkeys(maxima, 1) | dict.fromkeys(minima, -1)  # a minimum is the maximum of −x, negated
        self._highest: dict[str, float | Tensor] = dict.fromkeys(self._signs, -math.inf)
        self._tokens: float | Tensor = 0.0
        self._computed = 0.0
        self._marked: dict[str, float | Tensor] = {}
        self._marked_tokens: float | Tensor = 0.0
        self.mark()

    @torch.no_grad()
    def add(self, mask: Tensor, **values: Tensor) -> None:
        """Add a micro-batch: the response mask (B, T), and (B, T) values by name. All of it stays on the device."""
        self._computed += mask.numel()
        tokens = mask.sum()
        self._tokens, self._marked_tokens = self._tokens + tokens, self._marked_tokens + tokens
        for name in self._sums:
            added = masked_sum(values[name].double(), mask)
            self._sums[name], self._marked[name] = self._sums[name] + added, self._marked[name] + added
        for name, sign in self._signs.items():
            highest = (sign * values[name].double()).where(mask.bool(), -math.inf).amax()
            self._highest[name] = highest.maximum(torch.as_tensor(self._highest[name]).to(highest))

    def mark(self) -> None:
        """Begin to count for `mean_since_mark`."""
        self._marked, self._marked_tokens = dict.fromkeys(self._sums, 0.0), 0.0

    def mean_since_mark(self, name: str, session: Session) -> float:
        """A name's mean over what has been added since, 0 if nothing was. All processes must call this together."""
        return session.sum(float(self._marked[name])) / max(1.0, session.sum(float(self._marked_tokens)))

    def reduced(self, session: Session) -> dict[str, float]:
        """Each name's mean, maximum or minimum (0 if nothing was trained on), and `padding`.

        All processes must call this together.
        """
        tokens, computed = session.sum(float(self._tokens)), session.sum(self._computed)
        means = {name: session.sum(float(value)) / max(1.0, tokens) for name, value in self._sums.items()}
        highest = {name: session.max(float(value)) for name, value in self._highest.items()}
        extremes = {name: self._signs[name] * value if tokens else 0.0 for name, value in highest.items()}
        return means | extremes | {"padding": 1 - tokens / computed if computed else 0.0}


MISMATCH_MEANS = ("mismatch_mean", "importance_mean", "importance_capped")
MISMATCH_MAXIMA = ("mismatch_max", "importance_max")
MISMATCH_MINIMA = ("importance_min",)


def mismatch(old_logprobs: Tensor, sampler_logprobs: Tensor, mask: Tensor, cap: float) -> dict[str, Tensor]:
    """What `TokenStats` keeps of how sampler and trainer differ: (B, T) values by name, of (B, T) log-probabilities.

    Raises:
        ValueError: a sampler log-probability is missing.
    """
    apart = log_importance(old_logprobs, sampler_logprobs, mask).double()  # e^89 is infinite in float32
    distance, ratio = apart.abs(), apart.exp()
    ratios = dict.fromkeys(("importance_mean", "importance_max", "importance_min"), ratio)
    return {"mismatch_mean": distance, "mismatch_max": distance, "importance_capped": ratio > cap, **ratios}


def response_metrics(samples: Sequence[Sample]) -> dict[str, float]:
    """Rewards, correctness, lengths and reasons of all responses of a step, over all processes."""
    judged = [s.judged for s in samples]
    rewards = [one.scored.reward for one in judged if one.scored.reward is not None]
    correct = [one.scored.correct for one in judged if one.scored.correct is not None]
    by_group: dict[int, set[float]] = {}
    for s in samples:
        given = s.judged.scored.reward
        by_group.setdefault(s.row.group, set()).update(() if given is None else (given,))
    lengths = [len(s.row.response_ids) for s in samples]
    metrics = {
        "reward": fmean(rewards) if rewards else 0.0,
        "reward_std": pstdev(rewards) if rewards else 0.0,
        "pass_rate": fmean(correct) if correct else 0.0,
        "unjudged": float(len(judged) - len(rewards)),
        "groups_that_agree": fmean(len(distinct) < 2 for distinct in by_group.values()),
        "response_length": fmean(lengths),
        "response_length_max": float(max(lengths)),
        "truncated": fmean(one.rollout.finish_reason == "length" for one in judged),
        "policy_version": float(judged[0].rollout.version),
    }
    by_verifier: dict[str, list[Verdict]] = {}
    for one in judged:
        for weighted, verdict in zip(one.scored.verifiers, one.scored.verdicts, strict=True):
            by_verifier.setdefault(weighted.name, []).append(verdict)
    for name, verdicts in by_verifier.items():
        numbers = [v.reward for v in verdicts if v.reward is not None]
        metrics[f"reward/{name}"] = fmean(numbers) if numbers else 0.0
        for reason, number in Counter(v.reason for v in verdicts).items():
            metrics[f"reason/{name}/{reason}"] = number / len(verdicts)
    return metrics


def step_metrics(samples: Sequence[Sample]) -> dict[str, float]:
    """What the steps of all responses earned, where steps are supervised."""
    rewards = [step.reward for s in samples for step in s.steps]
    return {"step_reward": fmean(rewards) if rewards else 0.0, "steps": len(rewards) / len(samples)}


def update_metrics(updates: Sequence[Update | None], session: Session) -> dict[str, float]:
    """What the updates of a step did; None stands for one that had nothing to learn from."""
    taken = [u for u in updates if u is not None]
    return {
        "policy_loss": fmean(u.loss for u in taken) if taken else 0.0,
        "grad_norm": fmean(u.grad_norm for u in taken) if taken else 0.0,
        "updates": float(sum(u.applied for u in taken)),
        "skipped_updates": float(session.skipped),
        "learning_rate": taken[-1].learning_rate if taken else session.learning_rate,
    }


def time_metrics(clock: Clock, sampled_tokens: int) -> dict[str, float]:
    """Seconds by phase, and tokens per second."""
    seconds = sum(clock.seconds.values())
    return {
        "tokens_per_second": sampled_tokens / seconds,
        "sampled_tokens_per_second": sampled_tokens / clock.seconds["sample"],
        "seconds": seconds,
        **{f"seconds/{phase}": value for phase, value in clock.seconds.items()},
    }
