"""The policy's loss, token by token, of every algorithm that takes gradient steps, and what is measured beside it."""

from dataclasses import dataclass, field

from torch import Tensor

from reasonrl.algorithms.importance import truncated_importance
from reasonrl.algorithms.kl import kl_estimate
from reasonrl.algorithms.losses import POLICY_LOSSES, LossName
from reasonrl.algorithms.masking import masked
from reasonrl.batch import Batch
from reasonrl.config import CriticFreeConfig, ImportanceConfig, KLConfig, PPOConfig
from reasonrl.models.logprobs import TokenScores
from reasonrl.trainers.metrics import MISMATCH_MAXIMA, MISMATCH_MEANS, MISMATCH_MINIMA, TokenStats, mismatch


@dataclass(frozen=True)
class Objective:
    """Which terms a loss has.

        w·ℓ(π_θ/π_old, A) + β·KL(π_θ ‖ π_ref) + β_p·KL(π_old ‖ π_θ) − c_e·H(π_θ),   w = min(π_old/μ, C)

    Attributes:
        loss, limits: ℓ, one of `POLICY_LOSSES`, and where it clips.
        on_policy: is π_old π_θ itself, as with one update a step?
        importance: how w is bounded.
        corrects_sampler: is there a w? Without it μ stands for π_old where the step has several updates.
        kl: how the KL toward the reference is estimated, and whether β·KL is in the loss; None without a reference.
        penalises: is there a β_p? Then the scores have a divergence from π_old.
        entropy, entropy_bonus: is the entropy measured; c_e.
    """

    loss: LossName
    limits: dict[str, float] = field(default_factory=dict)
    on_policy: bool = False
    importance: ImportanceConfig = field(default_factory=ImportanceConfig)
    corrects_sampler: bool = False
    kl: KLConfig | None = None
    penalises: bool = False
    entropy: bool = False
    entropy_bonus: float = 0.0

    def __call__(
        self, batch: Batch, scores: TokenScores, *, beta: float = 0.0, penalty: float = 0.0
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of each response token (B, T), to be minimised, and what is measured, by name.

        Args:
            batch: B responses of up to T tokens.
            scores: of its tokens under π_θ, with a gradient.
            beta, penalty: β and β_p as they are now.

        Raises:
            ValueError: a response token has no sampler log-probability.
        """
        mask, logprobs = batch.response_mask, scores.logprobs
        given, advantages = masked(batch.old_logprobs, mask), masked(batch.advantages, mask)
        old = logprobs.detach() if self.on_policy else given
        policy = POLICY_LOSSES[self.loss]
        per_token = policy.loss(logprobs, old, advantages, mask, **self.limits)
        measured = {
            "approx_kl": kl_estimate(given, logprobs.detach(), "k3"),
            "clip_fraction": policy.clipped(logprobs, old, advantages, mask, **self.limits),
        }
        if self.corrects_sampler:
            per_token = per_token * truncated_importance(old, batch.sampler_logprobs, mask, self.importance.cap)
        if self.knows_mismatch:
            measured |= mismatch(old, batch.sampler_logprobs, mask, self.importance.cap)
        if self.kl is not None:
            measured["kl"] = kl_estimate(logprobs, masked(batch.ref_logprobs, mask), self.kl.estimator)
            if self.kl.place == "loss":
                # Not weighted: it draws toward the reference wherever a response went, whoever sampled it, and its
                # minimum is where the two agree under any weights; weights below 1 would only weaken it.
                per_token = per_token + beta * measured["kl"]
        if self.penalises:
            assert scores.divergence is not None
            per_token = per_token + penalty * scores.divergence
        if self.measures_entropy:
            assert scores.entropy is not None
            measured["entropy"] = scores.entropy
            per_token = per_token - self.entropy_bonus * scores.entropy
        return per_token, measured

    @property
    def knows_mismatch(self) -> bool:
        """Is the trainer's own π_old at hand, beside the sampler's log-probabilities?"""
        return self.on_policy or self.corrects_sampler

    @property
    def stats(self) -> TokenStats:
        """To collect what is measured."""
        means = ["approx_kl", "clip_fraction", *["kl"] * (self.kl is not None), *["entropy"] * self.measures_entropy]
        if not self.knows_mismatch:
            return TokenStats(means)
        return TokenStats([*means, *MISMATCH_MEANS], MISMATCH_MAXIMA, MISMATCH_MINIMA)

    @property
    def measures_entropy(self) -> bool:
        """Do the scores need entropies?"""
        return self.entropy or self.entropy_bonus > 0

    @property
    def forward(self) -> dict[str, bool]:
        """What `response_logprobs` is asked for beside log-probabilities."""
        return {"entropy": self.measures_entropy, "entropy_gradient": self.entropy_bonus > 0}


def objective_of(config: CriticFreeConfig | PPOConfig, *, reference: bool, corrects_sampler: bool) -> Objective:
    """The loss of a run, given whether it has a reference model and whether it corrects for its sampler."""
    limits = {"clip_low": config.clip_low, "clip_high": config.clip_high}
    return Objective(
        loss="importance_weighted" if config.loss == "penalty" else config.loss,
        limits=limits | ({} if config.dual_clip is None else {"dual_clip": config.dual_clip}),
        on_policy=config.on_policy,
        importance=config.importance,
        corrects_sampler=corrects_sampler,
        kl=config.kl if reference else None,
        penalises=config.loss == "penalty",
        entropy=config.entropy,
        entropy_bonus=config.entropy_bonus,
    )
