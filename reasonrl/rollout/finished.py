"""A finished response as a rollout: its text, and why it ended. The same for every engine."""

import math
from collections.abc import Collection, Sequence
from typing import Any

from reasonrl.errors import ReasonRLError
from reasonrl.rollout.engine import Request
from reasonrl.types import FinishReason, Rollout


def decoded(tokenizer: Any, ids: Sequence[int]) -> str:
    """The text of token ids, without special tokens."""
    text: str = tokenizer.decode(ids, skip_special_tokens=True)
    return text


def finished_rollout(
    request: Request,
    sample: int,
    ids: Sequence[int],
    logprobs: Sequence[float],
    *,
    tokenizer: Any,
    eos_ids: Collection[int],
    stop: Sequence[str],
    version: int,
    seed: int,
) -> Rollout:
    """The rollout of a response that has ended.

    Args:
        request, sample: what was asked, and which of its samples this is.
        ids, logprobs: all that was sampled, with its log-probabilities.
        tokenizer, eos_ids: decode it; ids that end a response.
        stop: texts that end a response: the text is cut before them.
        version, seed: of the weights and of the draws.

    Raises:
        ReasonRLError: a log-probability is not finite.
    """
    if not math.isfinite(sum(logprobs)):
        raise ReasonRLError(f"problem {request.problem_id}: the model's logits are not finite")
    ended = ids[-1] in eos_ids
    text = decoded(tokenizer, ids[:-1] if ended else ids)
    cuts = [at for part in stop if (at := text.find(part)) >= 0]
    reason: FinishReason = "stop" if ended or cuts else "length"
    return Rollout(
        problem_id=request.problem_id,
        sample=sample,
        prompt_ids=request.prompt_ids,
        response_ids=tuple(ids),
        logprobs=tuple(logprobs),
        text=text[: min(cuts)] if cuts else text,
        finish_reason=reason,
        version=version,
        seed=seed,
    )
