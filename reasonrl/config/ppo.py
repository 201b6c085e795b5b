"""PPO: a policy and its critic."""

from typing import Literal, Self

from pydantic import Field, model_validator

from reasonrl.config.critic_free import AggregationName, ProcessConfig
from reasonrl.config.optimizer import OptimizerConfig
from reasonrl.config.policy import RewardKLConfig, UpdatesConfig
from reasonrl.yamlfile import Excluding, Record


class CriticOptimizerConfig(OptimizerConfig):
    """The same, by default ten times as fast: a value head begins with nothing."""

    learning_rate: float = Field(1e-5, gt=0)


class CriticConfig(Record):
    """The value function.

    Attributes:
        path: a folder or hub id to start from: a language model, or a reward model whose scoring head becomes the value
            head; the policy as training begins if null.
        revision: of the hub's.
        shared: no model of its own, but a value head on the policy's trunk, trained in the policy's updates.
        warmup_steps: steps at the start that train the critic alone; not for a shared one.
        optimizer: of a critic of its own.
    """

    path: str | None = None
    revision: str | None = None
    shared: bool = False
    warmup_steps: int = Field(0, ge=0)
    optimizer: CriticOptimizerConfig = CriticOptimizerConfig()

    @model_validator(mode="after")
    def _one_trunk(self) -> Self:
        if self.shared and self.path is not None:
            raise Excluding(
                "a shared critic has the policy's trunk; leave out `path`, or set `shared` to false", "path", "shared"
            )
        if self.shared and self.warmup_steps > 0:
            raise Excluding(
                "a shared critic learns in the policy's updates, so that there is no critic alone to train; leave out "
                "`warmup_steps`, or set `shared` to false",
                "warmup_steps",
                "shared",
            )
        return self


class PenaltyConfig(Record):
    """PPO-Penalty (arXiv 1707.06347, §4): β·KL(π_old ‖ π_θ) in place of the clip.

    Attributes:
        coefficient: β to begin with; after each step it is halved where KL < target/1.5, doubled where KL > 1.5·target.
        target: d, nats per token.
    """

    coefficient: float = Field(1.0, gt=0)
    target: float = Field(0.01, gt=0)


class PPOConfig(UpdatesConfig):
    """PPO (Schulman et al. 2017, arXiv 1707.06347) with a critic and generalised advantage estimation.

    Attributes:
        loss: "clip" (eq. 7), or "penalty" (eq. 8) with the KL over the whole vocabulary.
        clip_low, clip_high: the ratio is clipped to [1 − clip_low, 1 + clip_high].
        dual_clip: a bound of the ratio where the advantage is negative (arXiv 1912.09729).
        penalty: of the loss "penalty".
        discount: γ.
        gae_lambda: λ of generalised advantage estimation (arXiv 1506.02438).
        whiten: normalise advantages over the batch, after the returns are taken.
        process_weight: each step reward of a verifier times this is a reward at its step's last token.
        value_coefficient: c_v of a shared critic's loss.
        value_clip: ε_v; values may move so far from those at sampling; no bound if null.
        aggregation: as for GRPO; of policy and value loss.
        critic: the value function.
    """

    name: Literal["ppo"] = "ppo"
    group_size: int = Field(1, ge=1)
    epochs: int = Field(4, ge=1)
    loss: Literal["clip", "penalty"] = "clip"
    clip_low: float = Field(0.2, gt=0, lt=1)
    clip_high: float = Field(0.2, gt=0)
    dual_clip: float | None = Field(None, gt=1)
    penalty: PenaltyConfig = PenaltyConfig()
    discount: float = Field(1.0, gt=0, le=1)
    gae_lambda: float = Field(0.95, ge=0, le=1)
    whiten: bool = True
    process_weight: float = Field(0.0, ge=0)
    value_coefficient: float = Field(0.5, gt=0)
    value_clip: float | None = Field(0.2, gt=0)
    aggregation: AggregationName = "token_mean"
    kl: RewardKLConfig = RewardKLConfig()
    critic: CriticConfig = CriticConfig()

    @property
    def supervision(self) -> ProcessConfig | None:
        """How steps are found; None where the outcome alone counts."""
        return ProcessConfig() if self.process_weight > 0 else None

    @property
    def updates(self) -> int:
        """Optimiser steps of the policy: none while the critic is trained alone."""
        return (self.steps - self.critic.warmup_steps) * self.epochs * self.minibatches

    @model_validator(mode="after")
    def _trains_the_policy(self) -> Self:
        if self.critic.warmup_steps >= self.steps:
            raise ValueError(
                f"critic.warmup_steps {self.critic.warmup_steps} leaves none of the {self.steps} steps to train the "
                "policy; lower it, or raise steps"
            )
        return self

    @model_validator(mode="after")
    def _penalises_something(self) -> Self:
        if self.loss == "penalty" and self.on_policy:
            raise ValueError(
                "the penalty KL(π_old ‖ π_θ) has no gradient in a step's first update, where both are the same, so "
                "that with one update a step nothing holds the policy back; set epochs or minibatches to 2 or more"
            )
        return self
