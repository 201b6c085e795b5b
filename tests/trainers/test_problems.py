"""Which problems a step draws: every one once an epoch, the same whatever processes there are."""

from itertools import pairwise

import pytest

from reasonrl import Problem, ReasonRLError
from reasonrl.evaluation.evaluate import Prompted
from reasonrl.trainers.problems import ProblemStream


def problems(count: int) -> list[Prompted]:
    return [Prompted(Problem(f"p{i}", "", None), (i,)) for i in range(count)]


def drawn(stream: ProblemStream, step: int) -> list[str]:
    return [one.problem.id for one in stream.of_step(step)[0]]


def test_an_epoch_draws_no_problem_twice_and_the_next_is_in_another_order() -> None:
    stream = ProblemStream(problems(12), 4, seed=0)
    epochs = [[id_ for step in range(3 * e + 1, 3 * e + 4) for id_ in drawn(stream, step)] for e in range(4)]
    for epoch in epochs:
        assert sorted(epoch) == sorted(f"p{i}" for i in range(12))
    assert all(first != second for first, second in pairwise(epochs))


def test_what_does_not_fill_a_step_waits_for_the_next_epoch() -> None:
    stream = ProblemStream(problems(5), 2, seed=0)
    epoch = drawn(stream, 1) + drawn(stream, 2)
    assert len(set(epoch)) == 4
    seen = {id_ for step in range(1, 21) for id_ in drawn(stream, step)}
    assert len(seen) == 5, "in time the left over problem changes"


def test_a_step_depends_on_seed_and_step_alone() -> None:
    forwards, backwards = ProblemStream(problems(9), 2, seed=3), ProblemStream(problems(9), 2, seed=3)
    assert [drawn(forwards, s) for s in range(1, 9)] == [drawn(backwards, s) for s in range(8, 0, -1)][::-1]
    other = ProblemStream(problems(9), 2, seed=4)
    assert [drawn(forwards, s) for s in range(1, 9)] != [drawn(other, s) for s in range(1, 9)]


@pytest.mark.parametrize("world", [1, 2, 3, 5])
def test_processes_share_out_the_problems_of_a_step(world: int) -> None:
    alone = ProblemStream(problems(12), 5, seed=1)
    streams = [ProblemStream(problems(12), 5, 1, rank, world) for rank in range(world)]
    for step in range(1, 6):
        found: dict[int, str] = {}
        for stream in streams:
            shares, positions = stream.of_step(step)
            assert len(shares) in (5 // world, -(-5 // world)), "shared out evenly, up to one"
            found.update(zip(positions, (one.problem.id for one in shares), strict=True))
        assert [found[position] for position in range(5)] == drawn(alone, step)


def test_too_few_problems_is_an_error() -> None:
    with pytest.raises(ReasonRLError, match="problems_per_step is 8, but there are only 7 training problems"):
        ProblemStream(problems(7), 8, seed=0)


def test_a_process_without_a_problem_is_an_error() -> None:
    with pytest.raises(ReasonRLError, match="problems_per_step 2 leaves some of the 3 processes without"):
        ProblemStream(problems(7), 2, 0, rank=0, world=3)
