"""Sampling and verification overlap, and what comes back is in order whatever finishes first."""

from collections.abc import Iterator, Sequence

from torch import Tensor

from reasonrl.evaluation.evaluate import Prompted, evaluate, sample_and_verify
from reasonrl.evaluation.prepare import to_sampling
from reasonrl.rollout.engine import Engine, Request, Sampling, sample_seed
from reasonrl.scoring import Scorer
from reasonrl.scoring.resolve import weighted
from reasonrl.tasks import SamplingConfig, VerifierConfig
from reasonrl.types import Problem, Rollout


class Backwards(Engine):
    """Answers "2" to every other sample, the last sample of the last problem first."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[Request], Sampling]] = []

    def sample(self, requests: Sequence[Request], sampling: Sampling) -> Iterator[Rollout]:
        self.asked.append((list(requests), sampling))
        for request in reversed(requests):
            for j in reversed(range(len(request.seeds))):
                text = "2" if j % 2 == 0 else "3"
                yield Rollout(
                    request.problem_id, j, request.prompt_ids, (1, 2), (0.0, 0.0), text, "stop", 5, request.seeds[j]
                )

    def sync(self, weights: Iterator[tuple[str, Tensor]], version: int) -> None: ...

    def close(self) -> None: ...


PROMPTED = [Prompted(Problem(name, "1+1", "2"), (7, 8)) for name in ("a", "b", "c")]
VERIFIERS = [
    weighted(VerifierConfig(name="exact")),
    weighted(VerifierConfig(name="length", weight=0.0, options={"max_tokens": 9, "buffer": 4})),
]


def test_results_stand_in_order_of_problem_and_sample() -> None:
    engine = Backwards()
    with Scorer(VERIFIERS) as scorer:
        found = sample_and_verify(PROMPTED, engine, scorer, Sampling(), samples=3, seed=4, step=9)
    assert [(one.problem.id, one.rollout.sample) for one in found] == [(p, j) for p in "abc" for j in range(3)]
    assert [one.scored.correct for one in found] == [True, False, True] * 3
    assert [one.rollout.seed for one in found] == [sample_seed(4, 9, p, j) for p in "abc" for j in range(3)]


def test_an_evaluation_is_greedy_once_and_sampled_n_times_with_the_same_seeds_every_time() -> None:
    engine = Backwards()
    arrived: list[int] = []
    with Scorer(VERIFIERS) as scorer:
        first = evaluate(
            PROMPTED, engine, scorer, Sampling(0.8), samples=2, seed=1, on_response=lambda: arrived.append(1)
        )
        evaluate(PROMPTED, engine, scorer, Sampling(0.8), samples=2, seed=1)
    assert [(sampling.temperature, len(asked[0].seeds)) for asked, sampling in engine.asked] == [(0, 1), (0.8, 2)] * 2
    assert engine.asked[:2] == engine.asked[2:]
    assert len(arrived) == 3 * (1 + 2)
    rows = first.records(step=7)
    assert [row["temperature"] for row in rows] == [0.0] * 3 + [0.8] * 6
    assert {row["step"] for row in rows} == {7}
    assert {row["policy_version"] for row in rows} == {5}
    assert [v["verifier"] for v in rows[0]["verdicts"]] == ["exact", "length"]
    assert [v["weight"] for v in rows[0]["verdicts"]] == [1.0, 0.0]


def test_a_runs_sampling_wins_key_by_key() -> None:
    task = SamplingConfig(temperature=0.6, max_tokens=26, stop=("\n",))
    assert to_sampling(task) == Sampling(0.6, max_tokens=26, stop=("\n",))
    assert to_sampling(task, SamplingConfig(temperature=1.0)) == Sampling(1.0, max_tokens=26, stop=("\n",))
    assert to_sampling(task, SamplingConfig(stop=())) == Sampling(0.6, max_tokens=26)
