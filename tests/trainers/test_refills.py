"""Dynamic sampling: groups without spread are replaced by groups of further problems, within bounds."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small_runs import (
    GRPO,
    NO_CLIPPING,
    grpo_objective,
    grpo_run,
    judged,
    kept_gradients,
    relative_difference,
    stepped,
    tiny_policy,
    token_stats,
    weights_of,
    with_advantages,
)

from reasonrl import Problem, store
from reasonrl.config import CriticFreeConfig, DAPOConfig, GRPOConfig
from reasonrl.evaluation.evaluate import Judged, Prompted
from reasonrl.models.load import Policy, reference_of
from reasonrl.rollout.finished import decoded
from reasonrl.trainers import experience, updates
from reasonrl.trainers.experience import sample_with_advantages
from reasonrl.trainers.grpo import loss, train_grpo
from reasonrl.trainers.metrics import Clock
from reasonrl.trainers.problems import Listed, ProblemStream
from reasonrl.trainers.sample import Sample
from reasonrl.trainers.updates import minibatches, update_all, update_once

AGREE, APART = (1.0, 1.0), (1.0, 0.0)
Rewards = Callable[[int], Sequence[float | None]]


def wanted(kind: type[CriticFreeConfig] = GRPOConfig, **settings: Any) -> CriticFreeConfig:
    given = {"steps": 1, "problems_per_step": 4, "group_size": 2, "optimizer": NO_CLIPPING, "refills": 2}
    return kind.model_validate(given | settings)


def group(number: int, rewards: Sequence[float | None]) -> list[Judged]:
    """The responses to a problem, of a length and of tokens of its own."""
    return [
        judged(number, j, [3 + (number + 5 * j + k) % 14 for k in range(1 + (number + j) % 4)], reward)
        for j, reward in enumerate(rewards)
    ]


class Sampler:
    """Stands for engine and scorer: the problems that each round asked for, and responses with rewards by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, rewards: Rewards) -> None:
        self.asked: list[tuple[int, list[int]]] = []  # of each round: the step, and its problems
        self.rewards = rewards
        self.made: Callable[[int], list[Judged]] = lambda number: group(number, rewards(number))
        monkeypatch.setattr(experience, "sample_and_verify", self)

    def __call__(
        self, prompted: Sequence[Prompted], *_: Any, samples: int, seed: int, step: int, on_response: Any
    ) -> list[Judged]:
        numbers = [int(one.problem.id[1:]) for one in prompted]
        self.asked.append((step, numbers))
        responses = [one for number in numbers for one in self.made(number)]
        assert len(responses) == samples * len(prompted)
        return responses


def problems(count: int, prefix: str = "p") -> list[Prompted]:
    return [Prompted(Problem(f"{prefix}{i}", "", None), (i,)) for i in range(count)]


def stream(config: CriticFreeConfig, count: int = 40, **place: int) -> ProblemStream:
    return ProblemStream(
        [(Listed(problems(count), "0"), 1.0)], config.problems_per_step, rounds=1 + config.refills, **place
    )


def run_of(config: CriticFreeConfig, policy: Policy, **parts: Any) -> GRPO:
    engine = SimpleNamespace(rest=lambda: None)
    return grpo_run(config, policy, problems=stream(config), engine=engine, sync=lambda step: None, **parts)


@pytest.fixture
def policy() -> Policy:
    return tiny_policy()


def odd_ones_apart(number: int) -> Sequence[float]:
    return APART if number % 2 else AGREE


def numbers_of(samples: Sequence[Sample]) -> list[int]:
    """Which problems they answer, each once."""
    return list(dict.fromkeys(int(s.judged.problem.id[1:]) for s in samples))


def test_groups_without_spread_are_replaced_by_groups_of_further_problems(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler = Sampler(monkeypatch, odd_ones_apart)
    run = run_of(wanted(), policy)
    samples = sample_with_advantages(run, 1, Clock())
    asked = [numbers for _, numbers in sampler.asked]
    missing = 4
    for numbers in asked:
        assert len(numbers) == missing, "as many as are missing"
        missing -= sum(number % 2 for number in numbers)
    assert len(asked) == 3
    everything = [number for numbers in asked for number in numbers]
    assert len(set(everything)) == len(everything), "all of them different"
    kept, left_out = ([s for s in samples if s.left_out == out] for out in (False, True))
    assert sorted(numbers_of(kept)) == sorted(n for n in everything if n % 2)
    assert sorted(numbers_of(left_out)) == sorted(n for n in everything if n % 2 == 0)
    assert 2 <= len(numbers_of(kept)) <= 4
    for s in kept:
        reward = s.judged.scored.reward
        assert reward is not None
        assert (s.counted, s.learns) == (True, True)
        assert s.row.advantages == pytest.approx((2 * reward - 1,) * len(s.row.response_ids), abs=1e-5)
    assert {(s.counted, s.learns) for s in left_out} == {(False, False)}
    groups = [s.row.group for s in samples]
    assert all(groups.count(one) == 2 for one in groups)


@pytest.mark.parametrize("world", [1, 2])
def test_each_takes_the_place_of_one_that_is_left_out(
    policy: Policy, monkeypatch: pytest.MonkeyPatch, world: int
) -> None:
    """So that two processes sample the same groups as one, and a mixture's tasks keep their shares."""
    found: dict[int, int] = {}  # by position: the problem
    for rank in range(world):
        Sampler(monkeypatch, odd_ones_apart)
        run = replace(run_of(wanted(), policy), problems=stream(wanted(), rank=rank, world=world))
        samples = sample_with_advantages(run, 1, Clock())
        found |= {s.row.group: int(s.judged.problem.id[1:]) for s in samples}
        kept = [s.row.group % 4 for s in samples if not s.left_out and s.judged.rollout.sample == 0]
        assert len(set(kept)) == len(kept)
        assert set(kept) <= set(range(rank, 4, world))
    rounds = stream(wanted()).of_step(1)
    expected, empty = dict[int, int](), set(range(4))
    for number, (drawn, _) in enumerate(rounds):
        here = {place: int(drawn[place].problem.id[1:]) for place in empty}
        expected |= {4 * number + place: n for place, n in here.items()}
        empty = {place for place, n in here.items() if n % 2 == 0}
    assert found == expected
    assert len(found) > 4


def test_no_round_is_sampled_once_enough_are_kept(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = Sampler(monkeypatch, lambda number: APART)
    samples = sample_with_advantages(run_of(wanted(), policy), 1, Clock())
    assert [len(numbers) for _, numbers in sampler.asked] == [4]
    assert sum(s.learns for s in samples) == 8


def test_a_group_is_left_out_for_its_spread_whatever_its_mean(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    """0.9 and 1.0 may both count as correct, 0.3 twice as neither right nor wrong; what is unjudged has no spread."""
    rewards: dict[int, Sequence[float | None]] = {0: (0.3, 0.3), 1: (0.9, 1.0), 2: (0.0, 0.0), 3: (1.0, None)}
    Sampler(monkeypatch, lambda number: rewards[number % 4])
    samples = sample_with_advantages(run_of(wanted(), policy), 1, Clock())
    assert {n % 4 for n in numbers_of([s for s in samples if not s.left_out])} == {1}
    assert {n % 4 for n in numbers_of([s for s in samples if s.left_out])} == {0, 2, 3}


def test_what_is_added_to_a_reward_for_its_length_is_spread(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are right, and one of them is 2 of 8 tokens longer than it may be for nothing."""
    sampler = Sampler(monkeypatch, lambda number: AGREE)
    sampler.made = lambda number: [judged(number, 0, (3, 4), 1.0), judged(number, 1, (3,) * 6, 1.0)]
    config = wanted(DAPOConfig, overlong_buffer=0.5)
    samples = sample_with_advantages(run_of(config, policy), 1, Clock())
    assert [s.left_out for s in samples] == [False] * 8
    assert [s.outcome for s in samples[:2]] == [1.0, 0.5]


def test_a_kl_in_the_reward_is_no_spread(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    """No two responses stray equally far; if that counted, nothing would ever be left out."""
    sampler = Sampler(monkeypatch, odd_ones_apart)
    config = wanted(kl={"coefficient": 0.1, "place": "reward"})
    samples = sample_with_advantages(run_of(config, policy, reference=reference_of(tiny_policy(1).model)), 1, Clock())
    assert len(sampler.asked) == 3
    assert all(s.left_out == (int(s.judged.problem.id[1:]) % 2 == 0) for s in samples)


def test_with_process_supervision_the_steps_must_differ(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of odd problems the steps earn different rewards, and the outcomes agree; of even ones it is the reverse."""

    def made(number: int) -> list[Judged]:
        ends = (1.0, 0.0) if number % 2 else (0.5, 0.5)
        return [
            stepped(one, decoded(policy.tokenizer, one.rollout.response_ids), [(1, reward)])
            for one, reward in zip(group(number, AGREE if number % 2 else APART), ends, strict=True)
        ]

    sampler = Sampler(monkeypatch, lambda number: AGREE)
    sampler.made = made
    samples = sample_with_advantages(run_of(wanted(process={}), policy), 1, Clock())
    assert len(sampler.asked) == 3
    assert all(s.left_out == (int(s.judged.problem.id[1:]) % 2 == 0) for s in samples)
    for s in samples:
        if not s.left_out:
            first = s.steps[0].reward
            assert s.row.advantages == pytest.approx((2 * first - 1, *[0.0] * (len(s.row.response_ids) - 1)), abs=1e-5)


# Updates.


def trained(run: GRPO, samples: Sequence[Sample]) -> tuple[list[float], dict[str, Any]]:
    """The losses and the last gradients of a step's updates, and back to the parameters before them."""
    before = {name: value.clone() for name, value in run.policy.model.state_dict().items()}
    stats = token_stats(run)
    with kept_gradients(run.session) as gradients:
        cuts = minibatches(run.config, samples, "0")
        done = update_all(run, samples, cuts, partial(loss, run, grpo_objective(run), stats), stats)
    run.policy.model.load_state_dict(before)
    return [one.loss for one in done.taken if one is not None], gradients


@pytest.mark.parametrize("kl", [{}, {"coefficient": 0.1}])
@pytest.mark.parametrize("aggregation", ["sequence_mean", "token_mean", "constant"])
def test_the_update_is_that_of_the_kept_groups_alone(
    policy: Policy, monkeypatch: pytest.MonkeyPatch, aggregation: str, kl: dict[str, Any]
) -> None:
    """Their denominators included: what is left out is in no mean."""
    Sampler(monkeypatch, odd_ones_apart)
    reference = reference_of(tiny_policy(1).model) if kl else None
    run = run_of(wanted(aggregation=aggregation, kl=kl, epochs=2), policy, reference=reference)
    samples = sample_with_advantages(run, 1, Clock())
    kept = numbers_of([s for s in samples if not s.left_out])
    responses = [one for number in kept for one in group(number, APART)]
    plain = run_of(wanted(aggregation=aggregation, kl=kl, epochs=2, refills=0), policy, reference=reference)
    expected = trained(plain, with_advantages(plain, responses, range(len(kept))))
    found = trained(run, samples)
    assert any(s.left_out for s in samples)
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    assert relative_difference(found[1], expected[1]) < 1e-5


def test_minibatches_are_cut_over_the_kept_groups(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    Sampler(monkeypatch, odd_ones_apart)
    seen: list[list[Sample]] = []

    def recorded(run: Any, session: Any, minibatch: Sequence[Sample], *others: Any) -> Any:
        seen.append(list(minibatch))
        return update_once(run, session, minibatch, *others)

    monkeypatch.setattr(updates, "update_once", recorded)
    for config, groups in ((wanted(minibatches=2), 3), (wanted(minibatches=4), 3), (wanted(minibatches=2), 1)):
        seen.clear()
        run = run_of(config, policy)
        samples = sample_with_advantages(run, 1, Clock())
        few = sorted({s.row.group for s in samples if not s.left_out})[:groups]
        samples = [s for s in samples if s.left_out or s.row.group in few]
        trained(run, samples)
        assert len(seen) == config.minibatches
        sizes = sorted(len({s.row.group for s in each}) for each in seen)
        assert sizes[-1] - sizes[0] <= 1, "uneven by one at most"
        assert sorted(s.row.group for each in seen for s in each if s.judged.rollout.sample == 0) == few
        assert run.session.done == config.minibatches, "an empty one passes over its update"


# Whole steps.


def logged_by(run: GRPO, folder: Path) -> list[dict[str, float]]:
    """The metrics of a whole run."""
    lines: list[dict[str, float]] = []
    tracker: Any = SimpleNamespace(log=lambda step, metrics: lines.append(metrics))
    train_grpo(replace(run, tracker=tracker, rollouts=folder))
    return lines


def test_what_is_left_out_is_stored_counted_and_in_the_rewards(
    policy: Policy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sampler = Sampler(monkeypatch, odd_ones_apart)
    for step, line in enumerate(logged_by(run_of(wanted(steps=2), policy), tmp_path), start=1):
        asked = [n for at, numbers in sampler.asked for n in numbers if at == step]
        even = [n for n in asked if n % 2 == 0]
        assert line["groups_left_out"] == len(even) > 0
        assert line["groups_that_agree"] == pytest.approx(len(even) / len(asked))
        assert line["reward"] == pytest.approx((len(even) + 0.5 * (len(asked) - len(even))) / len(asked))
        assert line["updates"] == 1
        rows = store.read(tmp_path / f"step-{step:06d}.parquet")
        assert sorted({row["problem_id"] for row in rows}) == sorted(f"p{n}" for n in asked)
        assert len(rows) == 2 * len(asked)
        assert all((row["advantage"] is None) == (int(row["problem_id"][1:]) % 2 == 0) for row in rows)


@pytest.mark.parametrize("kl", [{}, {"coefficient": 0.1}, {"coefficient": 0.1, "place": "reward"}])
def test_where_everything_agrees_it_stops_after_its_rounds_and_the_run_goes_on(
    policy: Policy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kl: dict[str, Any]
) -> None:
    sampler, before = Sampler(monkeypatch, lambda number: AGREE), weights_of(policy.model)
    reference = reference_of(tiny_policy(1).model) if kl else None
    lines = logged_by(run_of(wanted(steps=3, refills=3, kl=kl), policy, reference=reference), tmp_path)
    assert [step for step, _ in sampler.asked] == [1] * 4 + [2] * 4 + [3] * 4
    assert all(len(numbers) == 4 for _, numbers in sampler.asked)
    assert [line["groups_left_out"] for line in lines] == [16.0] * 3
    assert [line["updates"] for line in lines] == [0.0] * 3
    assert all(torch.equal(before[name], value) for name, value in weights_of(policy.model).items())
