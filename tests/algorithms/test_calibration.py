"""Numbers by hand, and identities, of what learned scores are measured by."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from reasonrl.algorithms.calibration import (
    best_threshold,
    calibration_error,
    first_error,
    first_error_accuracy,
    roc_auc,
    step_loss,
)


def test_calibration_error_by_hand() -> None:
    """Bins of a tenth: 0.05 said and 0 happened; 0.30 of two said and 1 happened; 0.95 said and 1 happened."""
    said, happened = torch.tensor([0.05, 0.15, 0.15, 0.95]), torch.tensor([0.0, 1.0, 0.0, 1.0])
    assert float(calibration_error(said, happened)) == pytest.approx((0.05 + 0.70 + 0.05) / 4)
    assert float(calibration_error(said, happened, bins=1)) == pytest.approx((2 - 1.3) / 4)


@pytest.mark.parametrize(("said", "expected"), [(1.0, 0.0), (0.0, 1.0), (0.7, 0.3)])
def test_certainty_has_a_bin(said: float, expected: float) -> None:
    assert float(calibration_error(torch.tensor([said] * 3), torch.ones(3))) == pytest.approx(expected)


def test_of_nothing_there_is_no_calibration() -> None:
    assert math.isnan(float(calibration_error(torch.zeros(0), torch.zeros(0))))


def test_roc_auc_by_hand() -> None:
    """Of four pairs the positive is above in three and level in one."""
    assert float(roc_auc(torch.tensor([1.0, 2.0, 2.0, 3.0]), torch.tensor([0, 1, 0, 1]))) == 3.5 / 4


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=1, max_size=12))
def test_roc_auc_is_the_share_of_pairs_in_order(rows: list[tuple[int, bool]]) -> None:
    scores, labels = torch.tensor([float(s) for s, _ in rows]), torch.tensor([label for _, label in rows])
    pairs = [(p > n) + (p == n) / 2 for p, up in rows for n, down in rows if up and not down]
    found = float(roc_auc(scores, labels))
    assert math.isnan(found) if not pairs else found == pytest.approx(sum(pairs) / len(pairs))
    if pairs:
        assert float(roc_auc(-scores, labels)) == pytest.approx(1 - found)


@pytest.mark.parametrize(("rewards", "expected"), [([0.9, 0.4, 0.1], 1), ([0.5, 0.6], -1), ([0.4], 0), ([], -1)])
def test_the_first_error_is_the_first_below(rewards: list[float], expected: int) -> None:
    assert first_error(torch.tensor(rewards)) == expected
    assert first_error(torch.tensor(rewards), threshold=0.0) == -1


def test_first_error_accuracy_by_hand() -> None:
    """One of two wrong solutions and two of three right ones: F1 is 2·(1/2)(2/3)/(7/6)."""
    found, labels = torch.tensor([0, 1, -1, -1, 2]), torch.tensor([0, 2, -1, -1, -1])
    assert [float(one) for one in first_error_accuracy(found, labels)] == pytest.approx([1 / 2, 2 / 3, 4 / 7])


def test_first_error_accuracy_at_its_ends() -> None:
    labels = torch.tensor([0, -1])
    assert [float(one) for one in first_error_accuracy(torch.tensor([1, 0]), labels)] == [0, 0, 0]
    assert [float(one) for one in first_error_accuracy(torch.tensor([-1, -1]), labels)] == [0, 1, 0]
    on_wrong, on_right, f1 = first_error_accuracy(torch.tensor([-1]), torch.tensor([-1]))
    assert float(on_right) == 1
    assert math.isnan(float(on_wrong))
    assert math.isnan(float(f1))


def test_step_loss_by_hand() -> None:
    """q = 3/4."""
    logits = torch.tensor([[0.0, math.log(3)]] * 3)
    expected = [-math.log(0.75), -math.log(0.25), -(math.log(0.75) + math.log(0.25)) / 2]
    assert step_loss(logits, torch.tensor([1.0, 0.0, 0.5])).tolist() == pytest.approx(expected)


def test_the_gradient_of_a_step_is_q_minus_p() -> None:
    logits = torch.tensor([[0.3, -0.4], [1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0.25, 1.0], dtype=torch.float64)
    step_loss(logits, labels).sum().backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert torch.allclose(logits.grad[:, 1], logits.detach().softmax(-1)[:, 1] - labels)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: calibration_error(torch.ones(2), torch.ones(3)), "shapes"),
        (lambda: calibration_error(torch.tensor([1.5]), torch.ones(1)), "outside"),
        (lambda: calibration_error(torch.ones(1), torch.ones(1), bins=0), "bins"),
        (lambda: roc_auc(torch.ones(2), torch.ones(3)), "shapes"),
        (lambda: step_loss(torch.ones(3, 3), torch.ones(3)), "expected"),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[[], Tensor], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        call()


def test_the_best_threshold_by_hand() -> None:
    rewards = [torch.tensor(one) for one in ([0.9, 0.3, 0.6], [0.8, 0.7], [0.95], [0.5, 0.4])]
    labels = torch.tensor([1, 0, -1, -1])
    # The wrong ones are found by t in (0.3, 0.9] and above 0.8, the right ones pass up to 0.95 and 0.4. So between 0.3
    # and 0.4 a = 1/2 and b = 1, and between 0.8 and 0.9 a = 1 and b = 1/2: F1 is 2/3 on both, and nowhere higher.
    assert best_threshold(rewards, labels) == pytest.approx((0.4, 2 / 3))


def test_above_all_rewards_the_first_step_is_found() -> None:
    """No threshold finds the one and passes the other; and one between 0.5 and 0.6 does both."""
    for other, expected in ((0.2, 0.0), (0.6, 1.0)):
        threshold, f1 = best_threshold([torch.tensor([0.5]), torch.tensor([other])], torch.tensor([0, -1]))
        assert f1 == expected
        assert threshold == pytest.approx(other)


def test_the_best_threshold_needs_right_and_wrong_ones() -> None:
    for label in (0, -1):
        assert all(math.isnan(one) for one in best_threshold([torch.tensor([0.5])], torch.tensor([label])))
    with pytest.raises(ValueError, match="rewards of 1 solutions for 2 labels"):
        best_threshold([torch.tensor([0.5])], torch.tensor([0, 1]))


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 6), min_size=1, max_size=4), st.integers(-1, 3)), min_size=1, max_size=8)
)
def test_no_threshold_is_better_than_the_best(solutions: list[tuple[list[int], int]]) -> None:
    rewards = [torch.tensor(steps).double() / 8 for steps, _ in solutions]
    labels = torch.tensor([min(label, len(steps) - 1) for steps, label in solutions])
    threshold, f1 = best_threshold(rewards, labels)
    tried = []
    for least in [*torch.arange(-1, 17) / 16, threshold]:
        found = torch.tensor([first_error(one, threshold=float(least)) for one in rewards])
        tried.append(float(first_error_accuracy(found, labels)[2]))
    if math.isnan(f1):
        assert all(math.isnan(one) for one in tried)
    else:
        assert tried[-1] == pytest.approx(f1)
        assert f1 == pytest.approx(max(tried))
