import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from reasonrl.algorithms.kl import full_kl
from reasonrl.algorithms.trust_region import LineSearch, conjugate_gradient, line_search, natural_step

HESSIAN = torch.tensor([[4.0, 1.0], [1.0, 3.0]], dtype=torch.float64)


def times(matrix: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda vector: matrix @ vector


def positive_definite(size: int, seed: int) -> tuple[Tensor, Tensor]:
    """A matrix (size, size) and a vector of that size."""
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(size, size, generator=generator, dtype=torch.float64)
    return root @ root.T + torch.eye(size), torch.randn(size, generator=generator, dtype=torch.float64)


def test_a_first_iteration_by_hand() -> None:
    """b = (1, 2): bᵀb = 5, bᵀHb = 20, so that x = b/4; the second iteration is exact: H⁻¹b = (1, 7)/11."""
    b = torch.tensor([1.0, 2.0], dtype=torch.float64)
    x, bent = conjugate_gradient(times(HESSIAN), b, iterations=1, tolerance=0.0)
    assert (x.tolist(), bent.tolist()) == ([0.25, 0.5], [1.5, 1.75])
    x, bent = conjugate_gradient(times(HESSIAN), b, iterations=2, tolerance=0.0)
    assert x.tolist() == pytest.approx([1 / 11, 7 / 11])
    assert bent.tolist() == pytest.approx([1, 2])


@settings(deadline=None, max_examples=40)
@given(size=st.integers(1, 12), seed=st.integers(0, 1000))
def test_it_solves_what_a_direct_solver_solves(size: int, seed: int) -> None:
    matrix, b = positive_definite(size, seed)
    x, _ = conjugate_gradient(times(matrix), b, iterations=6 * size, tolerance=1e-13)
    torch.testing.assert_close(x, torch.linalg.solve(matrix, b), rtol=1e-8, atol=1e-9)


@settings(deadline=None, max_examples=40)
@given(size=st.integers(1, 12), iterations=st.integers(1, 12), seed=st.integers(0, 1000))
def test_the_product_it_gives_is_that_of_its_solution(size: int, iterations: int, seed: int) -> None:
    matrix, b = positive_definite(size, seed)
    x, bent = conjugate_gradient(times(matrix), b, iterations=iterations, tolerance=1e-6)
    torch.testing.assert_close(bent, matrix @ x, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(("tolerance", "products"), [(0.5, 1), (0.3, 2), (0.0, 3)])
def test_it_ends_as_soon_as_the_residual_is_small(tolerance: float, products: int) -> None:
    """Three distinct eigenvalues are three iterations at most, however many are allowed."""
    matrix = torch.diag(torch.tensor([1.0, 2.0, 4.0, 4.0, 2.0], dtype=torch.float64))
    b = torch.ones(5, dtype=torch.float64)
    counted = []

    def product(vector: Tensor) -> Tensor:
        counted.append(vector)
        return matrix @ vector

    x, _ = conjugate_gradient(product, b, iterations=products if tolerance == 0 else 50, tolerance=tolerance)
    assert len(counted) == products
    assert (matrix @ x - b).norm() <= max(tolerance, 1e-14) * b.norm()
    # relative: a system 1000 times as large ends at the same iteration
    counted.clear()
    conjugate_gradient(product, 1000 * b, iterations=products if tolerance == 0 else 50, tolerance=tolerance)
    assert len(counted) == products


def test_zero_gives_zero_without_a_product() -> None:
    def product(vector: Tensor) -> Tensor:
        raise AssertionError("not needed")

    x, _ = conjugate_gradient(product, torch.zeros(3), iterations=10, tolerance=0.0)
    assert x.tolist() == [0.0] * 3


@pytest.mark.parametrize("second", [-2.0, 0.0, math.nan])
def test_it_ends_at_a_direction_without_positive_curvature(second: float) -> None:
    """H = diag(1, second): curvature 1 along the first axis, none along the second."""
    matrix = torch.diag(torch.tensor([1.0, second], dtype=torch.float64))
    along = torch.tensor([0.0, 3.0], dtype=torch.float64)
    assert conjugate_gradient(times(matrix), along, iterations=5, tolerance=0.0)[0].tolist() == [0.0, 0.0]
    assert natural_step(along, times(matrix), max_kl=0.1, damping=0.0, iterations=5, tolerance=0.0) is None


def test_it_keeps_what_it_had_before_that_direction() -> None:
    """b = (2, 1), H = diag(1, −2): bᵀHb = 2, x = 5/2·b; the next direction has curvature −72."""
    b = torch.tensor([2.0, 1.0], dtype=torch.float64)
    matrix = torch.diag(torch.tensor([1.0, -2.0], dtype=torch.float64))
    x, bent = conjugate_gradient(times(matrix), b, iterations=5, tolerance=0.0)
    assert (x.tolist(), bent.tolist()) == ([5.0, 2.5], [5.0, -5.0])


def test_a_step_by_hand() -> None:
    """H = diag(1, 4), g = (1, 4): x = (1, 1), xᵀHx = 5, and 2·0.1/5 is 0.2². Damped by 1: x = (1/2, 4/5)."""
    gradient = torch.tensor([1.0, 4.0], dtype=torch.float64)
    product = times(torch.diag(torch.tensor([1.0, 4.0], dtype=torch.float64)))
    step = natural_step(gradient, product, max_kl=0.1, damping=0.0, iterations=2, tolerance=0.0)
    assert step is not None
    assert step.tolist() == pytest.approx([0.2, 0.2])
    damped = natural_step(gradient, product, max_kl=0.1, damping=1.0, iterations=2, tolerance=0.0)
    assert damped is not None
    # xᵀ(H + I)x = 2/4 + 5·16/25 = 3.7
    assert damped.tolist() == pytest.approx([math.sqrt(0.2 / 3.7) * 0.5, math.sqrt(0.2 / 3.7) * 0.8])


@settings(deadline=None, max_examples=40)
@given(size=st.integers(1, 8), seed=st.integers(0, 1000), max_kl=st.floats(1e-4, 1), damping=st.sampled_from([0, 0.5]))
def test_on_a_quadratic_kl_the_step_is_the_best_of_that_kl(size: int, seed: int, max_kl: float, damping: float) -> None:
    matrix, gradient = positive_definite(size, seed)
    step = natural_step(gradient, times(matrix), max_kl=max_kl, damping=damping, iterations=6 * size, tolerance=1e-13)
    assert step is not None
    kl = (step @ matrix @ step).item() / 2
    if damping == 0:
        assert kl == pytest.approx(max_kl, rel=1e-9)
    else:
        assert kl < max_kl
    # among the vectors of the same damped length none gains more: gᵀs = √(2δ·gᵀH_λ⁻¹g)
    bent = matrix + damping * torch.eye(size)
    gain = (2 * max_kl * (gradient @ torch.linalg.solve(bent, gradient))).sqrt()
    torch.testing.assert_close(gradient @ step, gain, rtol=1e-8, atol=0)


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e30])
def test_the_length_of_the_gradient_says_nothing(scale: float) -> None:
    gradient = torch.tensor([1.0, 2.0]) * scale
    step = natural_step(gradient, times(HESSIAN.float()), max_kl=0.01, damping=0.0, iterations=2, tolerance=0.0)
    expected = torch.tensor([1.0, 7.0]) / 11 * math.sqrt(2 * 0.01 / (15 / 11))
    assert step is not None
    torch.testing.assert_close(step, expected)


@pytest.mark.parametrize("gradient", [[0.0, 0.0], [1.0, math.nan], [math.inf, 0.0]])
def test_without_a_gradient_there_is_no_step(gradient: list[float]) -> None:
    step = natural_step(
        torch.tensor(gradient), times(HESSIAN.float()), max_kl=0.1, damping=0, iterations=5, tolerance=0
    )
    assert step is None


@pytest.mark.parametrize(("max_kl", "damping"), [(0.0, 0.1), (-1.0, 0.1), (math.nan, 0.1), (0.1, -0.1)])
def test_a_region_that_is_none_is_an_error(max_kl: float, damping: float) -> None:
    with pytest.raises(ValueError, match="max_kl"):
        natural_step(torch.ones(2), times(HESSIAN.float()), max_kl=max_kl, damping=damping, iterations=1, tolerance=0)


def test_a_tabular_policy_takes_its_natural_gradient() -> None:
    """π = softmax(z) has the Fisher information F = diag(π) − ππᵀ; for J = Σ π_a r_a the natural gradient is r − J.

    F has the null vector (1, …, 1): shifting the logits changes no policy. The gradient has no part along it.
    """
    logits = torch.tensor([0.3, -0.7, 1.1, 0.0], dtype=torch.float64)
    rewards = torch.tensor([1.0, 0.0, -0.5, 2.0], dtype=torch.float64)
    policy = logits.softmax(0)
    fisher = policy.diag() - policy.outer(policy)

    def surrogate(moved: Tensor) -> Tensor:
        return (moved.softmax(0) * rewards).sum()

    def product(vector: Tensor) -> Tensor:
        at = logits.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(full_kl(logits, at), at, create_graph=True)
        return torch.autograd.grad(gradient @ vector, at)[0]

    vector = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    torch.testing.assert_close(product(vector), fisher @ vector)
    at = logits.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(surrogate(at), at)
    step = natural_step(gradient, product, max_kl=1e-6, damping=0.0, iterations=10, tolerance=1e-12)
    assert step is not None
    natural = rewards - surrogate(logits)
    centred = natural - natural.mean()
    length = math.sqrt(2e-6 / (centred @ fisher @ centred).item())
    torch.testing.assert_close(step - step.mean(), length * centred, rtol=1e-8, atol=1e-12)
    # to second order the KL is δ; what is left is of the third
    assert full_kl(logits, logits + step).item() == pytest.approx(1e-6, rel=2e-3)

    def evaluate(fraction: float) -> tuple[float, float]:
        moved = logits + fraction * step
        return (surrogate(moved) - surrogate(logits)).item(), full_kl(logits, moved).item()

    found = line_search(evaluate, max_kl=1.01e-6, backtracks=3, shrink=0.5)
    assert (found.accepted, found.fraction, found.tried) == (True, 1.0, 1)
    assert found.surrogate == pytest.approx((gradient @ step).item(), rel=2e-3)
    halved = line_search(evaluate, max_kl=0.9e-6, backtracks=3, shrink=0.5)
    assert (halved.fraction, halved.tried) == (0.5, 2)
    assert halved.kl == pytest.approx(0.25e-6, rel=2e-3)


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([(1.0, 0.01)], LineSearch(True, 1.0, 1.0, 0.01, 1)),
        ([(1.0, 0.02), (0.5, 0.01)], LineSearch(True, 0.5, 0.5, 0.01, 2)),
        ([(-1.0, 0.0), (0.0, 0.0), (1e-9, 0.0)], LineSearch(True, 0.25, 1e-9, 0.0, 3)),
        ([(NAN, 0.0), (1.0, NAN), (0.1, 0.001)], LineSearch(True, 0.25, 0.1, 0.001, 3)),
        ([(INF, 0.0), (1.0, -INF), (0.1, -1e-12)], LineSearch(True, 0.25, 0.1, -1e-12, 3)),
        ([(1.0, 0.04), (0.5, 0.03), (0.25, 0.011)], LineSearch(False, 0.0, 0.0, 0.0, 3)),
        ([(-1.0, 0.0), (-0.5, 0.0), (0.0, 0.0)], LineSearch(False, 0.0, 0.0, 0.0, 3)),
    ],
)
def test_the_line_search_by_hand(outcomes: list[tuple[float, float]], expected: LineSearch) -> None:
    fractions = []

    def evaluate(fraction: float) -> tuple[float, float]:
        fractions.append(fraction)
        return outcomes[len(fractions) - 1]

    assert line_search(evaluate, max_kl=0.01, backtracks=2, shrink=0.5) == expected
    assert fractions == [1.0, 0.5, 0.25][: expected.tried]


def test_without_backtracks_only_the_whole_step_is_tried() -> None:
    found = line_search(lambda fraction: (1.0, fraction), max_kl=0.5, backtracks=0, shrink=0.5)
    assert found == LineSearch(False, 0.0, 0.0, 0.0, 1)


@pytest.mark.parametrize(("backtracks", "shrink"), [(-1, 0.5), (3, 0.0), (3, 1.0)])
def test_a_search_that_does_not_shrink_is_an_error(backtracks: int, shrink: float) -> None:
    with pytest.raises(ValueError, match="shrink"):
        line_search(lambda fraction: (1.0, 0.0), max_kl=0.5, backtracks=backtracks, shrink=shrink)
