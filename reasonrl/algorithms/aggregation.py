"""From a loss per token to the scalar of an optimiser step: the only place that divides a loss."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from reasonrl.algorithms.masking import masked_mean, masked_sum

AggregationMode = Literal["sequence_mean", "token_mean", "constant"]


def aggregate(
    values: Tensor,
    mask: Tensor,
    mode: AggregationMode,
    *,
    sequences: float | Tensor,
    tokens: float | Tensor,
    max_length: int | None = None,
) -> Tensor:
    """This micro-batch's share of the step's loss: the shares of all micro-batches and processes *sum* to the loss.

        sequence_mean (GRPO)      (1/sequences) Σ_i (1/L_i) Σ_t ℓ_{i,t}
        token_mean    (DAPO)      (1/tokens) Σ_i Σ_t ℓ_{i,t}
        constant      (Dr. GRPO)  (1/(sequences · max_length)) Σ_i Σ_t ℓ_{i,t}

    `sequences` and `tokens` are the counts of the *global* batch of the optimiser step (sum `count` over its
    micro-batches and processes), never of this micro-batch alone: only so does a cut leave the gradient as it was.
    A row without a token adds nothing, and a step without any has loss 0.
    Papers: arXiv 2402.03300, eq. 3; arXiv 2503.14476, eq. 8; arXiv 2503.20783.
    Shapes: values (B, T), anything (NaN too) behind the mask; mask (B, T) bool or 0/1; L_i the tokens of row i in
    front of the mask; max_length the configured response limit in tokens -> scalar.
    Raises ValueError when the shapes differ, or when "constant" has no positive max_length; KeyError for an unknown
    mode.
    """
    return AGGREGATIONS[mode](values, mask, _Denominators(sequences, tokens, max_length))


def count(mask: Tensor) -> tuple[Tensor, Tensor]:
    """The two numbers that `aggregate` divides by, of this mask; tensors, so that they can be summed over processes.

        sequences = Σ_i [Σ_t m_{i,t} > 0],   tokens = Σ_i Σ_t m_{i,t}

    Shapes: mask (B, T) bool or 0/1 -> (sequences with at least one token, tokens), long scalars.
    """
    present = mask.bool()
    return present.any(dim=1).sum(), present.sum()


@dataclass(frozen=True)
class _Denominators:
    """What the loss of the whole optimiser step is divided by."""

    sequences: float | Tensor
    tokens: float | Tensor
    max_length: int | None


def _sequence_mean(values: Tensor, mask: Tensor, by: _Denominators) -> Tensor:
    return masked_mean(values, mask, dim=1).sum() / _at_least_one(by.sequences)


def _token_mean(values: Tensor, mask: Tensor, by: _Denominators) -> Tensor:
    return masked_sum(values, mask) / _at_least_one(by.tokens)


def _constant(values: Tensor, mask: Tensor, by: _Denominators) -> Tensor:
    if by.max_length is None or by.max_length < 1:
        raise ValueError(f'"constant" divides by the response limit: max_length must be positive, not {by.max_length}')
    return masked_sum(values, mask) / (_at_least_one(by.sequences) * by.max_length)


def _at_least_one(number: float | Tensor) -> float | Tensor:
    # a step in which nothing could be judged: 0/0 would put NaN into every weight
    return number.clamp(min=1) if isinstance(number, Tensor) else max(number, 1)


AGGREGATIONS: dict[AggregationMode, Callable[[Tensor, Tensor, _Denominators], Tensor]] = {
    "sequence_mean": _sequence_mean,
    "token_mean": _token_mean,
    "constant": _constant,
}
