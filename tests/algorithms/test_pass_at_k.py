from itertools import combinations

import pytest

from reasonrl.algorithms.pass_at_k import bootstrap_interval, mean_pass_at_k, pass_at_k, pass_hat_k


def test_by_hand() -> None:
    # 4 samples, 1 correct: of the 6 pairs 3 hold the correct one, and none is correct throughout
    assert pass_at_k(4, 1, 2) == 0.5
    assert pass_hat_k(4, 1, 2) == 0.0
    # 4 samples, 3 correct: no pair misses, 3 pairs are correct throughout
    assert pass_at_k(4, 3, 2) == 1.0
    assert pass_hat_k(4, 3, 2) == 0.5


@pytest.mark.parametrize("n", range(1, 8))
def test_every_small_case_by_counting_subsets(n: int) -> None:
    for c in range(n + 1):
        for k in range(1, n + 1):
            subsets = list(combinations([True] * c + [False] * (n - c), k))
            assert pass_at_k(n, c, k) == sum(map(any, subsets)) / len(subsets)
            assert pass_hat_k(n, c, k) == sum(map(all, subsets)) / len(subsets)


def test_k_of_one_is_the_share_of_correct_samples() -> None:
    assert pass_at_k(7, 3, 1) == pass_hat_k(7, 3, 1) == 3 / 7


def test_large_numbers_neither_overflow_nor_lose_digits() -> None:
    assert pass_at_k(10_000, 1, 5_000) == 0.5
    assert pass_at_k(10**6, 1, 1) == 1e-6
    assert pass_hat_k(10_000, 9_999, 5_000) == 0.5


@pytest.mark.parametrize("function", [pass_at_k, pass_hat_k])
@pytest.mark.parametrize(("n", "c", "k"), [(4, 1, 5), (4, 1, 0), (4, 5, 1), (4, -1, 1), (0, 0, 1)])
def test_numbers_that_cannot_be_are_an_error(function: object, n: int, c: int, k: int) -> None:
    assert callable(function)
    with pytest.raises(ValueError, match=r"k = \d is outside|correct of"):
        function(n, c, k)


def test_the_mean_gives_each_problem_one_vote() -> None:
    assert mean_pass_at_k([(4, 1), (2, 2), (100, 0)], 2) == pytest.approx((0.5 + 1 + 0) / 3)


def test_the_mean_names_k_and_the_problem_that_falls_short() -> None:
    with pytest.raises(ValueError, match=r"pass@4 needs 4 .* 2 of 3 problems have fewer, the first at index 1 with 3"):
        mean_pass_at_k([(4, 1), (3, 1), (0, 0)], 4)
    with pytest.raises(ValueError, match="pass@4 of no problem"):
        mean_pass_at_k([], 4)


def test_the_interval_is_seeded() -> None:
    values = [0.0, 1.0, 0.51, 0.23, 0.97, 0.08, 0.36]
    assert bootstrap_interval(values, 1) == bootstrap_interval(values, 1)
    assert bootstrap_interval(values, 1) != bootstrap_interval(values, 2)


def test_the_interval_of_equal_values_is_a_point() -> None:
    assert bootstrap_interval([0.25] * 6, 0) == (0.25, 0.25)


def test_the_interval_has_the_width_of_the_standard_error() -> None:
    # 400 problems, half solved: 0.5 ± 1.96 · 0.5/√400
    low, high = bootstrap_interval([0.0, 1.0] * 200, 0, draws=4000)
    assert [low, high] == pytest.approx([0.451, 0.549], abs=0.004)
    narrow_low, narrow_high = bootstrap_interval([0.0, 1.0] * 200, 0, level=0.5)
    assert low < narrow_low < 0.5 < narrow_high < high


def test_the_interval_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no problem"):
        bootstrap_interval([], 0)
    with pytest.raises(ValueError, match="level is 95"):
        bootstrap_interval([1.0], 0, level=95)
    with pytest.raises(ValueError, match="draws is 0"):
        bootstrap_interval([1.0], 0, draws=0)
