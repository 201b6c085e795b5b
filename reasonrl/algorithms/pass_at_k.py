"""How often k tries solve a problem, estimated from n judged samples, and how sure the mean over problems is."""

from collections.abc import Sequence
from math import comb

import torch

AT_ONCE = 2**18  # indices of a bootstrap


def pass_at_k(n: int, c: int, k: int) -> float:
    """The unbiased estimate that at least one of k tries is correct, from n judged samples of which c are.

        1 − C(n − c, k) / C(n, k)

    Paper: Chen et al., arXiv 2107.03374, eq. 1.
    Raises ValueError unless 1 ≤ k ≤ n and 0 ≤ c ≤ n.
    """
    _check(n, c, k)
    # integers until the one division, so exact to the last bit; 1 − (1 − x) would lose the digits of a small x
    return (comb(n, k) - comb(n - c, k)) / comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float:
    """The unbiased estimate that all of k tries are correct (pass^k), from n judged samples of which c are.

        C(c, k) / C(n, k)

    Paper: Yao et al. (τ-bench), arXiv 2406.12045.
    Raises ValueError unless 1 ≤ k ≤ n and 0 ≤ c ≤ n.
    """
    _check(n, c, k)
    return comb(c, k) / comb(n, k)


def mean_pass_at_k(counts: Sequence[tuple[int, int]], k: int) -> float:
    """The mean of `pass_at_k` over problems, each of equal weight however many of its samples were judged.

        (1/P) Σ_p pass_at_k(n_p, c_p, k)

    Shapes: counts P pairs (n judged samples, c correct ones), one a problem.
    Raises ValueError without a problem, or naming k and the problems with fewer than k judged samples: the caller
    decides whether to leave those out, to show them or to stop.
    """
    if not counts:
        raise ValueError(f"pass@{k} of no problem at all")
    short = [index for index, (n, _) in enumerate(counts) if n < k]
    if short:
        n = counts[short[0]][0]
        raise ValueError(
            f"pass@{k} needs {k} judged samples of every problem; {len(short)} of {len(counts)} problems have fewer, "
            f"the first at index {short[0]} with {n}"
        )
    return sum(pass_at_k(n, c, k) for n, c in counts) / len(counts)


def bootstrap_interval(
    values: Sequence[float], seed: int, level: float = 0.95, draws: int = 1000
) -> tuple[float, float]:
    """The percentile bootstrap interval of the mean over problems, clustered by problem and the same for one seed.

        mean of P values drawn with replacement, `draws` times; its (1 − level)/2 and (1 + level)/2 quantiles

    Problems are drawn, never single samples: the samples of one problem resemble one another, and to count them as
    independent would make the interval too narrow.
    Source: Efron and Tibshirani, An Introduction to the Bootstrap, §13.
    Shapes: values P numbers, one a problem (its `pass_at_k`, say) -> (low, high).
    Raises ValueError without a value, for a level outside (0, 1) or for fewer than one draw.
    """
    if not values:
        raise ValueError("a confidence interval of no problem at all")
    if not 0 < level < 1 or draws < 1:
        raise ValueError(f"level is {level} and draws is {draws}; they must be within (0, 1) and at least 1")
    problems = torch.tensor(values, dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed)
    # some draws at a time: P × draws indices at once would be large for a large benchmark
    size = max(1, AT_ONCE // len(problems))
    means = [
        problems[torch.randint(len(problems), (min(size, draws - done), len(problems)), generator=generator)].mean(1)
        for done in range(0, draws, size)
    ]
    tail = (1 - level) / 2
    low, high = torch.cat(means).quantile(torch.tensor([tail, 1 - tail], dtype=torch.float64)).tolist()
    return low, high


def _check(n: int, c: int, k: int) -> None:
    if not 0 <= c <= n:
        raise ValueError(f"{c} correct of {n} judged samples cannot be")
    if not 1 <= k <= n:
        raise ValueError(f"k = {k} is outside 1 … {n}, the number of judged samples")
