"""Sums and means over response tokens that nothing behind the mask can reach, neither in value nor in gradient."""

from torch import Tensor, where


def masked(values: Tensor, mask: Tensor) -> Tensor:
    """The values with an exact 0 behind the mask, whatever stood there (NaN and inf too).

        masked(x, m)_t = x_t where m_t, else 0

    The gradient behind the mask is 0, *after* this call. Before it, the chain rule multiplies that 0 by the local
    slope, and 0 · NaN is NaN: so apply `masked` to the inputs of a non-linear function (exp, a ratio, a KL), not only
    to its output.

    Shapes: values (B, T) or any other, mask the same shape, bool or 0/1 of any type -> the shape and type of values.
    Raises ValueError when the shapes differ: a mask that broadcasts is a mask of something else.
    """
    if values.shape != mask.shape:
        raise ValueError(f"the mask has shape {tuple(mask.shape)} and the values have {tuple(values.shape)}")
    # `where`, never `mask * values`: 0 * NaN is NaN
    return where(mask.bool(), values, values.new_zeros(()))


def masked_sum(values: Tensor, mask: Tensor, dim: int | None = None) -> Tensor:
    """The sum of the values in front of the mask: of all of them, or along one dimension.

        Σ_t m_t x_t

    Shapes: values and mask (B, T) -> scalar, or with `dim` the remaining dimension; a bool counts as 0 or 1.
    Raises ValueError when the shapes differ.
    """
    return masked(values, mask).sum(dim=dim)


def masked_mean(values: Tensor, mask: Tensor, dim: int | None = None) -> Tensor:
    """The mean of the values in front of the mask; the mean of nothing is 0, so that an empty row adds nothing.

        Σ_t m_t x_t / max(1, Σ_t m_t)

    Shapes: values and mask (B, T) -> scalar, or with `dim` the remaining dimension; a bool counts as 0 or 1.
    Raises ValueError when the shapes differ.
    """
    # counted as integers: a bfloat16 mask cannot count past 256
    return masked_sum(values, mask, dim) / mask.bool().sum(dim=dim).clamp(min=1)
