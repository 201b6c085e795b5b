"""GRPO's objective (eq. 3 of DeepSeekMath, arXiv 2402.03300), token by token, and what is measured beside it."""

from torch import Tensor

from reasonrl.algorithms.importance import truncated_importance
from reasonrl.algorithms.kl import kl_estimate
from reasonrl.algorithms.losses import clip, clipped
from reasonrl.algorithms.masking import masked
from reasonrl.batch import Batch
from reasonrl.config import GRPOConfig
from reasonrl.models.logprobs import TokenScores
from reasonrl.trainers.metrics import MISMATCH_MAXIMA, MISMATCH_MEANS, MISMATCH_MINIMA, TokenStats, mismatch


def objective(
    config: GRPOConfig, batch: Batch, scores: TokenScores, *, reference: bool, corrects_sampler: bool
) -> tuple[Tensor, dict[str, Tensor]]:
    """The clipped objective of each response token, to be minimised, and what is measured, by name.

        w·clip(π_θ/π_old, A) + β·KL(π_θ ‖ π_ref),   w = min(π_old/μ, C)

    Args:
        config: the algorithm's numbers.
        batch: B responses of up to T tokens.
        scores: their log-probabilities under π_θ, (B, T), with a gradient.
        reference: does the batch have those of π_ref?
        corrects_sampler: is there a w? Without it μ stands for π_old where the step has several updates.

    Raises:
        ValueError: a response token has no sampler log-probability.
    """
    mask, logprobs = batch.response_mask, scores.logprobs
    given = masked(batch.old_logprobs, mask)
    old = logprobs.detach() if config.on_policy else given
    limits = {"clip_low": config.clip_low, "clip_high": config.clip_high}
    per_token = clip(logprobs, old, batch.advantages, **limits)
    measured = {
        "approx_kl": kl_estimate(given, logprobs.detach(), "k3"),
        "clip_fraction": clipped(logprobs, old, batch.advantages, **limits),
    }
    if corrects_sampler:
        per_token = per_token * truncated_importance(old, batch.sampler_logprobs, mask, config.importance.cap)
    if knows_mismatch(config, corrects_sampler):
        measured |= mismatch(old, batch.sampler_logprobs, mask, config.importance.cap)
    if scores.entropy is not None:
        measured["entropy"] = scores.entropy
    if reference:
        measured["kl"] = kl_estimate(logprobs, masked(batch.ref_logprobs, mask), config.kl.estimator)
        if config.kl.place == "loss":
            # Not weighted: it draws toward the reference wherever a response went, whoever sampled it, and its minimum
            # is where the two agree under any weights; weights below 1 would only weaken it.
            per_token = per_token + config.kl.coefficient * measured["kl"]
    return per_token, measured


def objective_stats(config: GRPOConfig, *, reference: bool, corrects_sampler: bool) -> TokenStats:
    """To collect what `objective` measures."""
    means = ["approx_kl", "clip_fraction", *["kl"] * reference, *["entropy"] * config.entropy]
    if not knows_mismatch(config, corrects_sampler):
        return TokenStats(means)
    return TokenStats([*means, *MISMATCH_MEANS], MISMATCH_MAXIMA, MISMATCH_MINIMA)


def knows_mismatch(config: GRPOConfig, corrects_sampler: bool) -> bool:
    """Is the trainer's own π_old at hand, beside the sampler's log-probabilities?"""
    return config.on_policy or corrects_sampler
