"""The denominators: by hand, and by cutting, padding and reordering one batch of a small real policy."""

from dataclasses import dataclass
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from reasonrl.algorithms.aggregation import AGGREGATIONS, AggregationMode, aggregate, count
from reasonrl.algorithms.kl import kl_estimate
from reasonrl.algorithms.losses import clip
from reasonrl.algorithms.masking import masked

NAN = float("nan")
B, T, V = 8, 7, 6
VALUES = torch.tensor([[1.0, 2.0, 3.0, NAN], [5.0, NAN, NAN, NAN], [NAN, NAN, NAN, NAN]], dtype=torch.float64)
MASK = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
by_mode = pytest.mark.parametrize("mode", AGGREGATIONS)


@pytest.mark.parametrize(
    ("mode", "by_hand"), [("sequence_mean", (2 + 5) / 2), ("token_mean", 11 / 4), ("constant", 11 / (2 * 10))]
)
def test_by_hand(mode: AggregationMode, by_hand: float) -> None:
    sequences, tokens = count(MASK)
    assert (sequences.item(), tokens.item()) == (2, 4)
    assert aggregate(VALUES, MASK, mode, sequences=sequences, tokens=tokens, max_length=10).item() == by_hand
    assert aggregate(VALUES, MASK, mode, sequences=2, tokens=4, max_length=10).item() == by_hand
    # the rest of a global batch twice as large lies elsewhere
    assert aggregate(VALUES, MASK, mode, sequences=4, tokens=8, max_length=10).item() == by_hand / 2


@by_mode
def test_nothing_behind_the_mask_gets_a_gradient(mode: AggregationMode) -> None:
    values = VALUES.clone().requires_grad_()
    loss = aggregate(values, MASK, mode, sequences=2, tokens=4, max_length=10)
    (gradient,) = torch.autograd.grad(loss, values)
    assert torch.equal(gradient != 0, MASK.bool())
    assert gradient.isfinite().all()


@by_mode
def test_a_step_without_a_token_has_loss_zero(mode: AggregationMode) -> None:
    values = VALUES.clone().requires_grad_()
    nothing = torch.zeros_like(MASK)
    sequences, tokens = count(nothing)
    for counts in ((sequences, tokens), (0, 0)):
        loss = aggregate(values, nothing, mode, sequences=counts[0], tokens=counts[1], max_length=10)
        assert loss.item() == 0
        assert torch.autograd.grad(loss, values)[0].eq(0).all()


@pytest.mark.parametrize("max_length", [None, 0])
def test_constant_without_a_length_is_an_error(max_length: int | None) -> None:
    with pytest.raises(ValueError, match="max_length must be positive"):
        aggregate(VALUES, MASK, "constant", sequences=2, tokens=4, max_length=max_length)


@dataclass(frozen=True)
class Batch:
    """Responses of a bigram policy: sampled[t] is drawn from the logits in row previous[t] of its weights."""

    previous: Tensor
    sampled: Tensor
    old_logprobs: Tensor
    ref_logprobs: Tensor
    advantages: Tensor
    mask: Tensor

    def at(self, rows: list[int]) -> "Batch":
        return Batch(*(tensor[rows] for tensor in vars(self).values()))

    def padded(self, columns: int) -> "Batch":
        """More columns behind the mask, NaN where a float can be."""
        long = torch.zeros(len(self.mask), columns, dtype=torch.long)
        nan = torch.full((len(self.mask), columns), NAN, dtype=self.advantages.dtype)
        tails = {"previous": long, "sampled": long, "old_logprobs": nan, "ref_logprobs": nan, "mask": long}
        return Batch(**{k: torch.cat([v, tails[k]], 1) if k in tails else v for k, v in vars(self).items()})


def make_batch(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Batch]:
    """The policy's weights (V, V), and a batch in which some ratios are clipped and one row is masked out."""
    generator = torch.Generator().manual_seed(3)
    weights = torch.randn(V, V, generator=generator, dtype=dtype)
    previous, sampled = torch.randint(V, (2, B, T), generator=generator)
    logprobs = weights.log_softmax(-1)[previous, sampled]
    old_logprobs, ref_logprobs = logprobs + 0.3 * torch.randn(2, B, T, generator=generator, dtype=dtype)
    advantages = torch.randn(B, generator=generator, dtype=dtype)
    lengths = torch.tensor([7, 1, 3, 0, 5, 2, 7, 4])
    mask = (torch.arange(T) < lengths[:, None]).long()
    return weights, Batch(previous, sampled, old_logprobs, ref_logprobs, advantages, mask)


def loss_and_gradient(weights: Tensor, parts: list[Batch], mode: AggregationMode) -> tuple[Tensor, Tensor]:
    """The GRPO loss with its KL term over a step's micro-batches, gradients accumulated as a trainer does."""
    weights = weights.clone().requires_grad_()
    counts = [count(part.mask) for part in parts]
    sequences, tokens = sum(c[0] for c in counts), sum(c[1] for c in counts)
    total, gradient = torch.zeros((), dtype=weights.dtype), torch.zeros_like(weights)
    for part in parts:
        logprobs = masked(weights.log_softmax(-1)[part.previous, part.sampled], part.mask)
        old_logprobs, ref_logprobs = masked(part.old_logprobs, part.mask), masked(part.ref_logprobs, part.mask)
        loss = clip(logprobs, old_logprobs, part.advantages, clip_low=0.2, clip_high=0.28)
        loss = loss + 0.04 * kl_estimate(logprobs, ref_logprobs, "k3")
        share = aggregate(loss, part.mask, mode, sequences=sequences, tokens=tokens, max_length=16)
        total = total + share.detach()
        gradient = gradient + torch.autograd.grad(share, weights)[0]
    return total, gradient


def assert_unchanged(mode: AggregationMode, parts: list[Batch]) -> None:
    weights, whole = make_batch()
    expected = loss_and_gradient(weights, [whole], mode)
    assert expected[1].abs().max() > 1e-3
    torch.testing.assert_close(loss_and_gradient(weights, parts, mode), expected, rtol=1e-12, atol=1e-14)


@by_mode
@pytest.mark.parametrize("micro_batches", [1, 2, 4, 8])
def test_cutting_the_batch_changes_nothing(mode: AggregationMode, micro_batches: int) -> None:
    whole = make_batch()[1]
    rows = torch.arange(B).chunk(micro_batches)
    assert_unchanged(mode, [whole.at(part.tolist()) for part in rows])


@by_mode
def test_cutting_in_float32_changes_less_than_the_documented_1e_5(mode: AggregationMode) -> None:
    weights, whole = make_batch(torch.float32)
    parts = [whole.at(part.tolist()) for part in torch.arange(B).chunk(4)]
    expected = loss_and_gradient(weights, [whole], mode)
    torch.testing.assert_close(loss_and_gradient(weights, parts, mode), expected, rtol=1e-5, atol=1e-6)


@by_mode
@pytest.mark.parametrize("columns", [1, 9])
def test_padding_changes_nothing(mode: AggregationMode, columns: int) -> None:
    assert_unchanged(mode, [make_batch()[1].padded(columns)])


@settings(deadline=None, max_examples=60)
@given(
    mode=st.sampled_from(list(AGGREGATIONS)),
    order=st.permutations(range(B)),
    cuts=st.sets(st.integers(1, B - 1)),
    columns=st.integers(0, 3),
)
def test_any_order_cut_and_padding_changes_nothing(
    mode: AggregationMode, order: list[int], cuts: set[int], columns: int
) -> None:
    whole = make_batch()[1]
    edges = [0, *sorted(cuts), B]
    parts = [whole.at(order[start:end]) for start, end in pairwise(edges)]
    assert_unchanged(mode, [part.padded(columns * index) for index, part in enumerate(parts)])
