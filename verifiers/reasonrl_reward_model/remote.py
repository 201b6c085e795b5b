"""Servers that score. What fails, or answers in another shape than asked for, leaves its responses unjudged."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from reasonrl import Problem, Verdict
from reasonrl_reward_model.options import RemoteOptions
from reasonrl_reward_model.post import Failure, post
from reasonrl_reward_model.source import Pair

_SHOWN = 300  # characters of an answer in a verdict


class WrongShape(ValueError):
    """An answer is not what was asked for."""


class API(ABC):
    """How one kind of server is asked, and what it answers.

    Class attributes:
        path: behind the server's url.
        single: is one response sent at a time?
    """

    path: str = ""
    single: bool = True

    @abstractmethod
    def body(self, pairs: Sequence[Pair], model: str | None) -> dict[str, Any]:
        """What is sent."""

    @abstractmethod
    def values(self, answer: Any) -> list[Any]:
        """The scores in an answer, as they stand there. Raises WrongShape, or what its first wrong look-up raises."""


class JsonAPI(API):
    """An endpoint of anybody's; docs/verifiers/reward_models.md has the schema."""

    single = False

    def body(self, pairs: Sequence[Pair], model: str | None) -> dict[str, Any]:
        """{"inputs": [{"prompt": text or messages, "response": text}, …]}, with "model" if it is named."""
        inputs = [{"prompt": _plain(problem), "response": response.text} for problem, response in pairs]
        return {"inputs": inputs} | ({} if model is None else {"model": model})

    def values(self, answer: Any) -> list[Any]:
        """{"rewards": [number or null, …]}."""
        return _list(answer["rewards"])


class VllmClassify(API):
    """vLLM's /classify, of a sequence classifier with one label; the logit, not its σ."""

    path = "/classify"

    def body(self, pairs: Sequence[Pair], model: str | None) -> dict[str, Any]:
        """A chat, or a text; vLLM refuses what is too long unless asked to cut it."""
        [(problem, response)] = pairs
        asked = {"use_activation": False} | ({} if model is None else {"model": model})
        if isinstance(problem.prompt, str):
            return asked | {"input": problem.prompt + response.text}
        answer = {"role": "assistant", "content": response.text}
        return asked | {"messages": [*_plain(problem), answer], "add_generation_prompt": False}

    def values(self, answer: Any) -> list[Any]:
        """{"data": [{"probs": [number]}]}."""
        return [_only(one["probs"]) for one in _list(answer["data"])]


class VllmPooling(VllmClassify):
    """vLLM's /pooling, of the same models."""

    path = "/pooling"

    def body(self, pairs: Sequence[Pair], model: str | None) -> dict[str, Any]:
        """As for /classify, with the task."""
        return super().body(pairs, model) | {"task": "classify"}

    def values(self, answer: Any) -> list[Any]:
        """{"data": [{"data": [number]}]}."""
        return [_only(one["data"]) for one in _list(answer["data"])]


APIS: dict[str, API] = {"json": JsonAPI(), "vllm_classify": VllmClassify(), "vllm_pooling": VllmPooling()}


class Server:
    """Scores of a server, several requests at once.

    Args:
        options: where it is and how it is asked.
        batch_size: responses in one request, where the API takes several.
    """

    def __init__(self, options: RemoteOptions, batch_size: int) -> None:
        self._options = options
        self._api = APIS[options.api]
        self._size = 1 if self._api.single else batch_size
        self._url = options.url.rstrip("/") + self._api.path if self._api.path else options.url

    def scores(self, pairs: Sequence[Pair]) -> list[float | Verdict]:
        """One each, in order."""
        chunks = [pairs[start : start + self._size] for start in range(0, len(pairs), self._size)]
        with ThreadPoolExecutor(self._options.connections) as threads:
            return [found for chunk in threads.map(self._ask, chunks) for found in chunk]

    def fault(self, problem: Problem) -> None:
        """None: a server is not asked before there are responses."""

    def _ask(self, pairs: Sequence[Pair]) -> list[float | Verdict]:
        try:
            answer = post(
                self._url,
                self._api.body(pairs, self._options.model),
                token=None if self._options.token is None else self._options.token.get_secret_value(),
                timeout=self._options.timeout,
                retries=self._options.retries,
                backoff=self._options.backoff,
            )
            values = self._api.values(answer)
        except Failure as failure:
            return [_unjudged(str(failure))] * len(pairs)
        except (WrongShape, KeyError, TypeError, IndexError):
            return [_unjudged(f"{self._url}: the answer has another shape: {str(answer)[:_SHOWN]}")] * len(pairs)
        if len(values) != len(pairs):
            text = f"{self._url}: {len(values)} scores for {len(pairs)} responses, so none can be told to be whose"
            return [_unjudged(text)] * len(pairs)
        return [self._checked(value) for value in values]

    def _checked(self, value: Any) -> float | Verdict:
        if value is None:
            return _unjudged(f"{self._url}: the server could not score it")
        if isinstance(value, bool) or not isinstance(value, int | float):
            return _unjudged(f"{self._url}: {str(value)[:_SHOWN]!r} is no number")
        try:
            score = float(value)
        except OverflowError:
            score = math.inf
        return score if math.isfinite(score) else _unjudged(f"{self._url}: the score is {value}"[:_SHOWN], "not_finite")


def _unjudged(error: str, reason: str = "remote") -> Verdict:
    return Verdict(None, reason, evidence={"error": error})


def _plain(problem: Problem) -> Any:
    return problem.prompt if isinstance(problem.prompt, str) else [dict(message) for message in problem.prompt]


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise WrongShape
    return value


def _only(value: Any) -> Any:
    if not isinstance(value, list) or len(value) != 1:
        raise WrongShape
    return value[0]
