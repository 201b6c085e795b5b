"""The problems that a step sets aside for dynamic sampling: rounds of further ones, each with the tasks' shares."""

import random
from collections.abc import Iterator

import pytest

from reasonrl import Problem, ReasonRLError
from reasonrl.evaluation.evaluate import Prompted
from reasonrl.trainers.problems import Listed, ProblemStream, Source, Streamed

PER_STEP, ROUNDS = 6, 4


def problems(count: int, prefix: str = "p") -> list[Prompted]:
    return [Prompted(Problem(f"{prefix}{i}", "", None), (i,)) for i in range(count)]


def listed(count: int = 60, prefix: str = "p", seed: int = 0) -> Listed:
    return Listed(problems(count, prefix), f"{seed}/{prefix}")


def streamed(count: int) -> Streamed:
    def read() -> Iterator[tuple[int, Problem | ReasonRLError]]:
        return ((i, Problem(f"s{i}", "", None, row=i)) for i in range(count))

    return Streamed(read, lambda problem: Prompted(problem, (1,)), 8, "s", "t")


def stream(*sources: tuple[Source, float], rank: int = 0, world: int = 1, rounds: int = ROUNDS) -> ProblemStream:
    return ProblemStream(sources or ((listed(), 1.0),), PER_STEP, rank, world, rounds)


def ids(drawing: ProblemStream, step: int) -> list[list[str]]:
    """The problems of each round."""
    return [[one.problem.id for one in drawn] for drawn, _ in drawing.of_step(step)]


def test_all_problems_of_a_step_are_different_in_all_its_rounds() -> None:
    # of 25 problems a step has 24, and the one that is left over waits for the next epoch
    for drawing in (stream(), stream((listed(25), 1.0)), stream((streamed(25), 1.0))):
        for step in range(1, 8):
            rounds = ids(drawing, step)
            assert [len(one) for one in rounds] == [PER_STEP] * ROUNDS
            assert len({id_ for one in rounds for id_ in one}) == PER_STEP * ROUNDS


def test_positions_go_on_from_round_to_round() -> None:
    for step in (1, 2):
        positions = [at for _, where in stream().of_step(step) for at in where]
        assert positions == list(range(PER_STEP * ROUNDS))


@pytest.mark.parametrize("make", [lambda seed: listed(60, seed=seed), lambda seed: streamed(60)])
def test_a_step_depends_on_seed_and_step_alone(make: object) -> None:
    """However many rounds the steps before have used: a resumed run draws the same."""
    assert callable(make)
    whole = [ids(stream((make(3), 1.0)), step) for step in range(1, 8)]
    going = stream((make(3), 1.0))
    assert [ids(going, step) for step in range(1, 8)] == whole
    assert [ids(going, step) for step in (5, 2, 7)] == [whole[4], whole[1], whole[6]]
    assert len({tuple(one[0]) for one in whole}) == 7


def test_another_seed_draws_others() -> None:
    first, second = (stream((listed(seed=seed), 1.0)) for seed in (1, 2))
    assert [ids(first, step) for step in (1, 2)] != [ids(second, step) for step in (1, 2)]


def test_too_few_problems_for_all_rounds_says_what_to_lower() -> None:
    with pytest.raises(ReasonRLError, match=r"takes 24 different problems .* only 23 .*; lower problems_per_step or"):
        ids(stream((listed(23), 1.0)), 1)
    assert len(ids(stream((listed(23), 1.0), rounds=3), 1)) == 3


MIXTURE = {"a": 3.0, "b": 2.0, "c": 1.0}


def mixture(rank: int = 0, world: int = 1, rounds: int = ROUNDS) -> ProblemStream:
    sources = [(listed(80, task), weight) for task, weight in MIXTURE.items()]
    return stream(*sources, rank=rank, world=world, rounds=rounds)


def test_every_round_has_the_shares_of_the_mixture() -> None:
    drawing = mixture()
    for step in range(1, 8):
        for one in ids(drawing, step):
            assert [sum(id_[0] == task for id_ in one) for task in MIXTURE] == [3, 2, 1]
    uneven = stream((listed(80, "a"), 1.0), (listed(80, "b"), 3.0), rounds=3)  # 1.5 of a and 4.5 of b a round
    counts = [sum(id_[0] == "a" for id_ in one) for step in range(1, 5) for one in ids(uneven, step)]
    assert set(counts) == {1, 2}
    assert sum(counts) == 12 * 1.5


def test_a_place_is_of_the_same_task_in_every_round() -> None:
    """What refills it then keeps the shares, however few places are refilled."""
    for step in range(1, 5):
        first, *others = ids(mixture(), step)
        for one in others:
            assert [id_[0] for id_ in one] == [id_[0] for id_ in first]


@pytest.mark.parametrize("world", [2, 3])
def test_processes_share_out_every_round(world: int) -> None:
    alone, ranks = mixture(), [mixture(rank, world) for rank in range(world)]
    draw = random.Random(0)
    for step in draw.sample(range(1, 9), 5):
        expected = {at: one for ones, where in alone.of_step(step) for one, at in zip(ones, where, strict=True)}
        found: dict[int, Prompted] = {}
        for rank in ranks:
            for number, (ones, where) in enumerate(rank.of_step(step)):
                assert len(ones) == PER_STEP // world
                assert all(PER_STEP * number <= at < PER_STEP * (number + 1) for at in where)
                assert [at % PER_STEP for at in where] == list(range(rank.of_step(step)[0][1][0], PER_STEP, world))
                assert not found.keys() & set(where)
                found.update(zip(where, ones, strict=True))
        assert found == expected


def test_all_of_has_every_round() -> None:
    expected = {id_ for step in (1, 2) for one in ids(stream(), step) for id_ in one}
    assert {one.problem.id for one in stream().all_of(2)} == expected
    assert len(expected) == 2 * PER_STEP * ROUNDS
