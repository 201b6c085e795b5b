"""What all reinforcement learning shares: how much is sampled, how it is cut into updates, what restrains them."""

from typing import Literal, Self

from pydantic import Field, model_validator

from reasonrl.config.divisors import divisors
from reasonrl.config.optimizer import OptimizerConfig
from reasonrl.yamlfile import Record


class KLConfig(Record):
    """The pull toward the reference model (the policy as training began).

    Attributes:
        coefficient: β; 0 means that no reference model is loaded.
        estimator: k1 = d, k2 = d²/2, k3 = e^(−d) + d − 1, with d = log π_θ − log π_ref.
        place: "loss" adds β·KL to the loss; "reward" subtracts it from the rewards: β·KL_t from each token's where
            tokens have rewards (PPO, REINFORCE++), else β·Σ_t KL_t from that of the response or step.
        target: adapt β after every step, so that KL per token comes near this many nats (Ziegler et al. 2019).
        horizon: responses over which such an adaptation by a factor of 1.2 at most acts in full.
    """

    coefficient: float = Field(0.0, ge=0)
    estimator: Literal["k1", "k2", "k3"] = "k3"
    place: Literal["loss", "reward"] = "loss"
    target: float | None = Field(None, gt=0)
    horizon: int = Field(10_000, ge=1)

    @model_validator(mode="after")
    def _adapts_something(self) -> Self:
        if self.target is not None and self.coefficient == 0:
            raise ValueError(
                f"target {self.target} adapts the coefficient by a factor, and 0 stays 0; give one to start from"
            )
        return self


class RewardKLConfig(KLConfig):
    """The same, by default in the reward, where its plain estimate k1 belongs."""

    estimator: Literal["k1", "k2", "k3"] = "k1"
    place: Literal["loss", "reward"] = "reward"


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


class RolloutConfig(Record):
    """What every algorithm that samples and verifies as it goes has in common.

    Attributes:
        name: which one.
        steps: sampling steps; each samples, verifies and updates.
        problems_per_step, group_size: P and G; a step samples P·G responses over all processes.
        mask_truncated: leave responses cut at the token limit out of the loss.
        overlong_buffer: add DAPO's soft punishment (arXiv 2503.14476, eq. 13) to the reward: 0 up to the last share of
            the token limit that this names, then falling to −1 at the limit.
        micro_batch_tokens: most tokens, padding included, in one forward pass.
    """

    name: str
    steps: int = Field(ge=1)
    problems_per_step: int = Field(ge=1)
    group_size: int = Field(8, ge=1)
    mask_truncated: bool = False
    overlong_buffer: float | None = Field(None, gt=0, le=1)
    micro_batch_tokens: int = Field(16384, ge=1)

    @property
    def responses_per_step(self) -> int:
        """P·G, those sampled in place of others aside."""
        return self.problems_per_step * self.group_size


class PolicyConfig(RolloutConfig):
    """What every algorithm that gives responses an advantage has in common.

    Attributes:
        kl: the pull toward the reference model.
        importance: truncated importance sampling, for a sampler that is not the trained model.
        entropy: also measure the policy's entropy.
    """

    kl: KLConfig = KLConfig()
    importance: ImportanceConfig = ImportanceConfig()
    entropy: bool = True

    @model_validator(mode="after")
    def _adapts_slowly(self) -> Self:
        if self.kl.target is not None and self.responses_per_step >= 5 * self.kl.horizon:
            raise ValueError(
                f"kl.horizon {self.kl.horizon} is too small for the {self.responses_per_step} responses of a step: β "
                f"could lose its sign; it must be more than {self.responses_per_step // 5}"
            )
        return self


class UpdatesConfig(PolicyConfig):
    """The updates of algorithms that take gradient steps.

    Attributes:
        epochs, minibatches: K passes over the batch, each cut into this many updates by problem.
        target_kl: skip what is left of a step's updates once a minibatch's mean KL(π_old ‖ π_θ) passes 1.5 × this.
        entropy_bonus: c_e; the loss has −c_e·H(π_θ) for each token, exact from the logits.
        optimizer: AdamW, its schedule and its limits.
    """

    epochs: int = Field(1, ge=1)
    minibatches: int = Field(1, ge=1)
    target_kl: float | None = Field(None, gt=0)
    entropy_bonus: float = Field(0.0, ge=0)
    optimizer: OptimizerConfig = OptimizerConfig()

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

    @property
    def updates(self) -> int:
        """Optimiser steps of the whole run."""
        return self.steps * self.epochs * self.minibatches
