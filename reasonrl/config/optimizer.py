"""The optimiser, which all algorithms share, and supervised fine-tuning, which has little else."""

from typing import Literal

from pydantic import Field, field_validator

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
        packing: lay the demonstrations of a forward pass end to end in one row, without padding; none sees another, so
            the loss is the same. It is meant for `model.attention: flash_attention_2`, on a GPU.
    """

    name: Literal["sft"] = "sft"
    steps: int = Field(ge=1)
    batch_size: int = Field(ge=1)
    micro_batch_tokens: int = Field(16384, ge=1)
    packing: bool = False
    optimizer: OptimizerConfig = OptimizerConfig()
