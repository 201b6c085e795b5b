"""Sample, verify and count: greedy and sampled pass@k on a split of a task."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reasonrl import store
from reasonrl.rollout.engine import Engine, Request, Sampling, sample_seed
from reasonrl.scoring import Scored, Scorer
from reasonrl.types import Problem, Rollout


@dataclass(frozen=True)
class Prompted:
    """A problem and its prompt as token ids."""

    problem: Problem
    prompt_ids: tuple[int, ...]


@dataclass(frozen=True)
class Judged:
    """One response and what the verifiers say of it."""

    problem: Problem
    rollout: Rollout
    scored: Scored

    @property
    def tokens(self) -> int:
        """The length of the response, its end-of-sequence token included."""
        return len(self.rollout.response_ids)

    @property
    def truncated(self) -> bool:
        """Was the response cut at the token limit?"""
        return self.rollout.finish_reason == "length"


def sample_and_verify(
    prompted: Sequence[Prompted],
    engine: Engine,
    scorer: Scorer,
    sampling: Sampling,
    *,
    samples: int,
    seed: int,
    step: int,
    on_response: Callable[[], None] = lambda: None,
) -> list[Judged]:
    """Sample responses to each problem and verify each as soon as it is finished; in order of problem and sample.

    Args:
        prompted: distinct problems.
        engine, scorer, sampling: how.
        samples: responses per problem.
        seed, step: what the samples' seeds derive from, with problem and sample index.
        on_response: called for each response as it arrives.
    """
    problems = {p.problem.id: p.problem for p in prompted}
    requests = [
        Request(
            problem_id=p.problem.id,
            prompt_ids=p.prompt_ids,
            seeds=tuple(sample_seed(seed, step, p.problem.id, j) for j in range(samples)),
        )
        for p in prompted
    ]
    rollouts: dict[tuple[str, int], Rollout] = {}
    for rollout in engine.sample(requests, sampling):
        key = (rollout.problem_id, rollout.sample)
        rollouts[key] = rollout
        scorer.submit(key, problems[rollout.problem_id], rollout.response)
        on_response()
    scored = scorer.collect()
    keys = [(p.problem.id, j) for p in prompted for j in range(samples)]
    return [Judged(problems[key[0]], rollouts[key], scored[key]) for key in keys]


@dataclass(frozen=True)
class Evaluation:
    """The responses of one evaluation: greedy ones, and `samples` sampled ones per problem."""

    greedy: list[Judged]
    sampled: list[Judged]
    sampling: Sampling
    samples: int

    def records(self, *, step: int) -> list[dict[str, Any]]:
        """Rows for the rollout store, the greedy ones (temperature 0) first."""
        sampled = records(self.sampled, step=step, temperature=self.sampling.temperature)
        return records(self.greedy, step=step, temperature=0.0) + sampled


def evaluate(
    prompted: Sequence[Prompted],
    engine: Engine,
    scorer: Scorer,
    sampling: Sampling,
    *,
    samples: int,
    seed: int,
    on_response: Callable[[], None] = lambda: None,
) -> Evaluation:
    """One greedy and `samples` sampled responses to each problem, verified.

    The seeds depend on problem and sample alone, so that the same call gives the same numbers, and the evaluations
    before and after training draw with the same random numbers. `on_response` is called for each of the
    len(prompted) · (1 + samples) responses as it arrives.
    """
    greedily = replace(sampling, temperature=0.0)
    greedy = sample_and_verify(
        prompted, engine, scorer, greedily, samples=1, seed=seed, step=0, on_response=on_response
    )
    sampled = sample_and_verify(
        prompted, engine, scorer, sampling, samples=samples, seed=seed, step=0, on_response=on_response
    )
    return Evaluation(greedy, sampled, sampling, samples)


def records(
    judged: Sequence[Judged],
    *,
    step: int,
    temperature: float,
    advantages: Sequence[float | None] | None = None,
) -> list[dict[str, Any]]:
    """Rows for the rollout store."""
    given = [None] * len(judged) if advantages is None else advantages
    return [
        store.record(
            one.problem,
            one.rollout,
            [(w.name, w.version, w.weight, v) for w, v in zip(one.scored.verifiers, one.scored.verdicts, strict=True)],
            step=step,
            temperature=temperature,
            reward=one.scored.reward,
            correct=one.scored.correct,
            advantage=advantage,
        )
        for one, advantage in zip(judged, given, strict=True)
    ]
