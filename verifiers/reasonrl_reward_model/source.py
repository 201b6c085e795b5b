"""Where scores come from: the interface, and a model of ours. Imports torch only when a model is loaded."""

import math
from collections.abc import Sequence
from typing import Protocol

from reasonrl import Problem, ReasonRLError, Response, Verdict
from reasonrl_reward_model.options import RewardModelOptions

Pair = tuple[Problem, Response]


class Source(Protocol):
    """What gives scores."""

    def scores(self, pairs: Sequence[Pair]) -> list[float | Verdict]:
        """A finite score of each response, or a verdict without reward that says why there is none."""

    def fault(self, problem: Problem) -> str | None:
        """What of a problem keeps its responses from ever being scored; None if nothing does."""


class LocalModel:
    """A reward model in this process, loaded once.

    Raises:
        ReasonRLError: it cannot be loaded, or was never trained to score.
    """

    def __init__(self, options: RewardModelOptions) -> None:
        from reasonrl.models.reward import load_reward_model

        assert options.model is not None
        self._batch_size = options.batch_size
        self._model = load_reward_model(
            options.model,
            revision=options.revision,
            dtype=options.dtype,
            device=options.device,
            attention=options.attention,
            context=options.max_tokens,
            key="verifier reward_model: model",
        )

    def scores(self, pairs: Sequence[Pair]) -> list[float | Verdict]:
        """One each, in order."""
        rows = [self._ids(problem, response.text) for problem, response in pairs]
        fitting = [index for index, row in enumerate(rows) if row and self._fits(row)]
        scores = self._model.scores([rows[index] for index in fitting], self._batch_size)
        found: list[float | Verdict] = [self._unscored(row) for row in rows]
        for index, score in zip(fitting, scores, strict=True):
            evidence = {"score": str(score)}
            found[index] = score if math.isfinite(score) else Verdict(None, "not_finite", evidence=evidence)
        return found

    def fault(self, problem: Problem) -> str | None:
        """A chat prompt without chat template, or a prompt that does not fit."""
        try:
            ids = self._ids(problem, "")
        except ReasonRLError as error:
            return str(error)
        context = self._model.context
        return None if self._fits(ids) else f"the prompt has {len(ids)} tokens, and the reward model takes {context}"

    def _ids(self, problem: Problem, response: str) -> tuple[int, ...]:
        from reasonrl.models.prompt import conversation_ids

        return conversation_ids(problem.prompt, response, self._model.tokenizer)

    def _fits(self, ids: Sequence[int]) -> bool:
        return self._model.context is None or len(ids) <= self._model.context

    def _unscored(self, ids: Sequence[int]) -> Verdict:
        if not ids:
            return Verdict(None, "no_text", evidence={"tokens": 0})
        return Verdict(None, "too_long", evidence={"tokens": len(ids), "context": self._model.context})
