"""The end of a step: rollouts are stored, metrics written, coefficients adapted."""

import math
from collections.abc import Mapping, Sequence

from reasonrl import store
from reasonrl.evaluation.evaluate import records
from reasonrl.trainers.metrics import Clock, TokenStats, response_metrics, step_metrics, time_metrics
from reasonrl.trainers.policy import Run
from reasonrl.trainers.sample import Sample


def write_rollouts(run: Run, everyone: Sequence[Sample], step: int) -> None:
    """Store every response of the step with its verdicts and its advantage, the mean of its tokens'."""
    rows = records(
        [s.judged for s in everyone],
        step=step,
        temperature=run.sampling.temperature,
        advantages=[math.fsum(s.row.advantages) / len(s.row.advantages) if s.counted else None for s in everyone],
    )
    store.write(run.rollouts / f"step-{step:06d}.parquet", rows)


def finish_step(
    run: Run,
    step: int,
    everyone: Sequence[Sample],
    updated: Mapping[str, float],
    stats: TokenStats,
    clock: Clock,
) -> None:
    """Store the rollouts, adapt β, write the metrics; `trainers.metrics` says what they mean.

    Args:
        run, step: the run and its step.
        everyone: the step's responses, of all processes.
        updated: the metrics of its updates.
        stats, clock: what was measured.
    """
    if run.session.accelerator.is_main_process:
        write_rollouts(run, everyone, step)
    clock.lap("store")
    measured = stats.reduced(run.session)
    metrics = {
        **response_metrics(everyone),
        **run.problems.metrics(),
        "kl": measured["approx_kl"],  # unless there is a reference: then the next line has one
        **measured,
        **updated,
        **time_metrics(clock, sum(len(s.row.response_ids) for s in everyone)),
    }
    if run.config.supervision is not None:
        metrics |= step_metrics(everyone)
    if getattr(run.config, "refills", 0):
        metrics["groups_left_out"] = float(len({s.row.group for s in everyone if s.left_out}))
    kl = run.config.kl
    if kl.target is not None:
        metrics["kl_coefficient"] = run.beta.value
        if updated["updates"] and math.isfinite(metrics["kl"]):  # else nothing was measured, or nothing that counts
            run.beta.approach(metrics["kl"], kl.target, run.config.responses_per_step, kl.horizon)
    run.tracker.log(step, metrics)
    run.after_step(step)
