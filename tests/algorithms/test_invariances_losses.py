"""What holds of every policy loss: on policy, and under cutting, padding and reordering a batch of a small policy."""

from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from reasonrl.algorithms.aggregation import AGGREGATIONS, AggregationMode, aggregate, count
from reasonrl.algorithms.losses import POLICY_LOSSES, LossName
from reasonrl.algorithms.masking import masked

NAN = float("nan")
B, T, V = 8, 6, 5
LOW, HIGH = 0.06, 0.08
by_name = pytest.mark.parametrize("name", POLICY_LOSSES)
by_mode = pytest.mark.parametrize("mode", AGGREGATIONS)


@dataclass(frozen=True)
class Batch:
    """Responses of a bigram policy: sampled[t] is drawn from the logits in row previous[t] of its weights."""

    previous: Tensor
    sampled: Tensor
    old_logprobs: Tensor
    advantages: Tensor
    mask: Tensor

    def at(self, rows: list[int]) -> "Batch":
        return Batch(*(tensor[rows] for tensor in vars(self).values()))

    def padded(self, columns: int) -> "Batch":
        """More columns behind the mask, NaN where a float can be."""
        long = torch.zeros(len(self.mask), columns, dtype=torch.long)
        nan = torch.full((len(self.mask), columns), NAN, dtype=torch.float64)
        tails = {"previous": long, "sampled": long, "old_logprobs": nan, "mask": long}
        if self.advantages.dim() == 2:
            tails["advantages"] = nan
        return Batch(**{k: torch.cat([v, tails[k]], 1) if k in tails else v for k, v in vars(self).items()})


def logprobs_of(weights: Tensor, batch: Batch) -> Tensor:
    return weights.log_softmax(-1)[batch.previous, batch.sampled]


def make_batch(seed: int, *, per_token: bool) -> tuple[Tensor, Batch]:
    """The policy's weights (V, V), and a batch with NaN behind the mask and one row masked out."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(V, V, generator=generator, dtype=torch.float64)
    previous, sampled = torch.randint(V, (2, B, T), generator=generator)
    noise = 0.2 * torch.randn(B, T, generator=generator, dtype=torch.float64)
    advantages = torch.randn(B, T, generator=generator, dtype=torch.float64)
    mask = (torch.arange(T) < torch.tensor([6, 1, 3, 0, 5, 2, 6, 4])[:, None]).long()
    behind = torch.where(mask.bool(), 0.0, NAN)
    batch = Batch(previous, sampled, noise + behind, advantages + behind if per_token else advantages[:, 0], mask)
    return weights, replace(batch, old_logprobs=logprobs_of(weights, batch) + batch.old_logprobs)


def loss_and_gradient(
    weights: Tensor, parts: list[Batch], name: LossName, mode: AggregationMode
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss over a step's micro-batches, its gradient as a trainer accumulates it, and how many tokens are held."""
    weights = weights.clone().requires_grad_()
    counts = [count(part.mask) for part in parts]
    sequences, tokens = sum(c[0] for c in counts), sum(c[1] for c in counts)
    total, gradient, held = torch.zeros((), dtype=torch.float64), torch.zeros_like(weights), torch.zeros(())
    for part in parts:
        # the model's own log-probabilities behind the mask may be NaN too
        logprobs = torch.where(part.mask.bool(), logprobs_of(weights, part), NAN)
        advantages = masked(part.advantages, part.mask) if part.advantages.dim() == 2 else part.advantages
        inputs = (masked(logprobs, part.mask), masked(part.old_logprobs, part.mask), advantages, part.mask)
        loss = POLICY_LOSSES[name].loss(*inputs, clip_low=LOW, clip_high=HIGH)
        share = aggregate(loss, part.mask, mode, sequences=sequences, tokens=tokens, max_length=16)
        total = total + share.detach()
        gradient = gradient + torch.autograd.grad(share, weights)[0]
        held = held + masked(POLICY_LOSSES[name].clipped(*inputs, clip_low=LOW, clip_high=HIGH), part.mask).sum()
    return total, gradient, held


@by_name
@by_mode
@pytest.mark.parametrize("per_token", [False, True])
def test_on_policy_it_has_the_plain_policy_gradient(name: LossName, mode: AggregationMode, per_token: bool) -> None:
    weights, batch = make_batch(0, per_token=per_token)
    batch = replace(batch, old_logprobs=logprobs_of(weights, batch))
    _, gradient, held = loss_and_gradient(weights, [batch], name, mode)
    free = weights.clone().requires_grad_()
    advantages = batch.advantages if per_token else batch.advantages[:, None].expand(B, T)
    total = torch.zeros((), dtype=torch.float64)
    lengths = batch.mask.sum(1)
    divisors = {
        "sequence_mean": 7 * lengths,
        "token_mean": lengths.sum().expand(B),
        "constant": torch.full((B,), 7 * 16),
    }
    for i in range(B):
        for t in range(int(lengths[i])):
            logprob = free.log_softmax(-1)[batch.previous[i, t], batch.sampled[i, t]]
            total = total - advantages[i, t] * logprob / divisors[mode][i]
    (plain,) = torch.autograd.grad(total, free)
    assert plain.abs().max() > 1e-3
    torch.testing.assert_close(gradient, plain, rtol=1e-12, atol=1e-14)
    assert held == 0


@by_name
@by_mode
@pytest.mark.parametrize("micro_batches", [2, 4])
def test_cutting_the_batch_changes_nothing(name: LossName, mode: AggregationMode, micro_batches: int) -> None:
    weights, whole = make_batch(1, per_token=False)
    expected = loss_and_gradient(weights, [whole], name, mode)
    # neither is every token held, nor, where there is a clip, none
    assert (0 < expected[2] < whole.mask.sum()) == (name != "importance_weighted")
    assert expected[1].isfinite().all()
    assert expected[1].abs().max() > 1e-3
    parts = [whole.at(rows.tolist()) for rows in torch.arange(B).chunk(micro_batches)]
    torch.testing.assert_close(loss_and_gradient(weights, parts, name, mode), expected, rtol=0, atol=1e-12)


@settings(deadline=None, max_examples=100)
@given(
    name=st.sampled_from(list(POLICY_LOSSES)),
    mode=st.sampled_from(list(AGGREGATIONS)),
    seed=st.integers(0, 1000),
    per_token=st.booleans(),
    order=st.permutations(range(B)),
    cuts=st.sets(st.integers(1, B - 1)),
    columns=st.integers(0, 3),
)
def test_any_order_cut_and_padding_changes_nothing(
    name: LossName,
    mode: AggregationMode,
    seed: int,
    per_token: bool,
    order: list[int],
    cuts: set[int],
    columns: int,
) -> None:
    weights, whole = make_batch(seed, per_token=per_token)
    expected = loss_and_gradient(weights, [whole], name, mode)
    assert expected[1].isfinite().all()
    parts = [whole.at(order[start:end]) for start, end in pairwise([0, *sorted(cuts), B])]
    moved = [part.padded(columns * index) for index, part in enumerate(parts)]
    torch.testing.assert_close(loss_and_gradient(weights, moved, name, mode), expected, rtol=0, atol=1e-12)


@by_name
def test_a_small_step_down_the_loss_raises_what_was_good(name: LossName) -> None:
    """Tokens of a positive advantage become more likely on average, those of a negative one less."""
    weights, batch = make_batch(2, per_token=False)
    batch = replace(batch, old_logprobs=logprobs_of(weights, batch))
    _, gradient, _ = loss_and_gradient(weights, [batch], name, "token_mean")
    moved = logprobs_of(weights - 1e-3 * gradient, batch) - logprobs_of(weights, batch)
    assert masked(batch.advantages[:, None] * moved, batch.mask).sum() > 0
