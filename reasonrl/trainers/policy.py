"""What GRPO, PPO and TRPO share: what a run consists of, log-probabilities of rows, and the end of a step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch

from reasonrl.algorithms.kl import kl_estimate
from reasonrl.batch import Batch, Row, collate, micro_batches
from reasonrl.config import PolicyConfig
from reasonrl.models.load import Policy
from reasonrl.models.logprobs import TokenScores, response_logprobs
from reasonrl.rollout.engine import Engine, Sampling
from reasonrl.scoring import Scorer, check_unjudged
from reasonrl.tracking import Tracker
from reasonrl.trainers.coefficients import Coefficient
from reasonrl.trainers.problems import ProblemStream
from reasonrl.trainers.sample import Sample
from reasonrl.trainers.session import Session, gather

Config = TypeVar("Config", bound=PolicyConfig)


@dataclass(frozen=True)
class PolicyRun(Generic[Config]):
    """What a run of reinforcement learning consists of.

    Attributes:
        config: the algorithm's numbers.
        policy, reference: the trained model; its frozen start, or None where β = 0.
        beta: β of the KL toward the reference, which may adapt.
        share_prompt, logits_chunk: how log-probabilities are computed, see `models.logprobs`.
        problems: which problems each step draws.
        engine, sampling, sync: how responses are sampled, and how the engine gets the policy's weights.
        scorer, max_unjudged: how they are verified.
        session, tracker: how the model is updated, and where metrics go.
        rollouts: the folder of stored rollouts.
        seed: of samples and minibatches.
        after_step: called with the number of each finished step.
        beat: called whenever something has progressed.
        sampler_is_policy: is the engine's model the trained one itself, so that their log-probabilities are the same?
    """

    config: Config
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
    beat: Callable[[], None] = lambda: None
    sampler_is_policy: bool = True
    beta: Coefficient = field(default_factory=lambda: Coefficient(0.0))

    @property
    def corrects_sampler(self) -> bool:
        """Is π_old the trainer's own, and each token weighted for its sampler's having been another policy?"""
        return self.config.importance.corrects(sampler_is_policy=self.sampler_is_policy)

    @property
    def kl_in_loss(self) -> bool:
        """Does the loss have a KL term?"""
        return self.reference is not None and self.config.kl.place == "loss"

    @property
    def kl_in_reward(self) -> bool:
        """Do the rewards have a KL term?"""
        return self.reference is not None and self.config.kl.place == "reward"


Run = PolicyRun[Any]


def with_reference(run: Run, samples: Sequence[Sample]) -> list[Sample]:
    """The samples with the reference's log-probabilities."""
    refs = logprobs_of(run, run.reference, [s.row for s in samples])
    return [replace(s, row=replace(s.row, ref_logprobs=ref)) for s, ref in zip(samples, refs, strict=True)]


def with_kl(run: Run, samples: Sequence[Sample]) -> list[Sample]:
    """The samples with what a KL toward the reference needs, in the loss or in the reward.

    In the reward, the KL is that of the trainer's π_old, whoever sampled: against the reference, which the trainer
    computes too, a sampler's log-probabilities would count their rounding as distance, and a group whose rewards agree
    has nothing else to be normalised by. Before the first update it is exactly 0.
    """
    if run.kl_in_reward:
        found = with_reference(run, samples)
        olds = logprobs_of(run, run.policy.model, [s.row for s in samples])
        return [paying(run, s, old) for s, old in zip(found, olds, strict=True)]
    if run.kl_in_loss:
        refs = iter(with_reference(run, [s for s in samples if s.counted]))
        return [next(refs) if s.counted else s for s in samples]
    return list(samples)


def paying(run: Run, sample: Sample, old: tuple[float, ...]) -> Sample:
    """A sample with the KL of its tokens, and with the trainer's π_old where its sampler's is corrected for."""
    ours, refs = (torch.tensor(values, dtype=torch.float64) for values in (old, sample.row.ref_logprobs))
    kl = tuple(kl_estimate(ours, refs, run.config.kl.estimator).tolist())
    return replace(sample, kl=kl, row=replace(sample.row, old_logprobs=old) if run.corrects_sampler else sample.row)


def rescored(run: Run, samples: Sequence[Sample]) -> list[Sample]:
    """The samples with the trainer's log-probabilities for π_old, if those of the sampler are to be corrected for."""
    if not run.corrects_sampler:
        return list(samples)
    olds = logprobs_of(run, run.policy.model, [s.row for s in samples])
    return [replace(s, row=replace(s.row, old_logprobs=old)) for s, old in zip(samples, olds, strict=True)]


def with_old_logprobs(run: Run, samples: Sequence[Sample], *, on_policy: bool) -> list[Sample]:
    """The samples with the π_old of the step's updates, to be called before the first of them.

    Nothing is computed on policy, where the forward of the one update has them, nor with a KL in the reward, which
    needed them before.
    """
    if on_policy or run.kl_in_reward:
        return list(samples)
    found = iter(rescored(run, [s for s in samples if s.learns]))
    return [next(found) if s.learns else s for s in samples]


@torch.no_grad()
def logprobs_of(run: Run, model: Any, rows: Sequence[Row]) -> list[tuple[float, ...]]:
    """A model's log-probabilities of the response tokens of each row."""
    return per_row(run, rows, lambda batch: forward(run, model, batch).logprobs)


@torch.no_grad()
def per_row(run: Run, rows: Sequence[Row], measure: Callable[[Batch], torch.Tensor]) -> list[tuple[float, ...]]:
    """What `measure` finds for each response token, (B, T) of a batch, in micro-batches; a tuple for each row."""
    found: dict[int, tuple[float, ...]] = {}
    for batch in micro_batches(rows, run.config.micro_batch_tokens, share_prompt=run.share_prompt):
        measured = measure(collate(batch, run.policy.pad_id)).tolist()
        for row, values in zip(batch, measured, strict=True):
            found[id(row)] = tuple(values[: len(row.response_ids)])
    return [found[id(row)] for row in rows]


def forward(run: Run, model: Any, batch: Batch, **wanted: Any) -> TokenScores:
    """Log-probabilities of the response tokens under a model, at the sampling temperature, and what else is wanted."""
    run.beat()
    with run.session.accelerator.autocast():
        return response_logprobs(
            model,
            batch.to(run.session.accelerator.device),
            temperature=run.sampling.temperature,
            share_prompt=run.share_prompt,
            logits_chunk=run.logits_chunk,
            **wanted,
        )


def gather_checked(run: Run, samples: Sequence[Sample]) -> list[Sample]:
    """The step's samples of all processes, in order of group and sample, on all of them.

    Raises:
        ReasonRLError: too many could not be judged; on every process, since all see the same samples.
    """
    everyone = gather(run.session.accelerator, samples)
    everyone.sort(key=lambda s: (s.row.group, s.judged.rollout.sample))
    scored = {(s.judged.problem.id, s.judged.rollout.sample): s.judged.scored for s in everyone}
    check_unjudged(scored, run.max_unjudged)
    return everyone
