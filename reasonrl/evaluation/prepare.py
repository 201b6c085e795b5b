"""Problems and a policy made ready to sample: prompts as token ids, the engine, the sampling."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from reasonrl.errors import ReasonRLError
from reasonrl.evaluation.evaluate import Prompted
from reasonrl.models.heads import logits
from reasonrl.models.load import Policy
from reasonrl.models.prompt import check_length, prompt_ids
from reasonrl.rollout.engine import Engine, Sampling
from reasonrl.rollout.huggingface import HuggingFaceEngine
from reasonrl.tasks import SamplingConfig
from reasonrl.types import Problem


def to_sampling(config: SamplingConfig) -> Sampling:
    """A task's or run's sampling, as the engine takes it."""
    return Sampling(**config.model_dump())


def make_engine(
    policy: Policy, max_batch: int, autocast: Callable[[], AbstractContextManager[Any]] = nullcontext
) -> Engine:
    """The engine that samples from a policy; it shares the policy's model."""
    return HuggingFaceEngine(
        policy.model,
        policy.tokenizer,
        eos_ids=policy.eos_ids,
        pad_id=policy.pad_id,
        logits=logits,
        max_batch=max_batch,
        autocast=autocast,
    )


def with_prompts(problems: Sequence[Problem], policy: Policy, max_tokens: int) -> list[Prompted]:
    """The problems with their prompts as token ids.

    Raises:
        ReasonRLError: two problems have one id, or a prompt and its longest response do not fit the model.
    """
    prompted = [Prompted(problem, prompt_ids(problem.prompt, policy.tokenizer)) for problem in problems]
    seen: set[str] = set()
    for one in prompted:
        if one.problem.id in seen:
            raise ReasonRLError(f"two problems have the id {one.problem.id!r}; the task's `id` column must be unique")
        seen.add(one.problem.id)
        check_length(one.problem.id, len(one.prompt_ids), max_tokens, policy.max_positions)
    return prompted
