"""The loss of a critic per token, to be minimised; `aggregation` makes a scalar of it."""

from torch import Tensor, maximum, zeros_like


def value_loss(values: Tensor, old_values: Tensor, returns: Tensor, *, clip: float | None = None) -> Tensor:
    """How far the critic's value is from the return; with a clip, no reward for moving further than that in one step.

        ℓ = ½(V − R)²;   with clip ε:   ℓ = ½ max((V − R)², (V_old + clip(V − V_old, ±ε) − R)²)

    Paper: PPO, arXiv 1707.06347, eq. 9, L_VF; the clip is that of OpenAI's PPO2 (Engstrom et al. 2020, arXiv
    2005.12729, §3), not of the paper.
    Shapes: values, old_values and returns (B, T), `masked` beforehand where a padded value may be NaN -> (B, T). The
    gradient goes to values alone; without a clip old_values say nothing.
    Raises ValueError when the shapes differ or the clip is negative.
    """
    error, clipped_error = _errors(values, old_values, returns, clip)
    return (error if clipped_error is None else maximum(error, clipped_error)) / 2


def value_clipped(values: Tensor, old_values: Tensor, returns: Tensor, *, clip: float | None = None) -> Tensor:
    """Where the clip holds and `value_loss` therefore gives no gradient; its mean over the tokens is the clip fraction.

        abs(V − V_old) > ε   and   (V_old ± ε − R)² > (V − R)²

    Shapes: as in `value_loss` -> (B, T) bool; without a clip all False.
    Raises ValueError as `value_loss` does.
    """
    error, clipped_error = _errors(values.detach(), old_values, returns, clip)
    if clip is None or clipped_error is None:
        return zeros_like(values).bool()
    return ((values.detach() - old_values).abs() > clip) & (clipped_error > error)


def _errors(values: Tensor, old_values: Tensor, returns: Tensor, clip: float | None) -> tuple[Tensor, Tensor | None]:
    """(V − R)², and the same of the clipped V where there is a clip."""
    if not values.shape == old_values.shape == returns.shape:
        shapes = [tuple(tensor.shape) for tensor in (values, old_values, returns)]
        raise ValueError(f"values are {shapes[0]}, old_values {shapes[1]} and returns {shapes[2]}")
    # constants: a critic that could move its own target would learn nothing
    old_values, returns = old_values.detach(), returns.detach()
    error = (values - returns).square()
    if clip is None:
        return error, None
    if clip < 0:
        raise ValueError(f"the clip of the values is {clip}; it must not be negative")
    return error, (old_values + (values - old_values).clamp(-clip, clip) - returns).square()
