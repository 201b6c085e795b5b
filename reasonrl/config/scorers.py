"""Training what rewards: a reward model on pairs, a process reward model on labelled steps."""

from typing import Literal

from pydantic import Field, field_validator

from reasonrl.config.optimizer import OptimizerConfig
from reasonrl.yamlfile import Record


class ScorerConfig(Record):
    """What both kinds share: a fixed data set, part of which is held out.

    Attributes:
        held_out: share of the prompts that are kept out of training, to be evaluated on, unless there are
        held_out_files: files of their own for that.
        steps: optimiser steps.
        batch_size: pairs or solutions per step, over all processes.
        evaluate_every: also evaluate every so many steps (0: only before and after).
        micro_batch_tokens: most tokens, padding included, in one forward pass; a pair or a solution is never cut.
        optimizer: AdamW, its schedule and its limits.
    """

    held_out: float = Field(0.1, gt=0, lt=1)
    held_out_files: tuple[str, ...] = ()
    steps: int = Field(ge=1)
    batch_size: int = Field(ge=1)
    evaluate_every: int = Field(0, ge=0)
    micro_batch_tokens: int = Field(16384, ge=1)
    optimizer: OptimizerConfig = OptimizerConfig()

    @field_validator("held_out_files", mode="before", json_schema_input_type=str | tuple[str, ...])
    @classmethod
    def _one_file(cls, files: object) -> object:
        return (files,) if isinstance(files, str) else files


class RewardModelConfig(ScorerConfig):
    """A reward model on preference pairs, by Bradley and Terry's model of a choice (arXiv 2203.02155, eq. 1).

    Attributes:
        pairs: the files, as `reasonrl build pairs` or TRL's data sets have them.
        margin: how much better the chosen response is, is in the pairs' column `margin` (arXiv 2307.09288, eq. 2).
        center: weight of (r_w + r_l)², which holds the scores near 0 (arXiv 2312.09244).
    """

    name: Literal["reward_model"] = "reward_model"
    pairs: tuple[str, ...] = Field(min_length=1)
    margin: bool = False
    center: float = Field(0.0, ge=0)

    @field_validator("pairs", mode="before", json_schema_input_type=str | tuple[str, ...])
    @classmethod
    def _one_pairs_file(cls, files: object) -> object:
        return (files,) if isinstance(files, str) else files


class ProcessRewardModelConfig(ScorerConfig):
    """A process reward model on labelled steps: a token classifier read where a step ends (arXiv 2305.20050).

    Attributes:
        labels: the files, as `reasonrl build steps`, TRL, ProcessBench, Math-Shepherd or PRM800K have them.
        mark: what stands at the end of each step; of the verifier `prm`, too.
        threshold: a step whose reward is below is found wrong, where first errors are counted.
    """

    name: Literal["process_reward_model"] = "process_reward_model"
    labels: tuple[str, ...] = Field(min_length=1)
    mark: str = Field("\n", min_length=1)
    threshold: float = Field(0.5, gt=0, lt=1)

    @field_validator("labels", mode="before", json_schema_input_type=str | tuple[str, ...])
    @classmethod
    def _one_labels_file(cls, files: object) -> object:
        return (files,) if isinstance(files, str) else files
