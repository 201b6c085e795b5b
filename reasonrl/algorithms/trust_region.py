"""The step of TRPO (arXiv 1502.05477, appendix C) on flat vectors: its direction, its length, its line search."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Product = Callable[[Tensor], Tensor]


def conjugate_gradient(product: Product, b: Tensor, *, iterations: int, tolerance: float) -> tuple[Tensor, Tensor]:
    """Solves Hx = b for a symmetric positive definite H that is known only by its products with vectors.

        from x = 0, along directions v that are conjugate (vᵀHv' = 0);   ends when ‖b − Hx‖ ≤ tolerance·‖b‖

    Exact, but for rounding, after as many iterations as H has distinct eigenvalues. It also ends at a direction with
    vᵀHv ≤ 0 or NaN, with the x it has: such an H is not positive definite (an estimate may be so; more damping is the
    cure), and the system is no longer a minimum to descend to. A b of zero gives zero. Hx comes without a further
    product: it is b less the residual, wherever the iterations end.
    Source: Hestenes and Stiefel 1952; Nocedal and Wright, Numerical Optimization, algorithm 5.2.
    Shapes: b (N,); product maps (N,) to (N,); tolerance is relative -> x and Hx, (N,) each, without a gradient.
    """
    b = b.detach()
    x = torch.zeros_like(b)
    residual = b.clone()
    direction = b.clone()
    squared = residual.dot(residual)
    enough = tolerance**2 * squared
    for _ in range(iterations):
        # `not >` rather than `<=`: it ends at NaN too, and at the exact solution, where 0 would divide 0
        if not squared > enough:
            break
        bent = product(direction).detach()
        curvature = direction.dot(bent)
        if not curvature > 0:
            break
        length = squared / curvature
        x = x + length * direction
        residual = residual - length * bent
        before, squared = squared, residual.dot(residual)
        direction = residual + squared / before * direction
    return x, b - residual


def natural_step(
    gradient: Tensor, product: Product, *, max_kl: float, damping: float, iterations: int, tolerance: float
) -> Tensor | None:
    """The step that raises the surrogate most among those whose KL, to second order, is max_kl.

        x = H_λ⁻¹ g,   H_λ = H + damping·I;   step = √(2·max_kl / xᵀH_λx)·x

    H is the Fisher information, the Hessian of the mean KL at π_θ = π_old. The damped H_λ stands in the system and in
    the length alike, so that the undamped ½ stepᵀH step is max_kl at damping 0 and less above it.
    None where there is no step: the gradient is zero or not finite, or no direction has a positive curvature.
    Paper: TRPO, arXiv 1502.05477, appendix C.
    Shapes: gradient (N,), of what is to be raised; product maps (N,) to Hv (N,), undamped -> (N,) or None.
    Raises ValueError when max_kl is not positive or damping is negative.
    """
    if not max_kl > 0 or damping < 0:
        raise ValueError(f"max_kl is {max_kl} and damping {damping}; one must be positive, the other not negative")
    gradient = gradient.detach()
    if not bool(gradient.isfinite().all()) or not bool(gradient.any()):
        return None
    # The step depends on the gradient's direction alone; at this length its squares neither vanish nor overflow.
    gradient = gradient / gradient.abs().max()

    def damped(vector: Tensor) -> Tensor:
        return product(vector).detach() + damping * vector

    x, bent = conjugate_gradient(damped, gradient, iterations=iterations, tolerance=tolerance)
    # not xᵀg, which equals it only as far as rounding let the directions stay conjugate
    curvature = x.dot(bent)
    if not curvature > 0 or not bool(curvature.isfinite()):
        return None
    return (2 * max_kl / curvature).sqrt() * x


@dataclass(frozen=True)
class LineSearch:
    """Where a line search ended: the fraction of the step to take, what it gains, what it costs, and after how many."""

    accepted: bool
    fraction: float
    surrogate: float
    kl: float
    tried: int


def line_search(
    evaluate: Callable[[float], tuple[float, float]], *, max_kl: float, backtracks: int, shrink: float
) -> LineSearch:
    """The longest of the fractions 1, shrink, shrink², …, shrink^backtracks that keeps what the step promises.

        accepted: surrogate improvement > 0 and KL ≤ max_kl, both finite

    When none does, the parameters are to stay as they were: fraction, surrogate and kl are 0.
    Paper: TRPO, arXiv 1502.05477, appendix C.
    `evaluate` gives, for the step scaled by a fraction, how much the surrogate rose above its value before the step,
    and the mean KL(π_old ‖ π_θ) in nats.
    Raises ValueError when shrink is not between 0 and 1 or backtracks is negative.
    """
    if not 0 < shrink < 1 or backtracks < 0:
        raise ValueError(
            f"shrink is {shrink} and backtracks {backtracks}; one lies between 0 and 1, the other from 0 on"
        )
    for tried in range(1, backtracks + 2):
        fraction = shrink ** (tried - 1)
        surrogate, kl = evaluate(fraction)
        if math.isfinite(surrogate) and math.isfinite(kl) and surrogate > 0 and kl <= max_kl:
            return LineSearch(True, fraction, surrogate, kl, tried)
    return LineSearch(False, 0.0, 0.0, 0.0, backtracks + 1)
