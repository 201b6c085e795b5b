import math

import pytest
import torch
from torch import Tensor

from reasonrl.algorithms.advantages import GroupStd, group_relative
from reasonrl.algorithms.process import process_agreeing, process_relative
from reasonrl.algorithms.steps import Steps

NAN, INF = float("nan"), float("inf")
STDS: list[GroupStd] = ["population", "sample", "none"]
# one group whose step rewards 4, 1 and 1 have mean 2; the fifth token of the first response is after its last step
STEPS = Steps(torch.tensor([4.0, 1, 1], dtype=torch.float64), torch.tensor([0, 0, 1]), torch.tensor([1, 3, 2]))
MASK = torch.tensor([[1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0]])


def steps(*each: tuple[float, int, int]) -> Steps:
    """Steps from (reward, response, end)."""
    rewards, responses, ends = zip(*each, strict=True)
    return Steps(torch.tensor(rewards, dtype=torch.float64), torch.tensor(responses), torch.tensor(ends))


def together(mask: Tensor) -> tuple[Tensor, Tensor]:
    """All responses in one group, all judged."""
    return torch.zeros(len(mask), dtype=torch.long), torch.ones(len(mask), dtype=torch.bool)


@pytest.mark.parametrize(("std", "scale"), [("population", math.sqrt(2)), ("sample", math.sqrt(3)), ("none", 1.0)])
def test_by_hand(std: GroupStd, scale: float) -> None:
    advantages = process_relative(*STEPS, *together(MASK), MASK, std=std, eps=0.0)
    expected = torch.tensor([[1.0, 1, -1, -1, 0, 0], [-1, -1, -1, 0, 0, 0]], dtype=torch.float64) / scale
    torch.testing.assert_close(advantages, expected, rtol=0, atol=1e-12)


def test_eps_is_added_to_the_standard_deviation() -> None:
    advantages = process_relative(*STEPS, *together(MASK), MASK, eps=0.5)
    assert advantages[1, 0].item() == pytest.approx(-1 / (math.sqrt(2) + 0.5))


def test_steps_that_end_at_the_same_token_add_up() -> None:
    # the rewards 5, 1, 0, 0, 4 have mean 2
    several = steps((5, 0, 2), (1, 0, 2), (0, 0, 0), (0, 1, 2), (4, 1, 0))
    advantages = process_relative(*several, *together(MASK), MASK, std="none")
    assert advantages.tolist() == [[0, 2, 2, 0, 0, 0], [0, -2, -2, 0, 0, 0]]


def test_a_masked_token_gets_zero_and_its_neighbours_none_of_its_share() -> None:
    mask = torch.tensor([[1, 0, 1, 1, 0, 1], [0, 1, 1, 0, 0, 0]])
    advantages = process_relative(*steps((4, 0, 2), (1, 0, 3), (1, 1, 2)), *together(mask), mask, std="none")
    assert advantages.tolist() == [[1, 0, 1, -1, 0, 0], [0, -1, -1, 0, 0, 0]]


def test_groups_are_apart_and_a_response_without_steps_gets_zero() -> None:
    mask = torch.ones(5, 2)
    ids = torch.tensor([-9, 2**62, -9, 2**62, -9])
    each = steps((1, 3, 1), (0, 2, 1), (3, 1, 0), (10, 0, 1))
    advantages = process_relative(*each, ids, torch.ones(5, dtype=torch.bool), mask, std="none")
    assert advantages.tolist() == [[5, 5], [1, 0], [-5, -5], [-1, -1], [0, 0]]
    assert process_agreeing(each.rewards, each.responses, ids, torch.ones(5, dtype=torch.bool)).tolist() == [
        *[False] * 4,
        True,
    ]


def test_the_steps_of_an_unjudged_response_leave_their_group_unread() -> None:
    # it has reward NaN, an end behind the mask and one outside the batch
    each = steps((4, 0, 1), (NAN, 2, 0), (1, 0, 3), (INF, 2, 3), (7, 2, 99), (1, 1, 2))
    mask = torch.cat([MASK, MASK[1:]])
    judged = torch.tensor([True, True, False])
    advantages = process_relative(*each, torch.zeros(3, dtype=torch.long), judged, mask, std="none")
    assert advantages.tolist() == [[1, 1, -1, -1, 0, 0], [-1, -1, -1, 0, 0, 0], [0] * 6]
    assert process_agreeing(each.rewards, each.responses, torch.zeros(3).long(), judged).tolist() == [0, 0, 1]


def test_a_judged_response_masked_everywhere_stays_in_its_group() -> None:
    mask = torch.cat([MASK[:1], torch.zeros(1, 6, dtype=torch.long)])
    advantages = process_relative(*STEPS, *together(mask), mask, std="none")
    assert advantages.tolist() == [[1, 1, -1, -1, 0, 0], [0] * 6]


@pytest.mark.parametrize("std", STDS)
@pytest.mark.parametrize("value", [0.0, 0.3, 1e6 + 0.3, -1e20])
@pytest.mark.parametrize("eps", [0.0, 1e-6])
def test_a_group_whose_step_rewards_agree_gives_exactly_zero(std: GroupStd, value: float, eps: float) -> None:
    rewards = torch.full((7,), value, dtype=torch.float32)
    responses, ends = torch.tensor([0, 0, 0, 0, 1, 1, 1]), torch.tensor([0, 1, 3, 4, 0, 1, 2])
    advantages = process_relative(rewards, responses, ends, *together(MASK), MASK, std=std, eps=eps)
    assert advantages.tolist() == [[0] * 6] * 2
    assert process_agreeing(rewards, responses, *together(MASK)).all()


@pytest.mark.parametrize("std", STDS)
def test_one_step_a_response_is_outcome_supervision(std: GroupStd) -> None:
    lengths = torch.tensor([4, 1, 6, 3])
    rewards = torch.tensor([0.2, 1.0, 0.7, -0.4], dtype=torch.float64)
    ids, judged = torch.tensor([1, 0, 1, 0]), torch.ones(4, dtype=torch.bool)
    mask = torch.arange(6) < lengths[:, None]
    order = torch.tensor([2, 0, 3, 1])
    advantages = process_relative(rewards[order], order, lengths[order] - 1, ids, judged, mask, std=std)
    assert torch.equal(advantages, group_relative(rewards, ids, judged, std=std)[:, None] * mask)


def test_empty() -> None:
    nothing = Steps(torch.empty(0), torch.empty(0).long(), torch.empty(0).long())
    assert process_relative(*nothing, *together(MASK), MASK).tolist() == [[0] * 6] * 2
    assert process_agreeing(nothing.rewards, nothing.responses, *together(MASK)).all()
    assert process_relative(*nothing, *together(MASK[:0]), MASK[:0]).shape == (0, 6)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ((1.0, 1, 3), "step 3, of response 1, ends at token 3, which is behind the mask"),
        ((1.0, 1, 6), "step 3, of response 1, ends at token 6, which is outside the batch's 6 tokens"),
        ((1.0, 0, -2), "ends at token -2, which is outside the batch's 6 tokens"),
        ((1.0, 2, 0), "a step is of response 2; the batch has responses 0 to 1"),
        ((1.0, -1, 0), "a step is of response -1"),
        ((NAN, 0, 0), "reward is NaN or infinite"),
        ((-INF, 0, 0), "reward is NaN or infinite"),
    ],
)
def test_a_step_that_cannot_be_is_an_error(wrong: tuple[float, int, int], message: str) -> None:
    each = steps((4, 0, 1), (1, 0, 3), (1, 1, 2), wrong)
    with pytest.raises(ValueError, match=message):
        process_relative(*each, *together(MASK), MASK)


@pytest.mark.parametrize(("reward", "response"), [(1.0, 2), (1.0, -1), (NAN, 0)])
def test_agreement_of_steps_that_cannot_be_is_an_error(reward: float, response: int) -> None:
    with pytest.raises(ValueError, match=r"NaN or infinite|a step is of response"):
        process_agreeing(torch.tensor([reward]), torch.tensor([response]), *together(MASK))


def test_shapes_that_would_broadcast_are_an_error() -> None:
    ids, judged = together(MASK)
    with pytest.raises(ValueError, match=r"step_ends is \(1,\); not flat of one length"):
        process_relative(STEPS.rewards, STEPS.responses, STEPS.ends[:1], ids, judged, MASK)
    with pytest.raises(ValueError, match=r"group_ids is \(1,\), judged is \(2,\)"):
        process_relative(*STEPS, ids[:1], judged, MASK)
    with pytest.raises(ValueError, match=r"judged is \(2,\) and the mask \(1, 6\)"):
        process_relative(*STEPS, ids, judged, MASK[:1])
    with pytest.raises(ValueError, match=r"step_rewards is \(1, 3\)"):
        process_agreeing(STEPS.rewards[None], STEPS.responses[None], ids, judged)
    with pytest.raises(ValueError, match=r"judged is \(1,\)"):
        process_agreeing(STEPS.rewards, STEPS.responses, ids, judged[:1])
