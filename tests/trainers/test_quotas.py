"""Shares of a mixture: exact after any number of steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasonrl.trainers.quotas import Quotas

WEIGHTS = st.lists(st.floats(0.01, 100), min_size=1, max_size=5)


def test_three_to_one_by_hand() -> None:
    quotas = Quotas([3, 1], per_step=2)
    assert [quotas.of_step(step) for step in range(1, 5)] == [[2, 0], [1, 1], [2, 0], [1, 1]]
    assert quotas.before(5) == [6, 2]


def test_one_part_gives_everything() -> None:
    assert Quotas([0.3], per_step=7).of_step(4) == [7]


@given(WEIGHTS, st.integers(1, 20), st.integers(1, 30))
def test_every_part_has_its_share_to_within_one_item_or_so(weights: list[float], per_step: int, step: int) -> None:
    quotas = Quotas(weights, per_step)
    counts = quotas.of_step(step)
    assert sum(counts) == per_step
    assert min(counts) >= 0
    items = (step - 1) * per_step
    for weight, total in zip(weights, quotas.before(step), strict=True):
        assert abs(total - items * weight / sum(weights)) < len(weights), "no part drifts away"


def test_asking_out_of_order_changes_nothing() -> None:
    forwards, backwards = Quotas([2, 5, 1], 3), Quotas([2, 5, 1], 3)
    assert [forwards.of_step(s) for s in range(1, 9)] == [backwards.of_step(s) for s in range(8, 0, -1)][::-1]


@pytest.mark.parametrize("weights", [[1, 1], [10, 10]])
def test_only_the_ratio_of_weights_counts(weights: list[float]) -> None:
    assert [Quotas(weights, 3).of_step(s) for s in (1, 2)] == [[2, 1], [1, 2]]
