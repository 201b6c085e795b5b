"""What flows through a run, as plain records of text, token ids and logprobs. Imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

FinishReason = Literal["stop", "length"]


class Message(TypedDict):
    """One turn of a chat prompt, in the shape chat templates take."""

    role: str
    content: str


@dataclass(frozen=True)
class Problem:
    """One problem of a task, as a verifier sees it.

    Attributes:
        id: unique within the task; seeds and groups are keyed by it.
        prompt: the text put to the model, or its chat messages before the tokenizer's chat template.
        reference: the reference answer as text, or None where the task has none.
        metadata: further columns of the row, by the names the task YAML gives them (tests, level, …).
        task: in a mixture, the task it belongs to; else empty.
        row: its number in the task's data (from 0), for messages.
    """

    id: str
    prompt: str | tuple[Message, ...]
    reference: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    task: str = ""
    row: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Response:
    """One response of the model, as a verifier sees it.

    Attributes:
        text: the decoded response, without the end-of-sequence token and without a stop string.
        tokens: its length in tokens, the end-of-sequence token included.
        finish_reason: "stop" (end of sequence or a stop string) or "length" (cut at the token limit).
    """

    text: str
    tokens: int = 0
    finish_reason: FinishReason = "stop"


@dataclass(frozen=True)
class Rollout:
    """One sampled response with all that training needs of it. Text is never tokenised again.

    Attributes:
        problem_id, sample: which problem, and which of its samples (0 … G−1).
        prompt_ids, response_ids: token ids; the response ends with the end-of-sequence id if one was sampled.
        logprobs: the engine's log-probability of each response id under the distribution it was sampled from.
        text: the decoded response, without end-of-sequence token and stop string.
        finish_reason: why it ended.
        version: the weight version that sampled it (0 before any update).
        seed: what its random draws were derived from.
    """

    problem_id: str
    sample: int
    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    text: str
    finish_reason: FinishReason
    version: int
    seed: int

    @property
    def response(self) -> Response:
        """What a verifier gets to see of this rollout."""
        return Response(text=self.text, tokens=len(self.response_ids), finish_reason=self.finish_reason)
