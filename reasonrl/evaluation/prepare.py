"""Problems and a policy made ready to sample: prompts as token ids, the engine, the sampling."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from reasonrl.evaluation.evaluate import Prompted
from reasonrl.models.heads import logits
from reasonrl.models.load import Policy
from reasonrl.models.prompt import check_length, prompt_ids
from reasonrl.rollout.engine import Engine, Sampling
from reasonrl.rollout.huggingface import HuggingFaceEngine
from reasonrl.tasks import SamplingConfig
from reasonrl.types import Problem


def to_sampling(task: SamplingConfig, run: SamplingConfig | None = None) -> Sampling:
    """A task's sampling, as the engine takes it; what a run sets of its own wins, key by key."""
    return Sampling(**task.model_dump() | ({} if run is None else run.model_dump(exclude_unset=True)))


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


def with_prompt(problem: Problem, policy: Policy, max_tokens: int, longest: int | None = None) -> Prompted | None:
    """The problem with its prompt as token ids; None if the prompt has more than `longest` tokens.

    Raises:
        ReasonRLError: prompt and longest response do not fit the model, or it has no chat template for the prompt.
    """
    prompted = Prompted(problem, prompt_ids(problem.prompt, policy.tokenizer))
    if longest is not None and len(prompted.prompt_ids) > longest:
        return None
    check_length(problem.id, len(prompted.prompt_ids), max_tokens, policy.max_positions)
    return prompted


def with_prompts(
    problems: Sequence[Problem], policy: Policy, max_tokens: int, longest: int | None = None
) -> list[Prompted]:
    """The problems with their prompts as token ids, without those whose prompt has more than `longest` tokens.

    Raises:
        ReasonRLError: as of `with_prompt`.
    """
    prompted = (with_prompt(problem, policy, max_tokens, longest) for problem in problems)
    return [one for one in prompted if one is not None]
