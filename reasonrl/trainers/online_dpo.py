"""DPO on the policy's own responses, step by step (online DPO, Guo et al. 2024, arXiv 2402.04792).

Where it departs from the paper: verifiers say which of two responses is better, where the paper asks a language model;
a problem's pairs are taken among G responses, not two; and a step may have several updates.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from reasonrl import store
from reasonrl.batch import minibatch_groups
from reasonrl.config import OnlineDPOConfig
from reasonrl.evaluation.evaluate import records
from reasonrl.pairs.candidates import Candidate, Source
from reasonrl.pairs.choices import Chooser, possible
from reasonrl.pairs.duplicates import without_near_duplicates
from reasonrl.trainers.dpo import warn_of_fall
from reasonrl.trainers.experience import sample_groups
from reasonrl.trainers.metrics import Clock, response_metrics, time_metrics, update_metrics
from reasonrl.trainers.policy import PolicyRun, gather_checked
from reasonrl.trainers.preferences import PreferenceLoss, TokenPair
from reasonrl.trainers.reference import with_reference
from reasonrl.trainers.sample import Sample
from reasonrl.trainers.session import Session, Update


@dataclass(frozen=True)
class OnlineDPO:
    """A run of online DPO.

    Attributes:
        run: how responses are sampled, verified and stored; its config is an `OnlineDPOConfig`.
        loss: of a pair.
        reference: gives the reference model for as long as it is needed.
    """

    run: PolicyRun[Any]
    loss: PreferenceLoss
    reference: Callable[[], AbstractContextManager[Any]]


def train_online_dpo(online: OnlineDPO, done: int = 0) -> None:
    """Each step: sample and verify, set right responses above wrong ones, update on the pairs.

    Args:
        online: the run.
        done: its steps that are taken already.

    Raises:
        ReasonRLError: too many responses could not be judged, or too many updates in a row were not finite.
    """
    run, metrics = online.run, dict[str, float]()
    config: OnlineDPOConfig = run.config
    for step in range(done + 1, config.steps + 1):
        clock = Clock()
        [(problems, positions)] = run.problems.of_step(step)
        samples = sample_groups(run, problems, positions, step, clock)
        run.engine.rest()
        everyone = gather_checked(run, samples)
        pairs = pairs_of(everyone, config, f"{run.seed}/{step}")
        with online.reference() as reference:
            pairs = with_reference(reference, pairs, online.loss.scoring, run.session)
        clock.lap("pairs")
        cuts = [cut for epoch in range(config.epochs) for cut in minibatches(config, len(pairs), run.seed, step, epoch)]
        updates = [update_on([pairs[at] for at in cut], online.loss, run.session) for cut in cuts]
        clock.lap("update")
        run.sync(step)
        clock.lap("sync")
        if run.session.accelerator.is_main_process:
            rows = records([s.judged for s in everyone], step=step, temperature=run.sampling.temperature)
            store.write(run.rollouts / f"step-{step:06d}.parquet", rows)
        clock.lap("store")
        metrics = {
            **response_metrics(everyone),
            **run.problems.metrics(),
            "pairs": float(len(pairs)),
            **online.loss.metrics(run.session),
            **update_metrics(updates, run.session),
            **time_metrics(clock, sum(s.judged.tokens for s in everyone)),
        }
        run.tracker.log(step, metrics)
        run.after_step(step)
    warn_of_fall(metrics, run.tracker)


def pairs_of(samples: Sequence[Sample], config: OnlineDPOConfig, seed: str) -> list[TokenPair]:
    """The pairs of a step's responses, of all processes, problem by problem; the same on every process."""
    groups: dict[int, list[Sample]] = {}
    for one in samples:
        if one.counted:
            groups.setdefault(one.row.group, []).append(one)
    chooser = Chooser(config.choice, config.pairs_per_problem, seed)
    found = []
    for number, group in groups.items():
        candidates = without_near_duplicates([candidate_of(one) for one in group], 1.0)
        rows = {one.judged.rollout.sample: one.row for one in group}
        for pair in chooser.take(possible(candidates, config.margin), number):
            chosen, rejected = rows[pair.chosen.source.sample], rows[pair.rejected.source.sample]
            found.append(TokenPair(chosen.prompt_ids, chosen.response_ids, rejected.response_ids))
    return found


def candidate_of(sample: Sample) -> Candidate:
    """A sampled response as pairs are chosen from; its reward has what shaping adds to it."""
    problem, rollout, scored = sample.judged.problem, sample.judged.rollout, sample.judged.scored
    assert scored.correct is not None
    judge = scored.verifiers[0]
    return Candidate(
        problem_id=problem.id,
        prompt=problem.prompt,
        reference=problem.reference,
        text=rollout.text,
        tokens=len(rollout.response_ids),
        reward=sample.outcome,
        correct=scored.correct,
        truncated=rollout.finish_reason == "length",
        logprob=fmean(rollout.logprobs),
        steps=(),
        source=Source("", "", 0, rollout.sample, rollout.version, judge.name, judge.version),
    )


def minibatches(config: OnlineDPOConfig, pairs: int, seed: int, step: int, epoch: int) -> list[list[int]]:
    """The places of the pairs of each update of an epoch; drawn by seed, step and epoch."""
    return [sorted(cut) for cut in minibatch_groups(range(pairs), config.minibatches, f"{seed}/{step}/{epoch}")]


def update_on(pairs: Sequence[TokenPair], loss: PreferenceLoss, session: Session) -> Update | None:
    """One optimiser step on pairs that all processes have; None where there are none."""
    if not pairs:
        session.pass_over()
        return None
    rank, world = session.accelerator.process_index, session.accelerator.num_processes
    return session.update(loss.shares(pairs[rank::world], len(pairs)))
