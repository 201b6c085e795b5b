"""The algorithm part of a run: one record an algorithm, and the optimiser they share."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from reasonrl.config.divisors import divisors
from reasonrl.yamlfile import Record


class OptimizerConfig(Record):
    """AdamW (Loshchilov and Hutter 2019) with warm-up and a schedule.

    Attributes:
        warmup_steps: steps over which the rate rises linearly from 0.
        schedule: how it falls afterwards, to `final_ratio` of its peak.
        max_grad_norm: gradients are scaled down to this global L2 norm.
        max_nonfinite: so many steps in a row with a non-finite loss or gradient (each skipped) stop the run.
    """

    learning_rate: float = Field(1e-6, gt=0)
    betas: tuple[float, float] = (0.9, 0.99)
    epsilon: float = Field(1e-8, gt=0)
    weight_decay: float = Field(0.0, ge=0)
    warmup_steps: int = Field(0, ge=0)
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    final_ratio: float = Field(0.0, ge=0, le=1)
    max_grad_norm: float = Field(1.0, gt=0)
    max_nonfinite: int = Field(5, ge=1)

    @field_validator("betas")
    @classmethod
    def _decay(cls, betas: tuple[float, float]) -> tuple[float, float]:
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"both must lie in [0, 1), not {list(betas)}")
        return betas


class SFTConfig(Record):
    """Supervised fine-tuning on the task's demonstrations (cross-entropy on response tokens only).

    Attributes:
        steps: optimiser steps.
        batch_size: demonstrations per step, over all processes.
        micro_batch_tokens: most tokens, padding included, in one forward pass.
    """

    name: Literal["sft"] = "sft"
    steps: int = Field(ge=1)
    batch_size: int = Field(ge=1)
    micro_batch_tokens: int = Field(16384, ge=1)
    optimizer: OptimizerConfig = OptimizerConfig()


class KLConfig(Record):
    """The pull toward the reference model (the policy as training began).

    Attributes:
        coefficient: β; 0 means that no reference model is loaded.
        estimator: k1 = d, k2 = d²/2, k3 = e^(−d) + d − 1, with d = log π_θ − log π_ref.
        place: "loss" adds β·KL to the loss; "reward" subtracts β·Σ_t KL_t from each response's reward.
    """

    coefficient: float = Field(0.0, ge=0)
    estimator: Literal["k1", "k2", "k3"] = "k3"
    place: Literal["loss", "reward"] = "loss"


class ImportanceConfig(Record):
    """What is done where the sampler's log-probabilities μ are not those of the trainer, π_old, for the same weights.

    Attributes:
        mode: "truncated" takes π_old from the trainer and weighs each token's loss with min(π_old/μ, cap); "none" takes
            μ for π_old; "auto" is "none" where the sampler is the trained model itself, else "truncated".
        cap: C, the largest weight.
    """

    mode: Literal["auto", "truncated", "none"] = "auto"
    cap: float = Field(2.0, ge=1)

    def corrects(self, *, sampler_is_policy: bool) -> bool:
        """Is the loss weighted, given whether the sampler is the trained model itself?"""
        return self.mode == "truncated" or (self.mode == "auto" and not sampler_is_policy)


class GRPOConfig(Record):
    """GRPO (Shao et al. 2024, arXiv 2402.03300) with outcome supervision.

    Attributes:
        steps: sampling steps; each samples, verifies and updates.
        problems_per_step, group_size: P and G; a step samples P·G responses over all processes.
        epochs, minibatches: K passes over the batch, each cut into this many updates by problem.
        std: what the group's mean-centred rewards are divided by ("none": Dr. GRPO).
        std_epsilon: added to that standard deviation.
        clip_low, clip_high: the ratio is clipped to [1 − clip_low, 1 + clip_high].
        aggregation: "sequence_mean" (GRPO), "token_mean" (DAPO), "constant" (Dr. GRPO).
        importance: truncated importance sampling, for a sampler that is not the trained model.
        mask_truncated: leave responses cut at the token limit out of the loss.
        micro_batch_tokens: most tokens, padding included, in one forward pass.
        entropy: also measure the policy's entropy.
    """

    name: Literal["grpo"] = "grpo"
    steps: int = Field(ge=1)
    problems_per_step: int = Field(ge=1)
    group_size: int = Field(8, json_schema_extra={"minimum": 2})
    epochs: int = Field(1, ge=1)
    minibatches: int = Field(1, ge=1)
    std: Literal["population", "sample", "none"] = "population"
    std_epsilon: float = Field(1e-6, ge=0)
    clip_low: float = Field(0.2, gt=0, lt=1)
    clip_high: float = Field(0.2, gt=0)
    aggregation: Literal["sequence_mean", "token_mean", "constant"] = "sequence_mean"
    kl: KLConfig = KLConfig()
    importance: ImportanceConfig = ImportanceConfig()
    mask_truncated: bool = False
    micro_batch_tokens: int = Field(16384, ge=1)
    entropy: bool = True
    optimizer: OptimizerConfig = OptimizerConfig()

    @field_validator("group_size")
    @classmethod
    def _compares(cls, group_size: int) -> int:
        if group_size < 2:
            raise ValueError(
                f"expected at least 2, not {group_size}: a response's advantage is relative to the mean of its group; "
                "one response alone is its own mean, so that every advantage would be 0 and nothing would be learnt"
            )
        return group_size

    @model_validator(mode="after")
    def _minibatches_divide(self) -> Self:
        if self.problems_per_step % self.minibatches:
            raise ValueError(
                f"problems_per_step {self.problems_per_step} does not divide by minibatches {self.minibatches}; "
                f"minibatches that work: {divisors(self.problems_per_step)}"
            )
        return self

    @property
    def on_policy(self) -> bool:
        """Is there one update a step, so that π_old is π_θ?"""
        return self.epochs * self.minibatches == 1
