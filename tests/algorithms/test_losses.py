import math

import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from reasonrl.algorithms.losses import (
    POLICY_LOSSES,
    LossName,
    cispo,
    cispo_clipped,
    clip,
    clipped,
    gspo,
    gspo_clipped,
    importance_weighted,
)
from reasonrl.algorithms.masking import masked

RATIOS = [0.5, 0.85, 1.0, 1.25, 1.3, 4.0]


def at_ratios(ratios: list[float]) -> tuple[Tensor, Tensor]:
    """logprobs and old_logprobs (1, T) with these ratios."""
    old_logprobs = torch.full((1, len(ratios)), -1.0, dtype=torch.float64)
    return (old_logprobs + torch.tensor(ratios, dtype=torch.float64).log()).requires_grad_(), old_logprobs


@pytest.mark.parametrize(
    ("advantage", "dual_clip", "losses", "held"),
    [
        (2.0, None, [-1.0, -1.7, -2.0, -2.5, -2.56, -2.56], [0, 0, 0, 0, 1, 1]),
        (-2.0, None, [1.6, 1.7, 2.0, 2.5, 2.6, 8.0], [1, 0, 0, 0, 0, 0]),
        (-2.0, 3.0, [1.6, 1.7, 2.0, 2.5, 2.6, 6.0], [1, 0, 0, 0, 0, 1]),
        (2.0, 3.0, [-1.0, -1.7, -2.0, -2.5, -2.56, -2.56], [0, 0, 0, 0, 1, 1]),
        (0.0, None, [0.0] * 6, [0] * 6),
    ],
)
def test_by_hand(advantage: float, dual_clip: float | None, losses: list[float], held: list[int]) -> None:
    logprobs, old_logprobs = at_ratios(RATIOS)
    advantages = torch.tensor([advantage], dtype=torch.float64)
    loss = clip(logprobs, old_logprobs, advantages, clip_low=0.2, clip_high=0.28, dual_clip=dual_clip)
    assert loss[0].tolist() == pytest.approx(losses)
    holds = clipped(logprobs, old_logprobs, advantages, clip_low=0.2, clip_high=0.28, dual_clip=dual_clip)
    assert holds[0].tolist() == [bool(h) for h in held]


@pytest.mark.parametrize(
    ("advantage", "dual_clip", "losses", "held"),
    [
        (2.0, None, [-1.0, -1.7, -2.0, -2.5, -2.56, -2.56], [0, 0, 0, 0, 1, 1]),
        (-2.0, None, [1.6, 1.7, 2.0, 2.5, 2.6, 6.0], [1, 0, 0, 0, 0, 1]),
        (-2.0, 2.0, [1.6, 1.7, 2.0, 2.5, 2.6, 4.0], [1, 0, 0, 0, 0, 1]),
        (-2.0, 3.5, [1.6, 1.7, 2.0, 2.5, 2.6, 6.0], [1, 0, 0, 0, 0, 1]),
    ],
)
def test_the_two_sided_clip_by_hand(
    advantage: float, dual_clip: float | None, losses: list[float], held: list[int]
) -> None:
    logprobs, old_logprobs = at_ratios(RATIOS)
    advantages = torch.tensor([advantage], dtype=torch.float64)
    loss = clip(logprobs, old_logprobs, advantages, clip_low=0.2, clip_high=0.28, dual_clip=dual_clip, delta=3.0)
    assert loss[0].tolist() == pytest.approx(losses)
    holds = clipped(logprobs, old_logprobs, advantages, clip_low=0.2, clip_high=0.28, dual_clip=dual_clip, delta=3.0)
    assert holds[0].tolist() == [bool(h) for h in held]
    (gradient,) = torch.autograd.grad(loss.sum(), logprobs)
    expected = [0.0 if h else -ratio * advantage for ratio, h in zip(RATIOS, held, strict=True)]
    assert gradient[0].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("delta", [1.2, 1.0])
def test_a_delta_within_the_clip_is_an_error(delta: float) -> None:
    for function in (clip, clipped):
        with pytest.raises(ValueError, match=r"delta is 1\..; .* greater than 1\.2"):
            function(torch.zeros(1, 1), torch.zeros(1, 1), torch.zeros(1), clip_low=0.2, clip_high=0.2, delta=delta)


@settings(deadline=None)
@given(
    ratios=st.lists(st.floats(0.05, 10), min_size=1, max_size=12),
    advantage=st.floats(-3, 3),
    bound=st.floats(1.31, 6),
)
def test_the_two_sided_clip_is_the_dual_clip(ratios: list[float], advantage: float, bound: float) -> None:
    logprobs, old_logprobs = at_ratios(ratios)
    advantages = torch.tensor([advantage], dtype=torch.float64)
    losses = [
        clip(logprobs, old_logprobs, advantages, clip_low=0.2, clip_high=0.3, dual_clip=dual_clip, delta=delta)
        for dual_clip, delta in [(bound, None), (None, bound), (bound, bound)]
    ]
    torch.testing.assert_close(losses[1], losses[0])
    torch.testing.assert_close(losses[2], losses[0])


def test_without_a_clip_by_hand() -> None:
    logprobs, old_logprobs = at_ratios(RATIOS)
    loss = importance_weighted(logprobs, old_logprobs, torch.tensor([-2.0], dtype=torch.float64))
    assert loss[0].tolist() == pytest.approx([1.0, 1.7, 2.0, 2.5, 2.6, 8.0])
    (gradient,) = torch.autograd.grad(loss.sum(), logprobs)
    torch.testing.assert_close(gradient, loss)


@settings(deadline=None)
@given(
    ratios=st.lists(st.floats(0.05, 10), min_size=1, max_size=12),
    advantage=st.sampled_from([-1.5, 0.7]),
    dual_clip=st.sampled_from([None, 2.0]),
)
@example(ratios=[2.0], advantage=-1.5, dual_clip=2.0)
def test_the_gradient_is_zero_where_clipped_and_minus_ratio_times_advantage_elsewhere(
    ratios: list[float], advantage: float, dual_clip: float | None
) -> None:
    logprobs, old_logprobs = at_ratios(ratios)
    # On a limit, but for rounding, both sides of a minimum are equal, and torch gives each half of the gradient.
    limits = torch.tensor([1 - 0.2, 1 + 0.3, 2.0], dtype=torch.float64)
    assume(not torch.isclose(torch.tensor(ratios, dtype=torch.float64)[:, None], limits, rtol=1e-12).any())
    advantages = torch.tensor([advantage], dtype=torch.float64)
    loss = clip(logprobs, old_logprobs, advantages, clip_low=0.2, clip_high=0.3, dual_clip=dual_clip)
    holds = clipped(logprobs, old_logprobs, advantages, clip_low=0.2, clip_high=0.3, dual_clip=dual_clip)
    (gradient,) = torch.autograd.grad(loss.sum(), logprobs)
    ratio = (logprobs - old_logprobs).exp().detach()
    torch.testing.assert_close(gradient, torch.where(holds, 0.0, -ratio * advantage))


@pytest.mark.parametrize("dual_clip", [None, 3.0])
def test_on_policy_it_has_the_plain_policy_gradient(dual_clip: float | None) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(4, 6, 9, generator=generator, dtype=torch.float64).requires_grad_()
    sampled = torch.randint(9, (4, 6, 1), generator=generator)
    advantages = torch.tensor([1.3, -0.4, 0.0, -2.0], dtype=torch.float64)
    logprobs = logits.log_softmax(-1).gather(-1, sampled)[..., 0]
    # π_old is a constant even when it is given as the very same tensor
    loss = clip(logprobs, logprobs, advantages, clip_low=0.2, clip_high=0.2, dual_clip=dual_clip)
    torch.testing.assert_close(loss, -advantages[:, None].expand(4, 6))
    (gradient,) = torch.autograd.grad(loss.sum(), logits, retain_graph=True)
    plain = -(advantages[:, None] * logprobs).sum()
    torch.testing.assert_close(gradient, torch.autograd.grad(plain, logits)[0])


def test_an_advantage_a_token_is_its_own() -> None:
    logprobs, old_logprobs = at_ratios([1.1, 1.5, 0.5])
    advantages = torch.tensor([[1.0, 2.0, -3.0]], dtype=torch.float64)
    loss = clip(logprobs, old_logprobs, advantages, clip_low=0.2, clip_high=0.2)
    assert loss[0].tolist() == pytest.approx([-1.1, -2.4, 2.4])
    assert clipped(logprobs, old_logprobs, advantages, clip_low=0.2, clip_high=0.2).tolist() == [[False, True, True]]


def test_one_advantage_a_response_goes_along_the_row_in_a_square_batch() -> None:
    zeros = torch.zeros(2, 2)
    assert clip(zeros, zeros, torch.tensor([1.0, 5.0]), clip_low=0.2, clip_high=0.2).tolist() == [[-1, -1], [-5, -5]]


def test_nan_behind_the_mask_reaches_nothing() -> None:
    mask = torch.tensor([[1, 1, 0]])
    logprobs = torch.tensor([[-1.0, -2.0, math.nan]], requires_grad=True)
    old_logprobs = torch.tensor([[-1.0, -2.1, -math.inf]])
    advantages = torch.tensor([[1.0, -1.0, math.nan]])
    inputs = [masked(tensor, mask) for tensor in (logprobs, old_logprobs, advantages)]
    loss = masked(clip(*inputs, clip_low=0.2, clip_high=0.2), mask)
    (gradient,) = torch.autograd.grad(loss.sum(), logprobs)
    assert loss[0].tolist() == pytest.approx([-1.0, math.exp(0.1), 0.0])
    assert gradient[0].tolist() == pytest.approx([-1.0, math.exp(0.1), 0.0])


def test_shapes_that_do_not_fit_are_an_error() -> None:
    zeros = torch.zeros(2, 3)
    for function in (clip, clipped):
        with pytest.raises(ValueError, match=r"advantages are \(3,\)"):
            function(zeros, zeros, torch.zeros(3), clip_low=0.2, clip_high=0.2)
        with pytest.raises(ValueError, match="old_logprobs"):
            function(zeros, torch.zeros(3), torch.zeros(2), clip_low=0.2, clip_high=0.2)
        with pytest.raises(ValueError, match="greater than 1"):
            function(zeros, zeros, torch.zeros(2), clip_low=0.2, clip_high=0.2, dual_clip=1.0)
    with pytest.raises(ValueError, match="old_logprobs"):
        importance_weighted(zeros, torch.zeros(3), torch.zeros(2))


def test_by_name_it_is_the_function_of_that_name() -> None:
    logprobs, old_logprobs = at_ratios(RATIOS)
    advantages = torch.tensor([1.5], dtype=torch.float64)
    mask = torch.tensor([[1, 1, 1, 0, 1, 1]])
    plain = (logprobs, old_logprobs, advantages)
    expected: dict[LossName, tuple[Tensor, Tensor]] = {
        "clip": (clip(*plain, clip_low=0.1, clip_high=0.2), clipped(*plain, clip_low=0.1, clip_high=0.2)),
        "gspo": (
            gspo(*plain, mask, clip_low=0.1, clip_high=0.2),
            gspo_clipped(*plain, mask, clip_low=0.1, clip_high=0.2),
        ),
        "cispo": (cispo(*plain, clip_low=0.1, clip_high=0.2), cispo_clipped(*plain, clip_low=0.1, clip_high=0.2)),
        "importance_weighted": (importance_weighted(*plain), torch.zeros(1, 6, dtype=torch.bool)),
    }
    assert POLICY_LOSSES.keys() == expected.keys()
    for name, (loss, holds) in expected.items():
        assert torch.equal(POLICY_LOSSES[name].loss(*plain, mask, clip_low=0.1, clip_high=0.2), loss)
        assert torch.equal(POLICY_LOSSES[name].clipped(*plain, mask, clip_low=0.1, clip_high=0.2), holds)
    assert not torch.equal(expected["clip"][0], expected["gspo"][0])
