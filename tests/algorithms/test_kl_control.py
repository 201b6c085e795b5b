import math

import pytest

from reasonrl.algorithms.kl_control import adapted_coefficient, beyond_target, penalty_coefficient

NAN = math.nan


@pytest.mark.parametrize(
    ("kl", "count", "by_hand"),
    [
        (6.0, 256, 0.2),
        (6.6, 256, 0.2 * (1 + 0.1 * 256 / 10_000)),
        (5.4, 256, 0.2 * (1 - 0.1 * 256 / 10_000)),
        (60.0, 256, 0.2 * (1 + 0.2 * 256 / 10_000)),
        (math.inf, 10_000, 0.24),
        (0.0, 256, 0.2 * (1 - 0.2 * 256 / 10_000)),
        (-1.0, 10_000, 0.16),
        (60.0, 0, 0.2),
    ],
)
def test_the_controller_by_hand(kl: float, count: int, by_hand: float) -> None:
    assert adapted_coefficient(0.2, kl, target=6.0, count=count, horizon=10_000) == pytest.approx(by_hand)


def test_the_controller_settles_where_the_kl_meets_the_target() -> None:
    """With a policy whose KL is 1/β, the only β with KL = target is 1/target."""
    beta = 10.0
    for _ in range(2_000):
        beta = adapted_coefficient(beta, 1 / beta, target=0.5, count=1_000, horizon=10_000)
    assert beta == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("kl", "factor"), [(0.0, 0.5), (0.0199, 0.5), (0.0201, 1), (0.03, 1), (0.0449, 1), (0.0451, 2), (math.inf, 2)]
)
def test_the_penalty_by_hand(kl: float, factor: float) -> None:
    assert penalty_coefficient(3.0, kl, target=0.03) == 3.0 * factor


@pytest.mark.parametrize(("kl", "beyond"), [(-0.01, False), (0.375, False), (0.376, True), (math.inf, True)])
def test_the_stop_by_hand(kl: float, beyond: bool) -> None:
    assert beyond_target(kl, 0.25) is beyond


@pytest.mark.parametrize(
    ("kl", "target", "message"), [(NAN, 1.0, "KL is NaN"), (0.1, 0.0, "target KL is 0"), (0.1, NAN, "nan")]
)
def test_numbers_that_say_nothing_are_an_error(kl: float, target: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        adapted_coefficient(0.1, kl, target=target, count=1, horizon=10)
    with pytest.raises(ValueError, match=message):
        penalty_coefficient(0.1, kl, target=target)
    with pytest.raises(ValueError, match=message):
        beyond_target(kl, target)


@pytest.mark.parametrize(("count", "horizon"), [(50, 10), (-1, 10), (1, 0)])
def test_a_batch_that_could_turn_the_coefficient_is_an_error(count: int, horizon: int) -> None:
    with pytest.raises(ValueError, match="5 horizons"):
        adapted_coefficient(0.1, 1.0, target=1.0, count=count, horizon=horizon)
