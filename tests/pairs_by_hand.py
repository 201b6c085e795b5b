"""Pairs of token ids, their losses from separate unpadded forwards, and a DPO run around them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from accelerate import Accelerator
from small_models import full_logits
from torch import Tensor

from reasonrl.config import DPOConfig, OptimizerConfig
from reasonrl.models.load import Policy
from reasonrl.trainers.preferences import PreferenceLoss, Scoring, TokenPair

# Adam divides each gradient by its own size, rounding errors too: a large epsilon keeps them small.
OPTIMIZER = OptimizerConfig(learning_rate=1e-2, epsilon=0.01, max_grad_norm=1e9)
PAIRS = [
    TokenPair((3, 4, 5, 6, 7), (8, 9, 10, 1), (11, 1)),
    TokenPair((12,), (3,), (5, 6, 7, 8, 9, 4, 1)),
    TokenPair((9, 8, 7), (4, 4, 1), (4, 5, 1)),
    TokenPair((3, 3, 10, 12), (16, 15, 14, 13, 12, 1), (16, 15, 1)),
    TokenPair((5, 11), (7, 1), (7,)),
]


def config(**settings: Any) -> DPOConfig:
    return DPOConfig.model_validate({"pairs": ["none"], "steps": 2, "batch_size": 5, "optimizer": OPTIMIZER} | settings)


def scoring(policy: Policy, *, share_prompt: bool = True, max_tokens: int = 16384) -> Scoring:
    return Scoring(policy.pad_id, share_prompt, 2**26, max_tokens, torch.device("cpu"), Accelerator(cpu=True).autocast)


def preference_loss(policy: Policy, given: DPOConfig, **settings: Any) -> PreferenceLoss:
    return PreferenceLoss(given, policy.model, scoring(policy, **settings))


def summed(model: Any, prompt: Sequence[int], response: Sequence[int]) -> Tensor:
    """log π(response | prompt) from one unpadded forward of the model itself."""
    logits = full_logits(model, prompt, response)
    return torch.log_softmax(logits, -1).gather(1, torch.tensor(response)[:, None]).sum()


def referenced(model: Any, pairs: Sequence[TokenPair] = PAIRS) -> list[TokenPair]:
    """The pairs with the log-probabilities of a reference, one forward each."""
    with torch.no_grad():
        return [
            replace(
                pair,
                ref_chosen=float(summed(model, pair.prompt_ids, pair.chosen_ids)),
                ref_rejected=float(summed(model, pair.prompt_ids, pair.rejected_ids)),
            )
            for pair in pairs
        ]


def plain_delta(model: Any, pair: TokenPair, *, normalised: bool = False) -> Tensor:
    """Δ of a pair, from separate forwards."""
    chosen = summed(model, pair.prompt_ids, pair.chosen_ids) - pair.ref_chosen
    rejected = summed(model, pair.prompt_ids, pair.rejected_ids) - pair.ref_rejected
    if normalised:
        chosen, rejected = chosen / len(pair.chosen_ids), rejected / len(pair.rejected_ids)
    return chosen - rejected
