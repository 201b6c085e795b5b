"""How good learned scores are: do probabilities hold, do scores order, is the first wrong step found?"""

from collections.abc import Sequence

import torch
from torch import Tensor


def calibration_error(probabilities: Tensor, outcomes: Tensor, *, bins: int = 10) -> Tensor:
    """Expected calibration error: how far from what was said is what happens, over bins of what was said.

        ECE = Σ_b (n_b/N)·abs(mean outcome in b − mean probability in b),   b: [0, 1/bins), …, [1 − 1/bins, 1]

    Paper: Guo et al. 2017, arXiv 1706.04599, eq. 3, with bins of equal width.
    Shapes: probabilities (N,) in [0, 1], outcomes (N,) in [0, 1] -> (); NaN where N is 0.
    Raises ValueError when the shapes differ, a probability lies outside [0, 1], or there is no bin.
    """
    _check_shapes(probabilities, outcomes)
    if bins < 1:
        raise ValueError(f"{bins} bins; there is at least one")
    if not bool(((probabilities >= 0) & (probabilities <= 1)).all()):
        raise ValueError("a probability lies outside [0, 1]")
    said, happened = probabilities.double(), outcomes.double()
    index = (said * bins).long().clamp(max=bins - 1)
    gaps = torch.zeros(bins, dtype=torch.float64, device=said.device).index_add(0, index, happened - said)
    return gaps.abs().sum() / len(said)


def roc_auc(scores: Tensor, labels: Tensor) -> Tensor:
    """Area under the ROC curve: how likely a positive scores above a negative, a tie being half of it.

        AUC = (Σ_positive rank − P(P + 1)/2)/(P·N),   ranks from 1, those of equal scores their mean

    Source: Hanley and McNeil 1982, the Mann–Whitney statistic.
    Shapes: scores (N,), labels (N,), True or 1 for positives -> (); NaN where all labels are the same.
    Raises ValueError when the shapes differ.
    """
    _check_shapes(scores, labels)
    positive = labels.bool()
    positives = int(positive.sum())
    negatives = len(labels) - positives
    scores = scores.double().contiguous()
    ordered = scores.sort().values
    below = torch.searchsorted(ordered, scores, right=False)
    up_to = torch.searchsorted(ordered, scores, right=True)
    ranks = (below + 1 + up_to).double() / 2
    above: Tensor = ranks[positive].sum() - positives * (positives + 1) / 2
    return above / (positives * negatives) if positives and negatives else above.new_tensor(float("nan"))


def first_error(rewards: Tensor, *, threshold: float = 0.5) -> int:
    """The first step whose reward lies below the threshold, from 0; −1 where none does.

    Source: ProcessBench, arXiv 2412.06559, §4.1, of process reward models.
    Shapes: rewards (T,) of the steps of one solution.
    """
    below = (rewards < threshold).nonzero()
    return int(below[0]) if len(below) else -1


def first_error_accuracy(found: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """How often the first wrong step is found, as ProcessBench counts.

        F1 = 2·a·b/(a + b),   a: share of the wrong solutions whose first wrong step is found exactly,
                              b: share of the right ones in which none is found

    Paper: ProcessBench, arXiv 2412.06559, §3.1.
    Shapes: found and labels (N,), a step from 0 or −1 -> (), (), (): a, b, F1; each NaN where there is nothing to
    count, F1 being 0 where a and b are.
    Raises ValueError when the shapes differ.
    """
    _check_shapes(found, labels)
    hits, wrong = (found == labels).double(), labels >= 0
    on_wrong, on_right = hits[wrong].mean(), hits[~wrong].mean()
    both = on_wrong + on_right
    return on_wrong, on_right, 2 * on_wrong * on_right / both if bool(both != 0) else both


def best_threshold(rewards: Sequence[Tensor], labels: Tensor) -> tuple[float, float]:
    """The threshold of `first_error` with the highest F1 of `first_error_accuracy`, and that F1.

    A wrong solution with first wrong step l is found for a threshold t with m_l < t ≤ m_(l−1), m_j being the least of
    its rewards up to step j, and a right one passes with t ≤ its least.

    Source: ProcessBench, arXiv 2412.06559, §4.1, which sets a process reward model's threshold so, on its GSM8K part.
    Shapes: rewards, in float64, of each solution (T,), at least one; labels (N,), its first wrong step from 0 or −1
    -> two numbers, NaN where the wrong ones or the right ones are missing.
    Raises ValueError when there are not as many rewards as labels.
    """
    if len(rewards) != len(labels):
        raise ValueError(f"rewards of {len(rewards)} solutions for {len(labels)} labels")
    infinite = torch.tensor([float("inf")], dtype=torch.float64)
    lows, highs, passing = [], [], []
    for one, label in zip(rewards, labels.tolist(), strict=True):
        least = torch.cat([infinite, one.double().cpu().cummin(0).values])
        if label < 0:
            passing.append(float(least[-1]))
        else:
            lows.append(float(least[label + 1]))
            highs.append(float(least[label]))
    if not passing or not lows:
        return float("nan"), float("nan")
    # Between two of these nothing changes, save that above all rewards everything is found wrong at once.
    low, high, least = (torch.tensor(sorted(values), dtype=torch.float64) for values in (lows, highs, passing))
    ends = torch.cat([high[high.isfinite()], least])
    top = max(*lows, *passing)
    thresholds = torch.cat([ends, torch.nextafter(ends.new_tensor([top]), infinite)]).sort().values
    on_wrong = (torch.searchsorted(low, thresholds) - torch.searchsorted(high, thresholds)) / len(low)
    on_right = 1 - torch.searchsorted(least, thresholds) / len(least)
    f1 = (2 * on_wrong * on_right / (on_wrong + on_right)).nan_to_num()
    best = int(f1.argmax())
    return float(thresholds[best]), float(f1[best])


def step_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """How unlikely the labels of steps are under the two logits that a process reward model gives each of them.

        ℓ = −p·log q − (1 − p)·log(1 − q),   q = softmax(logits)[1]

    p is 1 for a good step and 0 for a bad one, or the share of continuations that end right.
    Papers: Let's Verify Step by Step, arXiv 2305.20050; Math-Shepherd, arXiv 2312.08935, eq. 2, 4 and 5.
    Shapes: logits (N, 2), bad and good; labels (N,) in [0, 1] -> (N,).
    Raises ValueError when the shapes do not fit.
    """
    if logits.shape != (len(labels), 2):
        raise ValueError(f"logits of {tuple(logits.shape)} for {len(labels)} labels; expected ({len(labels)}, 2)")
    log_bad, log_good = logits.log_softmax(-1).unbind(-1)
    return -labels * log_good - (1 - labels) * log_bad


def _check_shapes(one: Tensor, other: Tensor) -> None:
    if one.dim() != 1 or one.shape != other.shape:
        raise ValueError(f"shapes {tuple(one.shape)} and {tuple(other.shape)}; expected two of the same (N,)")
