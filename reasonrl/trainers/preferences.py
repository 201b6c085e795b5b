"""Pairs as they are trained on: token ids, micro-batches that share a pair's prompt, the loss, what is measured."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from reasonrl.algorithms.preference import accuracy, dpo, hinge, implicit_rewards, ipo, margins
from reasonrl.batch import Row, collate, micro_batches
from reasonrl.config import PreferenceConfig
from reasonrl.models.logprobs import response_logprobs
from reasonrl.trainers.session import Session

Context = Callable[[], AbstractContextManager[Any]]
MEASURED = ("loss", "accuracy", "margin", "reward_chosen", "reward_rejected", "logprob_chosen", "logprob_rejected",
            "ratio_chosen", "ratio_rejected")  # fmt: skip


@dataclass(frozen=True)
class TokenPair:
    """A pair as token ids.

    Attributes:
        prompt_ids, chosen_ids, rejected_ids: one prompt, two responses.
        ref_chosen, ref_rejected: log-probabilities of the responses under the reference, summed over their tokens; NaN
            before they are known.
    """

    prompt_ids: tuple[int, ...]
    chosen_ids: tuple[int, ...]
    rejected_ids: tuple[int, ...]
    ref_chosen: float = float("nan")
    ref_rejected: float = float("nan")


@dataclass(frozen=True)
class Scoring:
    """How log-probabilities of responses are computed.

    Attributes:
        pad_id: fills what masks hide.
        share_prompt, logits_chunk: see `models.logprobs`.
        max_tokens: most tokens of a micro-batch, padding included.
        device: of the model.
        autocast: what is computed in lower precision.
    """

    pad_id: int
    share_prompt: bool
    logits_chunk: int
    max_tokens: int
    device: torch.device
    autocast: Context


def pair_batches(pairs: Sequence[TokenPair], scoring: Scoring) -> list[list[int]]:
    """The places of the pairs of each micro-batch; both responses of a pair are in one, behind one prompt."""
    rows = [row for at in range(len(pairs)) for row in rows_of(pairs, [at])]
    batches = micro_batches(rows, scoring.max_tokens, share_prompt=scoring.share_prompt, whole_groups=True)
    return [list(dict.fromkeys(row.group for row in batch)) for batch in batches]


def rows_of(pairs: Sequence[TokenPair], places: Sequence[int]) -> list[Row]:
    """The responses of some pairs, chosen before rejected, pair after pair; a group is a pair's place."""
    return [
        Row(pairs[at].prompt_ids, ids, group=at)
        for at in places
        for ids in (pairs[at].chosen_ids, pairs[at].rejected_ids)
    ]


def pair_logprobs(model: Any, pairs: Sequence[TokenPair], places: Sequence[int], scoring: Scoring) -> Tensor:
    """Log-probabilities of the responses of some pairs, summed over their tokens: (B, 2), chosen and rejected.

    Both go through one forward, and their prompt through it once: they see it, and not each other.
    """
    batch = collate(rows_of(pairs, places), scoring.pad_id).to(scoring.device)
    with scoring.autocast():
        scores = response_logprobs(
            model, batch, temperature=1.0, share_prompt=scoring.share_prompt, logits_chunk=scoring.logits_chunk
        )
    return scores.logprobs.sum(1).view(-1, 2)


class PreferenceLoss:
    """The loss of pairs, and what is measured beside it.

    Args:
        config: which loss, and its numbers.
        model: π_θ.
        scoring: how its log-probabilities are computed.
    """

    def __init__(self, config: PreferenceConfig, model: Any, scoring: Scoring) -> None:
        self.config, self.model, self.scoring = config, model, scoring
        self._sums = torch.zeros(len(MEASURED), dtype=torch.float64)
        self._pairs = 0

    def shares(self, pairs: Sequence[TokenPair], total: float) -> Iterator[Tensor]:
        """The micro-batches' shares of the loss, which is the mean over `total` pairs."""
        for places in pair_batches(pairs, self.scoring):
            sums = pair_logprobs(self.model, pairs, places, self.scoring)
            yield self.of(sums, [pairs[at] for at in places]).sum() / total

    def of(self, sums: Tensor, pairs: Sequence[TokenPair]) -> Tensor:
        """The loss of each pair, (B,), from its summed log-probabilities, (B, 2), which have a gradient."""
        refs = sums.new_tensor([(pair.ref_chosen, pair.ref_rejected) for pair in pairs])
        lengths = sums.new_tensor([(len(pair.chosen_ids), len(pair.rejected_ids)) for pair in pairs])
        scale = lengths if self.config.length_normalised else torch.ones_like(lengths)
        policy, ref = (sums / scale).unbind(1), (refs / scale).unbind(1)
        losses = LOSSES[self.config.loss](self.config, *policy, *ref)
        self._measure(losses, sums, refs, policy, ref)
        return losses

    @torch.no_grad()
    def _measure(
        self, losses: Tensor, sums: Tensor, refs: Tensor, policy: Sequence[Tensor], ref: Sequence[Tensor]
    ) -> None:
        chosen, rejected = (implicit_rewards(*both, beta=self.config.beta) for both in zip(policy, ref, strict=True))
        measured = (losses, accuracy(chosen, rejected), margins(chosen, rejected), chosen, rejected, *sums.unbind(1),
                    *(sums - refs).unbind(1))  # fmt: skip
        self._sums += torch.stack([values.double().sum() for values in measured]).cpu()
        self._pairs += len(losses)

    def metrics(self, session: Session) -> dict[str, float]:
        """Means since this was last called, over all processes, which call it together; and whether both fell.

        `reward_chosen` and `reward_rejected` are implicit rewards β·log(π/ref), `margin` their difference, `accuracy`
        the share of pairs whose chosen response has the higher one; `logprob_chosen` and `logprob_rejected` are summed
        over the response; `both_fell` is 1 where both are less likely than under the reference, in the mean.
        """
        pairs = session.sum(self._pairs)
        means = (session.sum_tensor(self._sums) / max(1.0, pairs)).tolist()
        self._sums, self._pairs = torch.zeros_like(self._sums), 0
        found = dict(zip(MEASURED, means, strict=True))
        ratios = found.pop("ratio_chosen"), found.pop("ratio_rejected")
        return found | {"both_fell": float(max(ratios) < 0)}


def _dpo(config: PreferenceConfig, *scores: Tensor) -> Tensor:
    return dpo(*scores, beta=config.beta, label_smoothing=config.label_smoothing)


def _ipo(config: PreferenceConfig, *scores: Tensor) -> Tensor:
    return ipo(*scores, beta=config.beta)


def _hinge(config: PreferenceConfig, *scores: Tensor) -> Tensor:
    return hinge(*scores, beta=config.beta)


# π_w, π_l, ref_w, ref_l, (B,) each -> (B,)
LOSSES: dict[str, Callable[..., Tensor]] = {"dpo": _dpo, "ipo": _ipo, "hinge": _hinge}
