"""Learning from preferences: pairs of a file (`dpo`), or of responses sampled as training goes on (`online_dpo`)."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from reasonrl.config.divisors import divisors
from reasonrl.config.optimizer import OptimizerConfig
from reasonrl.config.policy import RolloutConfig
from reasonrl.yamlfile import Record


class PreferenceConfig(Record):
    """The loss of a pair.

    Attributes:
        loss: "dpo", "ipo" or "hinge" (`algorithms.preference`).
        beta: β, how strongly the reference holds.
        label_smoothing: s of conservative DPO, the share of pairs that are taken to be the wrong way round.
        length_normalised: log-probabilities are means over a response's tokens, not their sums.
        micro_batch_tokens: most tokens, padding included, in one forward pass; a pair is never cut.
        optimizer: AdamW, its schedule and its limits.
    """

    loss: Literal["dpo", "ipo", "hinge"] = "dpo"
    beta: float = Field(0.1, gt=0)
    label_smoothing: float = Field(0.0, ge=0, lt=0.5)
    length_normalised: bool = False
    micro_batch_tokens: int = Field(16384, ge=1)
    optimizer: OptimizerConfig = OptimizerConfig()

    @model_validator(mode="after")
    def _smooths_dpo(self) -> Self:
        if self.label_smoothing > 0 and self.loss != "dpo":
            raise ValueError(
                f"label_smoothing belongs to the loss dpo, and the loss is {self.loss}; set one of them otherwise"
            )
        return self


class DPOConfig(PreferenceConfig):
    """DPO (Rafailov et al. 2023, arXiv 2305.18290) on pairs from files.

    Attributes:
        pairs: the files, as `reasonrl build pairs` or TRL's data sets have them.
        steps: optimiser steps.
        batch_size: pairs per step, over all processes.
    """

    name: Literal["dpo"] = "dpo"
    pairs: tuple[str, ...] = Field(min_length=1)
    steps: int = Field(ge=1)
    batch_size: int = Field(ge=1)

    @field_validator("pairs", mode="before", json_schema_input_type=str | tuple[str, ...])
    @classmethod
    def _one_file(cls, pairs: object) -> object:
        return (pairs,) if isinstance(pairs, str) else pairs


class OnlineDPOConfig(PreferenceConfig, RolloutConfig):
    """DPO on pairs of the policy's own responses: each step samples, verifies, pairs and updates (arXiv 2402.04792).

    Attributes:
        pairs_per_problem: at most so many; problems whose responses all agree have none.
        choice: which of a problem's pairs, as of `reasonrl build pairs`.
        margin: rewards of a pair differ by at least so much; null: right and wrong by the judge.
        reference: "start", the policy as training began; "step", the policy as the step began.
        epochs, minibatches: passes over a step's pairs, each cut into this many updates.
    """

    name: Literal["online_dpo"] = "online_dpo"
    pairs_per_problem: int = Field(2, ge=1)
    choice: Literal["random", "balanced", "hardest"] = "random"
    margin: float | None = Field(None, ge=0)
    reference: Literal["start", "step"] = "start"
    epochs: int = Field(1, ge=1)
    minibatches: int = Field(1, ge=1)

    @field_validator("group_size")
    @classmethod
    def _pairs(cls, group_size: int) -> int:
        if group_size < 2:
            raise ValueError(f"expected at least 2, not {group_size}: a pair is of two responses to one problem")
        return group_size

    @model_validator(mode="after")
    def _minibatches_divide(self) -> Self:
        if self.problems_per_step % self.minibatches:
            raise ValueError(
                f"problems_per_step {self.problems_per_step} does not divide by minibatches {self.minibatches}; "
                f"minibatches that work: {divisors(self.problems_per_step)}"
            )
        return self

    @model_validator(mode="after")
    def _shapes_something(self) -> Self:
        if self.overlong_buffer is not None and self.margin is None:
            raise ValueError(
                "overlong_buffer shapes rewards, which pairs of right and wrong responses do not use; set margin, or "
                "overlong_buffer to null"
            )
        return self

    @property
    def supervision(self) -> None:
        """Steps are not rewarded: a pair is of two whole responses."""
        return None

    @property
    def updates(self) -> int:
        """Optimiser steps of the whole run."""
        return self.steps * self.epochs * self.minibatches
