import math
import random
import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from reasonrl.algorithms.advantages import GroupStd, agreeing, group_relative, leave_one_out

NAN = float("nan")
STDS: list[GroupStd] = ["population", "sample", "none"]
ids_strategy = st.sampled_from([-(2**63), -7, 0, 3, 2**62, 2**63 - 1])
rewards_strategy = st.one_of(st.sampled_from([0.0, 0.3, 1.0]), st.floats(-5, 5).map(lambda r: round(r, 3)))
response_strategy = st.tuples(rewards_strategy, ids_strategy, st.booleans())
batch_strategy = st.lists(response_strategy, max_size=24)
Batch = list[tuple[float, int, bool]]


def tensors(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    rewards = torch.tensor([r if judged else NAN for r, _, judged in batch], dtype=torch.float64)
    ids = torch.tensor([i for _, i, _ in batch], dtype=torch.long)
    return rewards, ids, torch.tensor([judged for _, _, judged in batch], dtype=torch.bool)


def all_judged(rewards: Tensor) -> Tensor:
    return torch.ones_like(rewards, dtype=torch.bool)


def by_the_book(batch: Batch, std: GroupStd, eps: float) -> list[float]:
    """The definition, with Python's own statistics and one response at a time."""
    deviation = {"population": statistics.pstdev, "sample": statistics.stdev}
    advantages = []
    for reward, group, judged in batch:
        members = [r for r, i, seen in batch if seen and i == group]
        if not judged or len(set(members)) == 1:
            advantages.append(0.0)
            continue
        scale = 1.0 if std == "none" else deviation[std](members) + eps
        advantages.append((reward - statistics.fmean(members)) / scale)
    return advantages


def against_the_others(batch: Batch) -> list[float]:
    """The definition of leave_one_out, one response at a time."""
    advantages = []
    for index, (reward, group, judged) in enumerate(batch):
        others = [r for other, (r, i, seen) in enumerate(batch) if seen and i == group and other != index]
        advantages.append(reward - statistics.fmean(others) if judged and others else 0.0)
    return advantages


def test_by_hand() -> None:
    # group 7 is 1, 0, 0, 1 (std 1/2); group 2 is 3, 1, 2 (population std √(2/3), sample std 1)
    rewards = torch.tensor([1.0, 3, 0, 1, 0, 2, 1], dtype=torch.float64)
    ids = torch.tensor([7, 2, 7, 2, 7, 2, 7])
    judged = all_judged(rewards)
    root = math.sqrt(1.5)
    population = group_relative(rewards, ids, judged, eps=0.0)
    assert population.tolist() == pytest.approx([1, root, -1, -root, -1, 0, 1])
    sample = group_relative(rewards, ids, judged, std="sample", eps=0.0)
    half = math.sqrt(3) / 2
    assert sample.tolist() == pytest.approx([half, 1, -half, -1, -half, 0, half])
    none = group_relative(rewards, ids, judged, std="none")
    assert none.tolist() == pytest.approx([0.5, 1, -0.5, -1, -0.5, 0, 0.5])


def test_leave_one_out_by_hand() -> None:
    # group 7 is 1, 0, 0, 1: of the others' three either one or two are 1; group 2 is 3, 1, 2; group 5 is alone
    rewards = torch.tensor([1.0, 3, 0, 1, 9, 0, 2, 1], dtype=torch.float64)
    advantages = leave_one_out(rewards, torch.tensor([7, 2, 7, 2, 5, 7, 2, 7]), all_judged(rewards))
    assert advantages.tolist() == pytest.approx([2 / 3, 1.5, -2 / 3, -1.5, 0, -2 / 3, 0, 2 / 3])


def test_eps_is_added_to_the_standard_deviation() -> None:
    rewards = torch.tensor([1.0, 0.0], dtype=torch.float64)
    advantages = group_relative(rewards, torch.tensor([0, 0]), all_judged(rewards), eps=0.25)
    assert advantages.tolist() == pytest.approx([0.5 / 0.75, -0.5 / 0.75])


@pytest.mark.parametrize("std", STDS)
@pytest.mark.parametrize("value", [0.0, 0.3, 1.0, -0.1, 1e6 + 0.3, -1e20])
@pytest.mark.parametrize("size", [1, 2, 7, 64])
@pytest.mark.parametrize("eps", [0.0, 1e-6])
def test_a_group_that_agrees_gives_exactly_zero(std: GroupStd, value: float, size: int, eps: float) -> None:
    rewards = torch.full((size,), value, dtype=torch.float32)
    ids = torch.zeros(size, dtype=torch.long)
    assert group_relative(rewards, ids, all_judged(rewards), std=std, eps=eps).tolist() == [0.0] * size
    assert leave_one_out(rewards, ids, all_judged(rewards)).tolist() == [0.0] * size
    assert agreeing(rewards, ids, all_judged(rewards)).all()


def test_a_large_offset_does_not_eat_the_differences() -> None:
    # near 1e6 float32 has steps of 1/16; the sum of the seven has steps of 1/2, so their plain mean is off
    above = torch.tensor([1.0, 0, 0, 1, 0, 0, 0], dtype=torch.float32)
    ids = torch.zeros(7, dtype=torch.long)
    near_zero, far = (group_relative(r, ids, all_judged(r), eps=0.0) for r in (above, 1e6 + above / 16))
    assert far.tolist() == pytest.approx(near_zero.tolist(), abs=1e-6)
    sixteenths = leave_one_out(1e6 + above / 16, ids, all_judged(above)) * 16
    assert sixteenths.tolist() == pytest.approx([5 / 6, -1 / 3, -1 / 3, 5 / 6, -1 / 3, -1 / 3, -1 / 3], abs=1e-6)


def test_an_unjudged_response_leaves_its_group_and_gets_zero() -> None:
    rewards = torch.tensor([1.0, NAN, 0.0, 5.0, 1.0, NAN, 1.0, float("inf")], dtype=torch.float64)
    ids = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2])
    judged = torch.tensor([True, False, True, False, True, False, True, False])
    assert group_relative(rewards, ids, judged, eps=0.0).tolist() == [1, 0, -1, 0, 0, 0, 0, 0]
    assert leave_one_out(rewards, ids, judged).tolist() == [1, 0, -1, 0, 0, 0, 0, 0]
    assert agreeing(rewards, ids, judged).tolist() == [False, True, False, True, True, True, True, True]


def test_one_judged_member_gets_zero() -> None:
    rewards = torch.tensor([1.0, NAN, NAN])
    judged = torch.tensor([True, False, False])
    for std in STDS:
        assert group_relative(rewards, torch.tensor([4, 4, 4]), judged, std=std).tolist() == [0, 0, 0]
    assert leave_one_out(rewards, torch.tensor([4, 4, 4]), judged).tolist() == [0, 0, 0]
    assert agreeing(rewards, torch.tensor([4, 4, 4]), judged).all()


def test_an_empty_batch_is_empty() -> None:
    assert group_relative(*tensors([])).shape == (0,)
    assert leave_one_out(*tensors([])).shape == (0,)
    assert agreeing(*tensors([])).shape == (0,)


@pytest.mark.parametrize("bad", [NAN, float("inf"), -float("inf")])
def test_a_judged_reward_that_is_no_number_is_an_error(bad: float) -> None:
    rewards = torch.tensor([1.0, bad])
    for function in (group_relative, leave_one_out, agreeing):
        with pytest.raises(ValueError, match="judged reward is NaN or infinite"):
            function(rewards, torch.tensor([0, 0]), torch.tensor([True, True]))


def test_shapes_that_would_broadcast_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"\(2,\), \(1,\), \(2,\)"):
        group_relative(torch.ones(2), torch.tensor([0]), torch.tensor([True, True]))
    with pytest.raises(ValueError, match=r"\(2,\), \(2,\), \(1,\)"):
        leave_one_out(torch.ones(2), torch.tensor([0, 0]), torch.tensor([True]))
    with pytest.raises(ValueError, match=r"must be \(B,\) each"):
        agreeing(torch.ones(2, 1), torch.ones(2, 1).long(), torch.ones(2, 1).bool())


@settings(deadline=None)
@given(batch=batch_strategy, std=st.sampled_from(STDS), eps=st.sampled_from([1e-6, 1e-2]))
def test_any_groups_follow_the_definition(batch: Batch, std: GroupStd, eps: float) -> None:
    advantages = group_relative(*tensors(batch), std=std, eps=eps)
    assert advantages.tolist() == pytest.approx(by_the_book(batch, std, eps), rel=1e-9, abs=1e-9)


@settings(deadline=None)
@given(batch=batch_strategy)
def test_leave_one_out_follows_the_definition(batch: Batch) -> None:
    assert leave_one_out(*tensors(batch)).tolist() == pytest.approx(against_the_others(batch), rel=1e-9, abs=1e-9)


@settings(deadline=None)
@given(batch=batch_strategy, std=st.sampled_from(STDS))
def test_agreeing_is_where_no_member_of_the_group_has_an_advantage(batch: Batch, std: GroupStd) -> None:
    rewards, ids, judged = tensors(batch)
    moved = group_relative(rewards, ids, judged, std=std) != 0
    group_moves = ((ids[:, None] == ids[None, :]) & moved[None, :]).any(dim=1)
    assert torch.equal(agreeing(rewards, ids, judged), ~(judged & group_moves))
    assert torch.equal(leave_one_out(rewards, ids, judged) != 0, moved)


@settings(deadline=None)
@given(batch=batch_strategy, std=st.sampled_from(STDS[:2]))
def test_advantages_are_bounded_by_the_root_of_the_group(batch: Batch, std: GroupStd) -> None:
    rewards, ids, judged = tensors(batch)
    size = ((ids[:, None] == ids[None, :]) & judged[None, :]).sum(dim=1)
    advantages = group_relative(rewards.float(), ids, judged, std=std, eps=0.0)
    assert (advantages.abs() <= size.sqrt()).all()


@settings(deadline=None)
@given(batch=batch_strategy, seed=st.integers(0, 10**6))
def test_permuting_responses_permutes_advantages(batch: Batch, seed: int) -> None:
    order = random.Random(seed).sample(range(len(batch)), len(batch))
    advantages = group_relative(*tensors(batch))[order]
    torch.testing.assert_close(group_relative(*tensors([batch[i] for i in order])), advantages, rtol=1e-9, atol=1e-9)


@settings(deadline=None)
@given(batch=batch_strategy, shift=st.floats(-100, 100), std=st.sampled_from(STDS))
def test_shifting_all_rewards_changes_nothing(batch: Batch, shift: float, std: GroupStd) -> None:
    rewards, ids, judged = tensors(batch)
    before, after = (group_relative(r, ids, judged, std=std) for r in (rewards, rewards + shift))
    torch.testing.assert_close(before, after, rtol=1e-6, atol=1e-6)


@settings(deadline=None)
@given(batch=batch_strategy)
def test_only_the_partition_by_id_matters(batch: Batch) -> None:
    names = {group: 10 * index - 3 for index, group in enumerate(dict.fromkeys(i for _, i, _ in batch))}
    renamed = [(r, names[i], judged) for r, i, judged in batch]
    torch.testing.assert_close(group_relative(*tensors(renamed)), group_relative(*tensors(batch)))
