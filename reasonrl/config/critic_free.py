"""The critic-free family: one advantage, one loss, one aggregation and one way to sample make an algorithm.

Each name below stands for one formula, that of its paper; every part can be set by itself. `reasonrl explain` prints
the formula of a run, and where it is not that of its name.
"""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from reasonrl.config.policy import KLConfig, PolicyConfig, RewardKLConfig, UpdatesConfig
from reasonrl.steps import split_steps
from reasonrl.yamlfile import Record

AdvantageName = Literal["group_relative", "leave_one_out", "batch_whitened", "group_centred_whitened"]
LossName = Literal["clip", "gspo", "cispo", "importance_weighted"]
AggregationName = Literal["sequence_mean", "token_mean", "constant"]
StdName = Literal["population", "sample", "none"]


def _compares(group_size: int) -> int:
    if group_size < 2:
        raise ValueError(
            f"expected at least 2, not {group_size}: a response's advantage is relative to the mean of its group; "
            "one response alone is its own mean, so that every advantage would be 0 and nothing would be learnt"
        )
    return group_size


GroupSize = Annotated[int, Field(json_schema_extra={"minimum": 2}), AfterValidator(_compares)]


class ProcessConfig(Record):
    """Process supervision (DeepSeekMath, arXiv 2402.03300, §4.1.3): rewards of steps instead of one of the response.

    Attributes:
        steps: "verifier" takes the steps that verifiers reward; "paragraphs", "lines", "numbered" and "separator" take
            those of the text: each has the lowest of the rewards that end in it.
        separator: for "separator", a regular expression of what stands between two steps.
        outcome_weight: the response's own reward times this is one more step, at its last token.
    """

    steps: Literal["verifier", "paragraphs", "lines", "numbered", "separator"] = "verifier"
    separator: str | None = Field(None, min_length=1)
    outcome_weight: float = Field(0.0, ge=0)

    @model_validator(mode="after")
    def _separates(self) -> Self:
        if (self.separator is not None) != (self.steps == "separator"):
            raise ValueError('steps "separator" and the key `separator` go together; give both, or neither')
        if self.steps != "verifier":
            split_steps("", self.steps, self.separator)  # is it a regular expression?
        return self


class AdvantageConfig(PolicyConfig):
    """How rewards become advantages without a critic.

    Attributes:
        advantage: "group_relative" (GRPO), "leave_one_out" (RLOO), "batch_whitened" (REINFORCE++),
            "group_centred_whitened" (REINFORCE++-baseline).
        std: what the group's mean-centred rewards are divided by ("none": Dr. GRPO).
        std_epsilon: added to that standard deviation.
        process: process supervision; outcome supervision if null.
        refills: dynamic sampling (DAPO): groups whose rewards have no spread are left out and replaced by groups of
            further problems, up to so many times a step.
    """

    group_size: GroupSize = 8
    advantage: AdvantageName = "group_relative"
    std: StdName = "population"
    std_epsilon: float = Field(1e-6, ge=0)
    process: ProcessConfig | None = None
    refills: int = Field(0, ge=0)

    @property
    def supervision(self) -> ProcessConfig | None:
        """How steps are found; None where the outcome alone counts."""
        return self.process

    @model_validator(mode="after")
    def _shapes_something(self) -> Self:
        if self.overlong_buffer is not None and self.process is not None and self.process.outcome_weight == 0:
            raise ValueError(
                "overlong_buffer shapes the reward of a response, which process supervision with outcome_weight 0 does "
                "not use; raise process.outcome_weight, or set overlong_buffer to null"
            )
        return self

    @model_validator(mode="after")
    def _supervises_groups(self) -> Self:
        if self.process is not None and self.advantage != "group_relative":
            raise ValueError(
                f"process supervision normalises step rewards in their group; with advantage {self.advantage} there is "
                "none. Set advantage to group_relative, or process to null"
            )
        return self

    @model_validator(mode="after")
    def _refills_compare(self) -> Self:
        if self.refills > 0 and self.group_size == 1:
            raise ValueError(
                f"refills {self.refills} replaces groups whose rewards have no spread, and with group_size 1 none has: "
                "every response would be left out. Set refills to 0, or group_size to 2 or more"
            )
        return self


class CriticFreeConfig(AdvantageConfig, UpdatesConfig):
    """An advantage, a loss and an aggregation.

    Attributes:
        loss: "clip" (PPO's, GRPO's), "gspo" (one ratio per response), "cispo" (clipped weights that keep every token's
            gradient), "importance_weighted" (none of these: −ρA).
        clip_low, clip_high: the ratio is clipped to [1 − clip_low, 1 + clip_high].
        dual_clip: with the loss "clip", a bound of the ratio where the advantage is negative (arXiv 1912.09729).
        aggregation: "sequence_mean" (GRPO), "token_mean" (DAPO), "constant" (Dr. GRPO).
    """

    loss: LossName = "clip"
    clip_low: float = Field(0.2, gt=0, lt=1)
    clip_high: float = Field(0.2, gt=0)
    dual_clip: float | None = Field(None, gt=1)
    aggregation: AggregationName = "sequence_mean"

    @model_validator(mode="after")
    def _bounds_a_clip(self) -> Self:
        if self.dual_clip is not None and self.loss != "clip":
            raise ValueError(f"dual_clip bounds the loss clip; the loss {self.loss} has no such bound")
        return self


class GRPOConfig(CriticFreeConfig):
    """GRPO (Shao et al. 2024, arXiv 2402.03300)."""

    name: Literal["grpo"] = "grpo"


class DrGRPOConfig(CriticFreeConfig):
    """Dr. GRPO (Liu et al. 2025, arXiv 2503.20783): no division by a group's spread or a response's length."""

    name: Literal["dr_grpo"] = "dr_grpo"
    std: StdName = "none"
    aggregation: AggregationName = "constant"


class RLOOConfig(CriticFreeConfig):
    """RLOO (Ahmadian et al. 2024, arXiv 2402.14740): REINFORCE, each response against the mean of the others.

    A response is one action: its token losses are summed, here over a constant.
    """

    name: Literal["rloo"] = "rloo"
    advantage: AdvantageName = "leave_one_out"
    loss: LossName = "importance_weighted"
    aggregation: AggregationName = "constant"
    kl: RewardKLConfig = RewardKLConfig()


class ReinforcePPConfig(CriticFreeConfig):
    """REINFORCE++ (Hu 2025, arXiv 2501.03262): advantages normalised over the whole batch, not in a group."""

    name: Literal["reinforce_pp"] = "reinforce_pp"
    group_size: int = Field(1, ge=1)
    advantage: AdvantageName = "batch_whitened"
    aggregation: AggregationName = "token_mean"
    kl: RewardKLConfig = RewardKLConfig()

    @model_validator(mode="after")
    def _needs_no_group(self) -> Self:
        if self.advantage != "batch_whitened":
            _compares(self.group_size)
        return self


class SquaredKLConfig(KLConfig):
    """The same, by default estimated by k2, whose gradient in the loss is that of KL(π_θ ‖ π_ref)."""

    estimator: Literal["k1", "k2", "k3"] = "k2"


class ReinforcePPBaselineConfig(CriticFreeConfig):
    """REINFORCE++-baseline (arXiv 2501.03262): the group's mean is subtracted before the batch is normalised."""

    name: Literal["reinforce_pp_baseline"] = "reinforce_pp_baseline"
    advantage: AdvantageName = "group_centred_whitened"
    aggregation: AggregationName = "token_mean"
    kl: SquaredKLConfig = SquaredKLConfig()


class DAPOConfig(CriticFreeConfig):
    """DAPO (Yu et al. 2025, arXiv 2503.14476): clip-higher, token mean, overlong shaping, dynamic sampling."""

    name: Literal["dapo"] = "dapo"
    clip_high: float = Field(0.28, gt=0)
    aggregation: AggregationName = "token_mean"
    overlong_buffer: float | None = Field(0.2, gt=0, le=1)
    refills: int = Field(3, ge=0)


class GSPOConfig(CriticFreeConfig):
    """GSPO (Zheng et al. 2025, arXiv 2507.18071): one ratio, and one clip, per response."""

    name: Literal["gspo"] = "gspo"
    loss: LossName = "gspo"
    clip_low: float = Field(3e-4, gt=0, lt=1)
    clip_high: float = Field(4e-4, gt=0)


class CISPOConfig(CriticFreeConfig):
    """CISPO (MiniMax-M1 2025, arXiv 2506.13585): REINFORCE with clipped weights, which no token's gradient leaves."""

    name: Literal["cispo"] = "cispo"
    loss: LossName = "cispo"
    clip_low: float = Field(1.0, gt=0, le=1)
    clip_high: float = Field(4.0, gt=0)
    aggregation: AggregationName = "token_mean"
