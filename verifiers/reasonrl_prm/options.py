"""Options of `prm`: which model, how it was trained to see steps, and what the steps make of the whole."""

import math
from collections.abc import Callable, Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from reasonrl import VerifierOptions

# An outcome from the rewards of at least one step.
REDUCTIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "last": lambda rewards: rewards[-1],
    "min": min,
    "mean": lambda rewards: math.fsum(rewards) / len(rewards),
    "product": math.prod,
}

# What stands at the end of a step, where the task does not say.
MARKS = {"token_classification": "\n", "step_tag": "ки", "separator_token": "<extra_0>", "value_head": "\n"}


class PRMOptions(VerifierOptions):
    """Options of `prm`.

    Attributes:
        model, revision: a folder or hub id.
        convention: how the model was trained to see steps; see `conventions.CONVENTIONS`.
        mark: what stands at the end of each step; by default the convention's, of `MARKS`.
        good, bad: of `step_tag`, the two tokens whose logits are compared.
        steps, separator: how a response is split, as in a run's `algorithm.process`.
        question: metadata column with the problem alone, where the prompt also holds instructions.
        reduction: the reward of the response from those of its steps, see `REDUCTIONS`.
        device, dtype, attention, batch_size, max_tokens: as of `reward_model`.
    """

    model: str = Field(description="folder or hub id of a process reward model")
    revision: str | None = Field(None, description="of the model on the hub")
    convention: Literal["token_classification", "step_tag", "separator_token", "value_head"] = Field(
        description="how the model was trained to see steps"
    )
    mark: str | None = Field(None, min_length=1, description="what ends a step; the convention's own by default")
    good: str = Field("+", min_length=1, description="of step_tag: the token of a good step")
    bad: str = Field("-", min_length=1, description="of step_tag: the token of a bad step")
    steps: Literal["paragraphs", "lines", "numbered", "separator"] = Field(
        "paragraphs", description="how a response is split into steps"
    )
    separator: str | None = Field(None, description="of steps: separator, a regular expression between two steps")
    question: str | None = Field(None, min_length=1, description="metadata column of the problem without instructions")
    reduction: Literal["last", "min", "mean", "product"] = Field("min", description="the response's reward from these")
    device: str = Field("auto", description="auto: the process's GPU if there is one; or cpu, cuda, cuda:1")
    dtype: Literal["float32", "bfloat16"] = Field("float32", description="of the weights")
    attention: str = Field("sdpa", description="transformers' attention implementation")
    batch_size: int = Field(16, ge=1, description="responses in one forward pass")
    max_tokens: int | None = Field(None, ge=1, description="most tokens; steps that end beyond are unjudged")

    @model_validator(mode="after")
    def _read(self) -> Self:
        if (self.separator is not None) != (self.steps == "separator"):
            what = "no separator" if self.separator is not None else "a separator"
            raise ValueError(f"steps split by {self.steps} take {what}")
        if self.convention != "step_tag" and (unread := sorted(self.model_fields_set & {"good", "bad"})):
            raise ValueError(f"{', '.join(unread)}: only the convention step_tag has such tokens")
        if self.good == self.bad:
            raise ValueError("good and bad are the same token")
        return self

    @property
    def step_mark(self) -> str:
        """What ends a step."""
        return MARKS[self.convention] if self.mark is None else self.mark
