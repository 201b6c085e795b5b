"""A reward model on preference pairs (InstructGPT, Ouyang et al. 2022, arXiv 2203.02155, §3.5), a loss a pair.

Where it departs from the paper: an epoch's pairs are shuffled, not kept together by prompt, and the scores are not
shifted afterwards so that demonstrations have a mean of 0; `center` holds them near it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from reasonrl.algorithms.calibration import calibration_error
from reasonrl.algorithms.preference import accuracy, margins, reward_model_loss
from reasonrl.config import RewardModelConfig
from reasonrl.errors import ReasonRLError
from reasonrl.models.prompt import conversation_ids
from reasonrl.models.trainable_scorer import TrainableScorer
from reasonrl.pairs.read import Preferences
from reasonrl.trainers.scorers import Measured, ScorerLoss
from reasonrl.trainers.session import Session


@dataclass(frozen=True)
class ScoredPair:
    """A pair as a reward model reads it.

    Attributes:
        prompt: for holding prompts out.
        chosen_ids, rejected_ids: prompt and response together.
        margin: how much more the chosen one is to score, beyond the Bradley–Terry model's.
    """

    prompt: str
    chosen_ids: tuple[int, ...]
    rejected_ids: tuple[int, ...]
    margin: float = 0.0


class RewardModelLoss(ScorerLoss[ScoredPair]):
    """−log σ(r_w − r_l − margin), with the scores read at the last token of prompt and response.

    Args:
        config: margin or not, centring.
        scorer, session: what is trained, and how.
        beat: called with each micro-batch.
    """

    shown: ClassVar = {
        "accuracy": "accuracy",
        "margin": "margin r_w − r_l",
        "calibration_error": "calibration error (ECE)",
        "loss": "loss",
        "pairs": "pairs",
    }

    def __init__(
        self,
        config: RewardModelConfig,
        scorer: TrainableScorer,
        session: Session,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(scorer, session, config.micro_batch_tokens, beat)
        self.center = config.center

    def rows(self, example: ScoredPair) -> list[tuple[int, ...]]:
        """Chosen and rejected."""
        return [example.chosen_ids, example.rejected_ids]

    def places(self, example: ScoredPair) -> list[tuple[int, int]]:
        """The last token of each."""
        return [(0, len(example.chosen_ids) - 1), (1, len(example.rejected_ids) - 1)]

    def units(self, example: ScoredPair) -> int:
        """A pair."""
        return 1

    def losses(self, logits: Tensor, examples: Sequence[ScoredPair]) -> Tensor:
        """Of each pair."""
        chosen, rejected = logits.view(-1, 2).unbind(1)
        margin = chosen.new_tensor([one.margin for one in examples])
        return reward_model_loss(chosen, rejected, margin=margin, center=self.center)

    def measured(self, logits: Tensor, example: ScoredPair) -> list[Measured]:
        """The two scores and the loss."""
        return [(*logits.flatten().tolist(), float(self.losses(logits, [example])))]

    def report(self, measured: Sequence[list[Measured]]) -> dict[str, float]:
        """Accuracy, margin, and how far σ(abs(r_w − r_l)) is from the share of pairs ranked right that way."""
        chosen, rejected, losses = torch.tensor([one for [one] in measured], dtype=torch.float64).unbind(1)
        right, apart = accuracy(chosen, rejected), margins(chosen, rejected)
        # A tie says 1/2 and is wrong by `accuracy`; half of it is right.
        happened = torch.where(apart == 0, torch.full_like(right, 0.5), right)
        return {
            "loss": float(losses.mean()),
            "accuracy": float(right.mean()),
            "margin": float(apart.mean()),
            "calibration_error": float(calibration_error(apart.abs().sigmoid(), happened)),
            "reward_chosen": float(chosen.mean()),
            "reward_rejected": float(rejected.mean()),
            "reward_std": float(torch.cat([chosen, rejected]).std(unbiased=False)),
            "pairs": float(len(measured)),
        }


def scored_pairs(preferences: Preferences, scorer: TrainableScorer, *, margin: bool) -> list[ScoredPair]:
    """The pairs as token ids, as the verifier `reward_model` reads a response; those that do not fit are counted.

    Raises:
        ReasonRLError: margins are asked for and a pair has none, or a chat meets a tokenizer without a template.
    """
    found = []
    for one in preferences.pairs:
        if margin and one.margin is None:
            raise ReasonRLError(
                "algorithm.margin: a pair has no margin; give the pairs a column `margin`, or set it to false"
            )
        chosen, rejected = (conversation_ids(one.prompt, text, scorer.tokenizer) for text in (one.chosen, one.rejected))
        longest = max(len(chosen), len(rejected))
        if scorer.context is not None and longest > scorer.context:
            preferences.skipped[f"prompt and response are beyond the model's {scorer.context} positions"] += 1
        elif chosen == rejected:
            preferences.skipped["chosen and rejected have the same tokens"] += 1
        else:
            prompt = one.prompt if isinstance(one.prompt, str) else repr(one.prompt)
            found.append(ScoredPair(prompt, chosen, rejected, (one.margin or 0.0) if margin else 0.0))
    preferences.pairs = preferences.pairs[: len(found)]
    return found
