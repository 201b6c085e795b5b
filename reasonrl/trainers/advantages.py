"""From what a step's responses earned to the advantage of each of their tokens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from reasonrl.algorithms.advantages import agreeing, group_relative, leave_one_out
from reasonrl.algorithms.process import process_agreeing, process_relative
from reasonrl.algorithms.returns import returns_to_go
from reasonrl.algorithms.steps import Steps
from reasonrl.algorithms.token_rewards import token_rewards
from reasonrl.algorithms.whitening import SumOver, whiten
from reasonrl.config import AdvantageConfig
from reasonrl.trainers.sample import Sample


@dataclass(frozen=True)
class Earned:
    """What B responses earned, in float64 on the CPU.

    Attributes:
        outcome: (B,) rewards, 0 where unjudged.
        judged: (B,) bool.
        group_ids: (B,).
        mask: (B, T), their tokens.
        charge: (B, T), what each token pays for having left the reference, β·KL_t; 0 without a KL in the reward.
        steps: what their steps earned.
    """

    outcome: Tensor
    judged: Tensor
    group_ids: Tensor
    mask: Tensor
    charge: Tensor
    steps: Steps

    @property
    def charged(self) -> Tensor:
        """The outcome less what all tokens of the response pay, (B,)."""
        return self.outcome - self.charge.sum(1)

    @property
    def charged_steps(self) -> Tensor:
        """What each step earned, less what the tokens since the step before it pay, (N,).

        The last step of a response also pays for the tokens behind it, which could else stray for nothing.
        """
        paid = torch.cat([self.charge.new_zeros(len(self.charge), 1), self.charge.cumsum(1)], dim=1)
        rows, begin, end = self.steps.responses, torch.zeros_like(self.steps.ends), self.steps.ends + 1
        # steps of a response follow one another in order; its first begins with its first token
        begin[1:] = end[:-1] * (rows[1:] == rows[:-1])
        end[:-1][rows[1:] != rows[:-1]] = end[-1:] = self.charge.shape[1]
        return self.steps.rewards - (paid[rows, end] - paid[rows, begin])


def earned(samples: Sequence[Sample], beta: float) -> Earned:
    """What the samples earned. β is 0 where no KL stands in the reward; else they have that of their tokens."""
    # The types are given, since there may be no samples: where every group of this process is left out.
    lengths = torch.tensor([len(s.row.response_ids) for s in samples], dtype=torch.long)
    mask = torch.arange(int(max(lengths, default=0)))[None] < lengths[:, None]
    charge = torch.zeros(mask.shape, dtype=torch.float64)
    if beta > 0 and samples:
        charge[mask] = beta * torch.tensor([kl for s in samples for kl in s.kl], dtype=torch.float64)
    steps = [(step.reward, index, step.end) for index, s in enumerate(samples) for step in s.steps]
    rewards, responses, ends = zip(*steps, strict=True) if steps else ((), (), ())
    return Earned(
        outcome=torch.tensor([s.outcome for s in samples], dtype=torch.float64),
        judged=torch.tensor([s.known for s in samples], dtype=torch.bool),
        group_ids=torch.tensor([s.row.group for s in samples], dtype=torch.long),
        mask=mask,
        charge=charge,
        steps=Steps(
            torch.tensor(rewards, dtype=torch.float64),
            torch.tensor(responses, dtype=torch.long),
            torch.tensor(ends, dtype=torch.long),
        ),
    )


def without_spread(found: Earned, config: AdvantageConfig) -> Tensor:
    """Where a response's group has no spread in what it earned, or it is itself unjudged, (B,) bool."""
    if config.process is not None:
        return process_agreeing(found.charged_steps, found.steps.responses, found.group_ids, found.judged)
    return agreeing(found.charged, found.group_ids, found.judged)


def with_advantages(
    samples: Sequence[Sample], found: Earned, config: AdvantageConfig, sum_over: SumOver, *, all_learn: bool
) -> list[Sample]:
    """The samples with their advantages, and whether each has a gradient.

    Args:
        samples: of a step, whole groups.
        found: what they earned.
        config: which advantage.
        sum_over: sums a tensor over processes; all of them call this together.
        all_learn: does something else than the advantage, as a KL in the loss, pull on every response?
    """
    # A response masked for being cut has a reward like any other and stays in its group's mean (DAPO, §3.4, masks the
    # loss); one that could not be judged has none.
    advantages = ADVANTAGES[config.advantage](found, config, sum_over)
    whitened = config.advantage in ("batch_whitened", "group_centred_whitened")
    if all_learn:
        silent = torch.zeros_like(found.judged)
    else:  # what is whitened has no spread of a group to go by, but a batch that agrees has exact zeros
        silent = ~advantages.bool().any(dim=1) if whitened else without_spread(found, config)
    columns = zip(samples, advantages.tolist(), silent.tolist(), strict=True)
    return [
        replace(s, row=replace(s.row, advantages=tuple(a[: len(s.row.response_ids)])), learns=s.counted and not quiet)
        for s, a, quiet in columns
    ]


def _on_tokens(advantages: Tensor, found: Earned) -> Tensor:
    return advantages[:, None] * found.mask


def _group_relative(found: Earned, config: AdvantageConfig, sum_over: SumOver) -> Tensor:
    std, eps = config.std, config.std_epsilon
    if config.process is None:
        return _on_tokens(group_relative(found.charged, found.group_ids, found.judged, std=std, eps=eps), found)
    steps = found.steps._replace(rewards=found.charged_steps)
    return process_relative(*steps, found.group_ids, found.judged, found.mask, std=std, eps=eps)


def _leave_one_out(found: Earned, config: AdvantageConfig, sum_over: SumOver) -> Tensor:
    return _on_tokens(leave_one_out(found.charged, found.group_ids, found.judged), found)


def _batch_whitened(found: Earned, config: AdvantageConfig, sum_over: SumOver) -> Tensor:
    judged = found.mask & found.judged[:, None]
    rewards = token_rewards(judged, outcome=found.outcome, kl=found.charge, beta=1.0)
    return whiten(returns_to_go(rewards, judged), judged, sum_over=sum_over)


def _group_centred_whitened(found: Earned, config: AdvantageConfig, sum_over: SumOver) -> Tensor:
    centred = group_relative(found.outcome, found.group_ids, found.judged, std="none")
    return _batch_whitened(replace(found, outcome=centred), config, sum_over)


ADVANTAGES: dict[str, Callable[[Earned, AdvantageConfig, SumOver], Tensor]] = {
    "group_relative": _group_relative,
    "leave_one_out": _leave_one_out,
    "batch_whitened": _batch_whitened,
    "group_centred_whitened": _group_centred_whitened,
}
