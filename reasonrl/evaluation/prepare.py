"""Problems made ready to sample: prompts as token ids, the sampling."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from reasonrl.evaluation.evaluate import Prompted
from reasonrl.models.load import Vocabulary
from reasonrl.models.prompt import check_length, prompt_ids
from reasonrl.rollout.engine import Sampling
from reasonrl.tasks import SamplingConfig
from reasonrl.types import Problem


def to_sampling(task: SamplingConfig, run: SamplingConfig | None = None) -> Sampling:
    """A task's sampling, as the engine takes it; what a run sets of its own wins, key by key."""
    return Sampling(**task.model_dump() | ({} if run is None else run.model_dump(exclude_unset=True)))


def sampling_with(task: SamplingConfig, temperature: float | None, max_tokens: int | None) -> Sampling:
    """A task's sampling with what is given in place of its own."""
    given: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens}
    return replace(to_sampling(task), **{name: value for name, value in given.items() if value is not None})


def with_prompt(
    problem: Problem, vocabulary: Vocabulary, max_tokens: int, longest: int | None = None
) -> Prompted | None:
    """The problem with its prompt as token ids; None if the prompt has more than `longest` tokens.

    Raises:
        ReasonRLError: prompt and longest response do not fit the model, or it has no chat template for the prompt.
    """
    prompted = Prompted(problem, prompt_ids(problem.prompt, vocabulary.tokenizer))
    if longest is not None and len(prompted.prompt_ids) > longest:
        return None
    check_length(problem.id, len(prompted.prompt_ids), max_tokens, vocabulary.max_positions)
    return prompted


def with_prompts(
    problems: Sequence[Problem], vocabulary: Vocabulary, max_tokens: int, longest: int | None = None
) -> list[Prompted]:
    """The problems with their prompts as token ids, without those whose prompt has more than `longest` tokens.

    Raises:
        ReasonRLError: as of `with_prompt`.
    """
    prompted = (with_prompt(problem, vocabulary, max_tokens, longest) for problem in problems)
    return [one for one in prompted if one is not None]
