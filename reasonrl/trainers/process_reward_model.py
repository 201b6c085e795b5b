"""A process reward model on labelled steps (Lightman et al. 2023, arXiv 2305.20050; Math-Shepherd, arXiv 2312.08935).

A token classifier with two labels, read at the mark behind each step: TRL's form, in which the verifier `prm` loads it
as `convention: token_classification`. Where it departs from the papers: they train a language model to write the label.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from reasonrl.algorithms.calibration import (
    best_threshold,
    calibration_error,
    first_error,
    first_error_accuracy,
    roc_auc,
    step_loss,
)
from reasonrl.config import ProcessRewardModelConfig
from reasonrl.models.prompt import marked_ids
from reasonrl.models.trainable_scorer import TrainableScorer
from reasonrl.steplabels.read import Solutions
from reasonrl.trainers.scorers import Measured, ScorerLoss
from reasonrl.trainers.session import Session

_GOOD = 0.5  # a label from here on is that of a good step


@dataclass(frozen=True)
class LabelledIds:
    """A solution as a process reward model reads it.

    Attributes:
        prompt: the question, for holding it out.
        ids: question and steps.
        ends: the place of each labelled step's mark among them.
        labels: of these steps, from 0 (bad) to 1 (good).
    """

    prompt: str
    ids: tuple[int, ...]
    ends: tuple[int, ...]
    labels: tuple[float, ...]


class ProcessRewardModelLoss(ScorerLoss[LabelledIds]):
    """The cross-entropy of the labels of steps, the mean over all labelled steps of the batch.

    Args:
        config: the threshold of first errors.
        scorer, session: what is trained, and how.
        beat: called with each micro-batch.
    """

    shown: ClassVar = {
        "accuracy": "step accuracy",
        "roc_auc": "step ROC-AUC",
        "calibration_error": "calibration error (ECE)",
        "first_error_accuracy": "first error found",
        "no_error_accuracy": "right ones passed",
        "f1": "F1 (ProcessBench)",
        "best_f1": "F1 at its best threshold",
        "best_threshold": "that threshold",
        "loss": "loss",
        "steps": "labelled steps",
        "solutions": "solutions",
    }

    def __init__(
        self,
        config: ProcessRewardModelConfig,
        scorer: TrainableScorer,
        session: Session,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(scorer, session, config.micro_batch_tokens, beat)
        self.threshold = config.threshold

    def rows(self, example: LabelledIds) -> list[tuple[int, ...]]:
        """One."""
        return [example.ids]

    def places(self, example: LabelledIds) -> list[tuple[int, int]]:
        """The marks of the labelled steps."""
        return [(0, end) for end in example.ends]

    def units(self, example: LabelledIds) -> int:
        """Labelled steps."""
        return len(example.ends)

    def losses(self, logits: Tensor, examples: Sequence[LabelledIds]) -> Tensor:
        """Of each labelled step."""
        labels = logits.new_tensor([label for one in examples for label in one.labels])
        return step_loss(logits, labels)

    def measured(self, logits: Tensor, example: LabelledIds) -> list[Measured]:
        """Of each step the reward P(good), the label and the loss."""
        losses = self.losses(logits, [example]).tolist()
        return list(zip(logits.softmax(-1)[:, 1].tolist(), example.labels, losses, strict=True))

    def report(self, measured: Sequence[list[Measured]]) -> dict[str, float]:
        """Of steps: accuracy, ROC-AUC, calibration; of solutions: is the first wrong step found?"""
        rewards, labels, losses = torch.tensor([step for one in measured for step in one], dtype=torch.float64).unbind(
            1
        )
        good = labels >= _GOOD
        of_solutions = [torch.tensor(one, dtype=torch.float64).unbind(1)[:2] for one in measured]
        found = torch.tensor([first_error(mine, threshold=self.threshold) for mine, _ in of_solutions])
        wanted = torch.tensor([first_error(own, threshold=_GOOD) for _, own in of_solutions])
        on_wrong, on_right, f1 = first_error_accuracy(found, wanted)
        threshold, best_f1 = best_threshold([mine for mine, _ in of_solutions], wanted)
        return {
            "loss": float(losses.mean()),
            "accuracy": float(((rewards >= _GOOD) == good).double().mean()),
            "roc_auc": float(roc_auc(rewards, good)),
            "calibration_error": float(calibration_error(rewards, labels)),
            "first_error_accuracy": float(on_wrong),
            "no_error_accuracy": float(on_right),
            "f1": float(f1),
            "best_f1": best_f1,
            "best_threshold": threshold,
            "good_steps": float(good.double().mean()),
            "steps": float(len(labels)),
            "solutions": float(len(measured)),
        }


def labelled_ids(solutions: Solutions, scorer: TrainableScorer, mark: str) -> list[LabelledIds]:
    """The solutions as token ids, as the verifier `prm` reads them; those that do not fit are counted.

    What follows the last labelled step is cut off: nothing is read there.

    Raises:
        ReasonRLError: the tokenizer makes no token of the mark.
    """
    found = []
    for one in solutions.solutions:
        ids, ends = marked_ids(one.question, one.steps, mark, scorer.tokenizer)
        kept = [(end, label) for end, label in zip(ends, one.labels, strict=True) if label is not None]
        length = kept[-1][0] + 1
        if scorer.context is not None and length > scorer.context:
            solutions.skipped[f"question and steps are beyond the model's {scorer.context} positions"] += 1
        else:
            found.append(
                LabelledIds(
                    one.question, ids[:length], tuple(end for end, _ in kept), tuple(label for _, label in kept)
                )
            )
    solutions.solutions = solutions.solutions[: len(found)]
    return found
