"""GRPO with outcome supervision, after Algorithm 1 of DeepSeekMath (Shao et al. 2024, arXiv 2402.03300).

Where it departs from the paper: the KL term, if any, may stand in the reward instead of the loss; groups whose
rewards agree are dropped before any forward, since their gradient is exactly zero; with one update per batch π_old is
π_θ and is not computed again, otherwise it is taken from the sampler, which is the trained model itself.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from reasonrl import store
from reasonrl.algorithms.advantages import agreeing, group_relative
from reasonrl.algorithms.aggregation import aggregate
from reasonrl.algorithms.kl import kl_estimate
from reasonrl.algorithms.losses import clip, clipped
from reasonrl.algorithms.masking import masked, masked_sum
from reasonrl.batch import Batch, Row, collate, micro_batches, minibatch_positions, padding_share
from reasonrl.config import GRPOConfig
from reasonrl.evaluation.evaluate import Judged, records, sample_and_verify
from reasonrl.models.load import Policy
from reasonrl.models.logprobs import TokenScores, response_logprobs
from reasonrl.rollout.engine import Engine, Sampling
from reasonrl.scoring import Scorer, WeightedVerifier, check_unjudged
from reasonrl.tracking import Tracker
from reasonrl.trainers.metrics import Clock, Sample, TokenStats, response_metrics
from reasonrl.trainers.problems import ProblemStream
from reasonrl.trainers.session import Session, Update


@dataclass(frozen=True)
class GRPO:
    """What a GRPO run consists of.

    Attributes:
        config: the algorithm's numbers.
        policy, reference: the trained model; its frozen start, or None where β = 0.
        share_prompt, logits_chunk: how log-probabilities are computed, see `models.logprobs`.
        problems: which problems each step draws.
        engine, sampling: how responses are sampled.
        scorer, verifiers, max_unjudged: how they are verified.
        session, tracker: how the model is updated, and where metrics go.
        rollouts: the folder of stored rollouts.
        seed: of samples and minibatches.
        after_step: called with the number of each finished step.
    """

    config: GRPOConfig
    policy: Policy
    reference: Any | None
    share_prompt: bool
    logits_chunk: int
    problems: ProblemStream
    engine: Engine
    sampling: Sampling
    scorer: Scorer
    verifiers: Sequence[WeightedVerifier]
    max_unjudged: float
    session: Session
    tracker: Tracker
    rollouts: Path
    seed: int
    after_step: Callable[[int], None] = lambda step: None


def train_grpo(run: GRPO) -> None:
    """Algorithm 1, lines 4 to 11, with one outer iteration (the reference model stays as it is).

    Raises:
        ReasonRLError: too many responses could not be judged, or too many updates in a row were not finite.
    """
    config = run.config
    for step in range(1, config.steps + 1):
        clock, stats, updates = Clock(), TokenStats(), []
        prompted, positions = run.problems.of_step(step)
        judged = sample_and_verify(
            prompted, run.engine, run.scorer, run.sampling, samples=config.group_size, seed=run.seed, step=step
        )
        clock.lap("sample")
        samples = with_advantages(run, judged, positions)
        everyone = run.session.gather(samples)
        check_unjudged(
            {(s.judged.problem.id, s.judged.rollout.sample): s.judged.scored for s in everyone},
            run.verifiers,
            run.max_unjudged,
        )
        clock.lap("advantages")
        for epoch in range(config.epochs):
            for groups in minibatch_positions(
                config.problems_per_step, config.minibatches, f"{run.seed}/{step}/{epoch}"
            ):
                minibatch = [s for s in samples if s.row.group in groups]
                updates.append(update(run, minibatch, stats))
        clock.lap("update")
        run.engine.sync(run.policy.model.named_parameters(), version=step)
        clock.lap("sync")
        if run.session.accelerator.is_main_process:
            write_rollouts(run, everyone, step)
        clock.lap("store")
        run.tracker.log(step, step_metrics(run, everyone, updates, stats, clock))
        run.after_step(step)


def with_advantages(run: GRPO, judged: Sequence[Judged], positions: Sequence[int]) -> list[Sample]:
    """Verdicts → advantages (§4.1.2), for the groups at these positions of the global batch."""
    config, kl = run.config, run.config.kl
    rows = [
        Row(
            prompt_ids=one.rollout.prompt_ids,
            response_ids=one.rollout.response_ids,
            old_logprobs=one.rollout.logprobs,
            group=positions[index // config.group_size],
        )
        for index, one in enumerate(judged)
    ]
    if run.reference is not None:
        rows = with_ref_logprobs(run, rows)
    rewards = torch.tensor([one.scored.reward or 0.0 for one in judged], dtype=torch.float64)
    if kl.coefficient > 0 and kl.place == "reward":
        rewards -= kl.coefficient * torch.stack([_response_kl(run, row) for row in rows])
    counted = torch.tensor([
        one.scored.reward is not None and not (config.mask_truncated and one.rollout.finish_reason == "length")
        for one in judged
    ])  # fmt: skip
    group_ids = torch.tensor([row.group for row in rows])
    advantages = group_relative(rewards, group_ids, counted, std=config.std, eps=config.std_epsilon)
    # A KL term in the loss pulls on groups that agree, too; everything else leaves them where they are.
    learns = counted if kl.coefficient > 0 and kl.place == "loss" else ~agreeing(rewards, group_ids, counted)
    columns = zip(judged, rows, advantages.tolist(), counted.tolist(), learns.tolist(), strict=True)
    return [Sample(one, replace(row, advantage=a), c, has_gradient) for one, row, a, c, has_gradient in columns]


@torch.no_grad()
def with_ref_logprobs(run: GRPO, rows: Sequence[Row]) -> list[Row]:
    """The rows with the reference model's log-probabilities of their response tokens."""
    scored: dict[int, Row] = {}
    for batch in micro_batches(rows, run.config.micro_batch_tokens):
        scores = forward(run, run.reference, collate(batch, run.policy.pad_id))
        for row, logprobs in zip(batch, scores.logprobs.tolist(), strict=True):
            scored[id(row)] = replace(row, ref_logprobs=tuple(logprobs[: len(row.response_ids)]))
    return [scored[id(row)] for row in rows]


def _response_kl(run: GRPO, row: Row) -> Tensor:
    """Σ_t KL_t of a response, from the sampler's and the reference's log-probabilities."""
    old, ref = torch.tensor(row.old_logprobs), torch.tensor(row.ref_logprobs)
    return kl_estimate(old, ref, run.config.kl.estimator).double().sum()


def update(run: GRPO, minibatch: Sequence[Sample], stats: TokenStats) -> Update | None:
    """One optimiser step; None where no process has anything to learn from."""
    session = run.session
    counted = [s.row for s in minibatch if s.counted]
    batches = micro_batches([s.row for s in minibatch if s.learns], run.config.micro_batch_tokens)
    # The denominators are those of the whole minibatch over all processes, the dropped groups included: dropping
    # them changes no gradient.
    sequences = session.sum(len(counted))
    tokens = session.sum(sum(len(row.response_ids) for row in counted))
    if session.sum(len(batches)) == 0:
        session.advance()
        return None
    stats.add("padding", torch.tensor(padding_share(batches)))
    stats.add("updates", torch.tensor(1))

    def losses() -> Iterator[Tensor]:
        for rows in batches:
            batch = collate(rows, run.policy.pad_id).to(session.accelerator.device)
            scores = forward(run, run.policy.model, batch, entropy=run.config.entropy)
            yield loss(run, batch, scores, stats, sequences=sequences, tokens=tokens)

    return session.update(losses())


def forward(run: GRPO, model: Any, batch: Batch, *, entropy: bool = False) -> TokenScores:
    """Log-probabilities of the response tokens under a model, at the sampling temperature."""
    with run.session.accelerator.autocast():
        return response_logprobs(
            model,
            batch.to(run.session.accelerator.device),
            temperature=run.sampling.temperature,
            share_prompt=run.share_prompt,
            logits_chunk=run.logits_chunk,
            entropy=entropy,
        )


def loss(run: GRPO, batch: Batch, scores: TokenScores, stats: TokenStats, *, sequences: float, tokens: float) -> Tensor:
    """This micro-batch's share of the clipped objective (eq. 3 of the paper, to be minimised), KL term included."""
    config, mask = run.config, batch.response_mask
    on_policy = config.epochs * config.minibatches == 1
    old = scores.logprobs.detach() if on_policy else masked(batch.old_logprobs, mask)
    limits = {"clip_low": config.clip_low, "clip_high": config.clip_high}
    per_token = clip(scores.logprobs, old, batch.advantages, **limits)
    with torch.no_grad():
        stats.add("tokens", mask.sum())
        stats.add("old_kl", masked_sum(kl_estimate(scores.logprobs, old, "k3"), mask))
        stats.add("clipped", masked_sum(clipped(scores.logprobs, old, batch.advantages, **limits).float(), mask))
        if scores.entropy is not None:
            stats.add("entropy", masked_sum(scores.entropy, mask))
    if run.reference is not None:
        kl = kl_estimate(scores.logprobs, masked(batch.ref_logprobs, mask), config.kl.estimator)
        stats.add("ref_kl", masked_sum(kl.detach(), mask))
        if config.kl.place == "loss":
            per_token = per_token + config.kl.coefficient * kl
    return aggregate(
        per_token, mask, config.aggregation, sequences=sequences, tokens=tokens, max_length=run.sampling.max_tokens
    )


def write_rollouts(run: GRPO, everyone: Sequence[Sample], step: int) -> None:
    """Store every response of the step with its verdicts and advantage."""
    rows = records(
        [s.judged for s in everyone],
        run.verifiers,
        step=step,
        temperature=run.sampling.temperature,
        advantages=[s.row.advantage if s.counted else None for s in everyone],
    )
    store.write(run.rollouts / f"step-{step:06d}.parquet", rows)


def step_metrics(
    run: GRPO, everyone: Sequence[Sample], updates: Sequence[Update | None], stats: TokenStats, clock: Clock
) -> dict[str, float]:
    """One line of metrics.jsonl. KL and clip fraction are means over trained tokens and updates of the step."""
    session = run.session
    tokens = max(1.0, session.sum(stats.sum("tokens")))
    taken = [u for u in updates if u is not None]
    old_kl = session.sum(stats.sum("old_kl")) / tokens
    metrics = response_metrics(everyone, run.verifiers) | {
        # The policy against the reference where there is one, else against the policy that sampled.
        "kl": session.sum(stats.sum("ref_kl")) / tokens if run.reference is not None else old_kl,
        "approx_kl": old_kl,
        "clip_fraction": session.sum(stats.sum("clipped")) / tokens,
        "policy_loss": sum(u.loss for u in taken),
        "grad_norm": taken[-1].grad_norm if taken else 0.0,
        "updates": float(sum(u.applied for u in taken)),
        "skipped_updates": float(session.skipped),
        "learning_rate": taken[-1].learning_rate if taken else session.learning_rate,
        "padding": stats.sum("padding") / max(1.0, stats.sum("updates")),
        "policy_version": float(step_version(everyone)),
    }
    if run.config.entropy:
        metrics["entropy"] = session.sum(stats.sum("entropy")) / tokens
    seconds = sum(clock.seconds.values())
    sampled = sum(len(s.row.response_ids) for s in everyone)
    return metrics | {
        "tokens_per_second": sampled / seconds,
        "sampled_tokens_per_second": sampled / clock.seconds["sample"],
        "seconds": seconds,
        **{f"seconds/{phase}": value for phase, value in clock.seconds.items()},
    }


def step_version(everyone: Sequence[Sample]) -> int:
    """The weight version the step was sampled with."""
    return everyone[0].judged.rollout.version
