"""The responses of a step and what they earned; groups that teach nothing are replaced where the config asks for it."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from reasonrl.config import AdvantageConfig
from reasonrl.evaluation.evaluate import Judged, Prompted, sample_and_verify
from reasonrl.rollout.finished import decoded
from reasonrl.trainers.advantages import Earned, earned, with_advantages, without_spread
from reasonrl.trainers.metrics import Clock
from reasonrl.trainers.policy import PolicyRun, Run, with_kl
from reasonrl.trainers.sample import Sample, make_sample


def sample_with_advantages(run: PolicyRun[Any], step: int, clock: Clock) -> list[Sample]:
    """A step's responses with group-based advantages.

    With `refills`, groups without spread are left out of the loss, and those of further problems sampled in their place
    (dynamic sampling: DAPO, arXiv 2503.14476, §3.2). Each has the place that the other had in its round, so that a
    mixture's tasks keep their shares, and the groups are the same on any number of processes. That a group teaches
    nothing shows in the spread of its rewards; a mean of 0 or 1 says so only where rewards are 0 or 1.
    """
    config: AdvantageConfig = run.config
    first, *others = run.problems.of_step(step)
    samples = sample_groups(run, *first, step, clock)
    if config.refills:
        samples = marked(run, samples)
    for problems, positions in others:
        places = config.problems_per_step
        filled = {s.row.group % places for s in samples if not s.left_out}
        empty = [index for index, position in enumerate(positions) if position % places not in filled]
        if empty:
            further = [problems[index] for index in empty], [positions[index] for index in empty]
            samples += marked(run, sample_groups(run, *further, step, clock))
    run.engine.rest()
    kept = [s for s in samples if not s.left_out]
    return with_group_advantages(run, kept) + [s for s in samples if s.left_out]


def with_group_advantages(run: PolicyRun[Any], samples: Sequence[Sample]) -> list[Sample]:
    """A step's samples with their advantages and with what a KL needs; all processes call this together."""
    config: AdvantageConfig = run.config
    found = with_kl(run, samples)
    all_learn = run.kl_in_loss or getattr(config, "entropy_bonus", 0.0) > 0
    return with_advantages(found, earned_by(run, found), config, run.session.sum_tensor, all_learn=all_learn)


def sample_groups(
    run: Run, problems: Sequence[Prompted], positions: Sequence[int], step: int, clock: Clock
) -> list[Sample]:
    """G responses to each problem and what they earned.

    Args:
        run: the run.
        problems, positions: this process's, and where each stands in the step's global batch.
        step: the step, from 1.
        clock: told how long sampling and the rest took.
    """
    config = run.config
    judged = sample_and_verify(
        problems,
        run.engine,
        run.scorer,
        run.sampling,
        samples=config.group_size,
        seed=run.seed,
        step=step,
        on_response=run.beat,
    )
    clock.lap("sample")
    samples = samples_of(run, judged, positions)
    clock.lap("advantages")
    return samples


def samples_of(run: Run, judged: Sequence[Judged], positions: Sequence[int]) -> list[Sample]:
    """Responses, group after group, with what they earned; no advantages yet."""
    config = run.config
    groups = [position for position in positions for _ in range(config.group_size)]
    decode = partial(decoded, run.policy.tokenizer)
    return [
        make_sample(one, group, config, run.sampling.max_tokens, config.supervision, decode)
        for one, group in zip(judged, groups, strict=True)
    ]


def marked(run: PolicyRun[Any], samples: Sequence[Sample]) -> list[Sample]:
    """The samples; those of groups without spread are left out of the loss.

    Of what verifiers and shaping gave: with a KL in the reward no two responses earn quite the same.
    """
    teaching = ~without_spread(earned(samples, 0.0), run.config)
    groups = {s.row.group for s, teaches in zip(samples, teaching.tolist(), strict=True) if teaches}
    return [s if s.row.group in groups else replace(s, counted=False, learns=False, left_out=True) for s in samples]


def earned_by(run: Run, samples: Sequence[Sample]) -> Earned:
    """What the samples earned."""
    return earned(samples, run.beta.value if run.kl_in_reward else 0.0)
