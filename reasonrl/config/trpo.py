"""TRPO: the largest improvement within a trust region."""

from typing import Literal

from pydantic import Field

from reasonrl.config.critic_free import AdvantageConfig, AggregationName


class TRPOConfig(AdvantageConfig):
    """TRPO (Schulman et al. 2015, arXiv 1502.05477): one natural-gradient step within KL(π_old ‖ π_θ) ≤ δ.

    There is no optimiser and no learning rate: δ sets the length of a step.

    Attributes:
        max_kl: δ, nats per token.
        damping: added to the Fisher matrix's diagonal.
        cg_iterations: of the conjugate gradient, at most.
        cg_tolerance: it ends where its residual is this share of the gradient's length.
        fisher_share: share of the step's problems that Fisher-vector products are computed on.
        backtracks: how often the line search shortens a step before it gives up.
        shrink: by what factor.
        aggregation: as for GRPO; of the surrogate.
    """

    name: Literal["trpo"] = "trpo"
    max_kl: float = Field(0.01, gt=0)
    damping: float = Field(0.1, ge=0)
    cg_iterations: int = Field(10, ge=1)
    cg_tolerance: float = Field(1e-4, ge=0, lt=1)
    fisher_share: float = Field(1.0, gt=0, le=1)
    backtracks: int = Field(10, ge=0)
    shrink: float = Field(0.8, gt=0, lt=1)
    aggregation: AggregationName = "token_mean"
