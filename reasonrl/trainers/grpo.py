"""GRPO with outcome supervision, after Algorithm 1 of DeepSeekMath (Shao et al. 2024, arXiv 2402.03300).

Where it departs from the paper: the KL term, if any, may stand in the reward instead of the loss; groups whose
rewards agree are dropped before any forward, since their gradient is exactly zero. With one update per step π_old is
π_θ and is not computed again; otherwise it is taken from the sampler if that is the trained model itself, and computed
before the first update if not. Then, too, each token is weighted for having been sampled from another policy than
π_old (`algorithms.importance`).
"""

import math
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
from reasonrl.batch import Batch, Row, collate, micro_batches, minibatch_positions
from reasonrl.config import GRPOConfig
from reasonrl.errors import ReasonRLError
from reasonrl.evaluation.evaluate import Judged, records, sample_and_verify
from reasonrl.models.load import Policy
from reasonrl.models.logprobs import TokenScores, response_logprobs
from reasonrl.rollout.engine import Engine, Sampling
from reasonrl.scoring import Scorer, check_unjudged
from reasonrl.tracking import Tracker
from reasonrl.trainers.grpo_objective import objective, objective_stats
from reasonrl.trainers.metrics import Clock, Sample, TokenStats, response_metrics, time_metrics, update_metrics
from reasonrl.trainers.problems import ProblemStream
from reasonrl.trainers.session import Session, Update, gather


@dataclass(frozen=True)
class GRPO:
    """What a GRPO run consists of.

    Attributes:
        config: the algorithm's numbers.
        policy, reference: the trained model; its frozen start, or None where β = 0.
        share_prompt, logits_chunk: how log-probabilities are computed, see `models.logprobs`.
        problems: which problems each step draws.
        engine, sampling, sync: how responses are sampled, and how the engine gets the policy's weights.
        scorer, max_unjudged: how they are verified.
        session, tracker: how the model is updated, and where metrics go.
        rollouts: the folder of stored rollouts.
        seed: of samples and minibatches.
        after_step: called with the number of each finished step.
        sampler_is_policy: is the engine's model the trained one itself, so that their log-probabilities are the same?
    """

    config: GRPOConfig
    policy: Policy
    reference: Any | None
    share_prompt: bool
    logits_chunk: int
    problems: ProblemStream
    engine: Engine
    sampling: Sampling
    sync: Callable[[int], None]
    scorer: Scorer
    max_unjudged: float
    session: Session
    tracker: Tracker
    rollouts: Path
    seed: int
    after_step: Callable[[int], None] = lambda step: None
    sampler_is_policy: bool = True


def train_grpo(run: GRPO) -> None:
    """Algorithm 1, lines 4 to 11, with one outer iteration: the reference model stays as it is.

    Raises:
        ReasonRLError: too many responses could not be judged, or too many updates in a row were not finite.
    """
    config = run.config
    for step in range(1, config.steps + 1):
        clock, stats, updates = Clock(), token_stats(run), []
        problems, positions = run.problems.of_step(step)  # line 5: a batch of questions
        judged = sample_and_verify(  # lines 7 and 8: G outputs to each question, and their rewards
            problems, run.engine, run.scorer, run.sampling, samples=config.group_size, seed=run.seed, step=step
        )
        run.engine.rest()
        clock.lap("sample")
        samples = with_advantages(run, judged, positions)  # line 9: group-relative advantages
        everyone = gather_checked(run, samples)
        samples = with_old_logprobs(run, samples)  # the π_old of line 11
        clock.lap("advantages")
        for epoch in range(config.epochs):  # line 10: for GRPO iteration = 1, …, μ
            cut = minibatch_positions(config.problems_per_step, config.minibatches, f"{run.seed}/{step}/{epoch}")
            for groups in cut:
                updates.append(update(run, [s for s in samples if s.row.group in groups], stats))  # line 11
        clock.lap("update")
        run.sync(step)  # line 6 of the next step: π_old ← π_θ
        clock.lap("sync")
        if run.session.accelerator.is_main_process:
            write_rollouts(run, everyone, step)
        clock.lap("store")
        run.tracker.log(step, step_metrics(run, everyone, updates, stats, clock))
        run.after_step(step)


def with_advantages(run: GRPO, judged: Sequence[Judged], positions: Sequence[int]) -> list[Sample]:
    """Rewards → advantages (§4.1.2), each on all tokens of its response.

    Args:
        run: the run.
        judged: this process's responses, group after group.
        positions: of its groups in the step's global batch.
    """
    config = run.config
    groups = [position for position in positions for _ in range(config.group_size)]
    rows = [row_of(one, group) for one, group in zip(judged, groups, strict=True)]
    rewards = torch.tensor([one.scored.reward or 0.0 for one in judged], dtype=torch.float64)
    if run.reference is not None:
        refs = logprobs_of(run, run.reference, rows)
        rows = [replace(row, ref_logprobs=ref) for row, ref in zip(rows, refs, strict=True)]
        if config.kl.place == "reward":
            rows = rescored(run, rows)
            rewards -= config.kl.coefficient * torch.stack([response_kl(row, config) for row in rows])
    known = torch.tensor([one.scored.reward is not None for one in judged])
    cut = torch.tensor([config.mask_truncated and one.rollout.finish_reason == "length" for one in judged])
    group_ids = torch.tensor([row.group for row in rows])
    # A response masked for being cut has a reward like any other and stays in its group's mean (DAPO, §3.4, masks the
    # loss); one that could not be judged has none.
    advantages = group_relative(rewards, group_ids, known, std=config.std, eps=config.std_epsilon)
    counted = known & ~cut
    # A KL term in the loss pulls on groups that agree, too; everything else leaves them where they are.
    learns = counted & ~(torch.zeros_like(known) if kl_in_loss(run) else agreeing(rewards, group_ids, known))
    columns = zip(judged, rows, advantages.tolist(), counted.tolist(), learns.tolist(), strict=True)
    return [Sample(one, replace(row, advantage=a), c, has_gradient) for one, row, a, c, has_gradient in columns]


def corrects_sampler(run: GRPO) -> bool:
    """Is π_old the trainer's own, and each token weighted for its sampler's having been another policy?"""
    return run.config.importance.corrects(sampler_is_policy=run.sampler_is_policy)


def kl_in_loss(run: GRPO) -> bool:
    """Does the loss have a KL term?"""
    return run.reference is not None and run.config.kl.place == "loss"


def row_of(one: Judged, group: int) -> Row:
    """What is trained on of a response; its π_old is its sampler's until it is `rescored`.

    Raises:
        ReasonRLError: the engine gave no log-probability, or no finite one, for one of its tokens.
    """
    rollout = one.rollout
    logprobs = rollout.logprobs
    if len(logprobs) != len(rollout.response_ids) or not all(map(math.isfinite, logprobs)):
        raise ReasonRLError(
            f"the engine gave {sum(map(math.isfinite, logprobs))} finite log-probabilities for the "
            f"{len(rollout.response_ids)} tokens of response {rollout.sample} to problem {rollout.problem_id!r}; "
            "training needs that of every token, and one made up would teach something else in silence"
        )
    return Row(rollout.prompt_ids, rollout.response_ids, logprobs, logprobs, group=group)


def with_old_logprobs(run: GRPO, samples: Sequence[Sample]) -> list[Sample]:
    """The samples with the π_old of the step's updates, to be called before the first of them.

    Nothing is computed on policy, where the forward of the one update has them, nor with a KL in the reward, which
    needed them before.
    """
    if run.config.on_policy or (run.reference is not None and run.config.kl.place == "reward"):
        return list(samples)
    rows = iter(rescored(run, [s.row for s in samples if s.learns]))
    return [replace(s, row=next(rows)) if s.learns else s for s in samples]


def rescored(run: GRPO, rows: Sequence[Row]) -> list[Row]:
    """The rows with the trainer's log-probabilities for π_old, if those of the sampler are to be corrected for."""
    if not corrects_sampler(run):
        return list(rows)
    olds = logprobs_of(run, run.policy.model, rows)
    return [replace(row, old_logprobs=old) for row, old in zip(rows, olds, strict=True)]


@torch.no_grad()
def logprobs_of(run: GRPO, model: Any, rows: Sequence[Row]) -> list[tuple[float, ...]]:
    """A model's log-probabilities of the response tokens of each row."""
    found: dict[int, tuple[float, ...]] = {}
    for batch in micro_batches(rows, run.config.micro_batch_tokens, share_prompt=run.share_prompt):
        scores = forward(run, model, collate(batch, run.policy.pad_id))
        for row, logprobs in zip(batch, scores.logprobs.tolist(), strict=True):
            found[id(row)] = tuple(logprobs[: len(row.response_ids)])
    return [found[id(row)] for row in rows]


def response_kl(row: Row, config: GRPOConfig) -> Tensor:
    """Σ_t KL_t of a response, from the log-probabilities of π_old and of the reference.

    Where the sampler is another, π_old is the trainer's: against the reference, which the trainer computes too, the
    sampler's would count its mismatch as distance, token after token.
    """
    old, ref = (torch.tensor(values, dtype=torch.float64) for values in (row.old_logprobs, row.ref_logprobs))
    return kl_estimate(old, ref, config.kl.estimator).sum()


def gather_checked(run: GRPO, samples: Sequence[Sample]) -> list[Sample]:
    """The step's samples of all processes, in order of group and sample, on all of them.

    Raises:
        ReasonRLError: too many could not be judged; on every process, since all see the same samples.
    """
    everyone = gather(run.session.accelerator, samples)
    everyone.sort(key=lambda s: (s.row.group, s.judged.rollout.sample))
    scored = {(s.judged.problem.id, s.judged.rollout.sample): s.judged.scored for s in everyone}
    check_unjudged(scored, run.max_unjudged)
    return everyone


def update(run: GRPO, minibatch: Sequence[Sample], stats: TokenStats) -> Update | None:
    """One optimiser step; None where no process has anything to learn from."""
    session = run.session
    trained = [s.row for s in minibatch if s.learns]
    batches = micro_batches(trained, run.config.micro_batch_tokens, share_prompt=run.share_prompt)
    if session.sum(len(batches)) == 0:
        session.pass_over()
        return None
    # The denominators are those of the whole minibatch over all processes, the dropped groups included: dropping
    # them changes no gradient.
    counted = [len(s.row.response_ids) for s in minibatch if s.counted]
    sequences, tokens = session.sum(len(counted)), session.sum(sum(counted))

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
    per_token, measured = objective(config, batch, scores, **objective_terms(run))
    stats.add(mask, **measured)
    return aggregate(
        per_token, mask, config.aggregation, sequences=sequences, tokens=tokens, max_length=run.sampling.max_tokens
    )


def objective_terms(run: GRPO) -> dict[str, bool]:
    """Which terms the objective has, beside the clipped one."""
    return {"reference": run.reference is not None, "corrects_sampler": corrects_sampler(run)}


def token_stats(run: GRPO) -> TokenStats:
    """What `loss` measures."""
    return objective_stats(run.config, **objective_terms(run))


def write_rollouts(run: GRPO, everyone: Sequence[Sample], step: int) -> None:
    """Store every response of the step with its verdicts and advantage."""
    rows = records(
        [s.judged for s in everyone],
        step=step,
        temperature=run.sampling.temperature,
        advantages=[s.row.advantage if s.counted else None for s in everyone],
    )
    store.write(run.rollouts / f"step-{step:06d}.parquet", rows)


def step_metrics(
    run: GRPO, everyone: Sequence[Sample], updates: Sequence[Update | None], stats: TokenStats, clock: Clock
) -> dict[str, float]:
    """One line of metrics.jsonl; `trainers.metrics` says what each number means."""
    measured = stats.reduced(run.session)
    return {
        **response_metrics(everyone),
        **run.problems.metrics(),
        "kl": measured["approx_kl"],  # unless there is a reference: then the next line has one
        **measured,
        **update_metrics(updates, run.session),
        **time_metrics(clock, sum(len(s.row.response_ids) for s in everyone)),
    }
