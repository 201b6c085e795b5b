"""Mean and spread over all tokens of the global batch, wherever they lie: cut over processes, it is still one batch."""

from collections.abc import Callable

import torch
from torch import Tensor

from reasonrl.algorithms.masking import masked

SumOver = Callable[[Tensor], Tensor]


def of_one_process(total: Tensor) -> Tensor:
    """The sum over all processes when there is one."""
    return total


def whiten(values: Tensor, mask: Tensor, *, eps: float = 1e-8, sum_over: SumOver = of_one_process) -> Tensor:
    """The values with mean 0 and standard deviation 1 over all tokens of the global batch.

        (x − mean x) / (std x + eps),  std with 1/n over the n tokens in front of the mask

    Exactly 0 when all of them are equal, and when there are none. With `returns_to_go` these are the advantages of
    REINFORCE++, and with `group_relative` at std "none", spread over the tokens, those of REINFORCE++-baseline.
    Paper: Hu et al., arXiv 2501.03262.
    Shapes: values (B, T), anything (NaN too) behind the mask; mask (B, T) bool or 0/1 -> (B, T) in the type of values,
    0 behind the mask, without a gradient. `sum_over` maps a float64 tensor of shape (2,) to its sum over the processes;
    it is called twice, on every process, whatever it holds of the batch.
    Raises ValueError when the shapes differ.
    """
    centred, variance = _centred(values, mask, sum_over)
    # an exact 0 stays one when eps is 0, too
    whitened = torch.where(centred == 0, 0, centred / (variance.sqrt() + eps))
    return whitened.to(values.dtype)


def explained_variance(values: Tensor, returns: Tensor, mask: Tensor, *, sum_over: SumOver = of_one_process) -> Tensor:
    """How much of the returns' variance the critic accounts for: 1 for a perfect one, 0 for one that knows the mean.

        1 − Var[R̂ − V] / Var[R̂],  over all tokens of the global batch in front of the mask

    Below 0 the critic is worse than a constant. 0 when the returns have no variance: there is nothing to explain.
    Shapes: values and returns (B, T), anything (NaN too) behind the mask; mask (B, T) bool or 0/1 -> float64 scalar,
    without a gradient. `sum_over` as in `whiten`, called four times.
    Raises ValueError when the shapes differ.
    """
    left = _centred(masked(returns, mask).double() - masked(values, mask).double(), mask, sum_over)[1]
    whole = _centred(returns, mask, sum_over)[1]
    return torch.where(whole > 0, 1 - left / whole, 0)


def _centred(values: Tensor, mask: Tensor, sum_over: SumOver) -> tuple[Tensor, Tensor]:
    """x − mean x, float64 and 0 behind the mask, and the population variance of x, a scalar.

    Two passes, for Σx² − n·mean² would lose a small spread at a large offset. The mean of the first is rounded (that of
    seven 0.3 is not 0.3), so that the second finds a mean of the differences, too, and takes it off: equal values are
    the same few units in the last place away from the rounded mean, float64 adds and divides such small multiples
    exactly, and the result is an exact 0.
    Chan, Golub & LeVeque 1983, "Algorithms for computing the sample variance", eq. 1.7.
    """
    numbers = masked(values.detach(), mask).double()
    tokens, total = sum_over(torch.stack([mask.bool().sum().double(), numbers.sum()])).unbind()
    tokens = tokens.clamp(min=1)
    differences = masked(numbers - total / tokens, mask)
    offset, squares = (sum_over(torch.stack([differences.sum(), differences.square().sum()])) / tokens).unbind()
    return masked(differences - offset, mask), (squares - offset.square()).clamp(min=0)
