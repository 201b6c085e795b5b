"""Which problems a step draws: every one once an epoch, of each task its share, whatever processes there are."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from reasonrl import Problem, ReasonRLError
from reasonrl.evaluation.evaluate import Prompted
from reasonrl.trainers.problems import Listed, ProblemStream, Streamed


def listed_stream(listed: list[Prompted], per_step: int, seed: int, rank: int = 0, world: int = 1) -> ProblemStream:
    return ProblemStream([(Listed(listed, str(seed)), 1.0)], per_step, rank, world)


def problems(count: int) -> list[Prompted]:
    return [Prompted(Problem(f"p{i}", "", None), (i,)) for i in range(count)]


def drawn(stream: ProblemStream, step: int) -> list[str]:
    return [one.problem.id for one in stream.of_step(step)[0]]


def test_an_epoch_draws_no_problem_twice_and_the_next_is_in_another_order() -> None:
    drawing = listed_stream(problems(12), 4, seed=0)
    epochs = [[id_ for step in range(3 * e + 1, 3 * e + 4) for id_ in drawn(drawing, step)] for e in range(4)]
    for epoch in epochs:
        assert sorted(epoch) == sorted(f"p{i}" for i in range(12))
    assert all(first != second for first, second in pairwise(epochs))


def test_what_does_not_fill_a_step_waits_for_the_next_epoch() -> None:
    drawing = listed_stream(problems(5), 2, seed=0)
    epoch = drawn(drawing, 1) + drawn(drawing, 2)
    assert len(set(epoch)) == 4
    seen = {id_ for step in range(1, 21) for id_ in drawn(drawing, step)}
    assert len(seen) == 5, "in time the left over problem changes"


def test_a_step_depends_on_seed_and_step_alone() -> None:
    forwards, backwards = listed_stream(problems(9), 2, seed=3), listed_stream(problems(9), 2, seed=3)
    assert [drawn(forwards, s) for s in range(1, 9)] == [drawn(backwards, s) for s in range(8, 0, -1)][::-1]
    other = listed_stream(problems(9), 2, seed=4)
    assert [drawn(forwards, s) for s in range(1, 9)] != [drawn(other, s) for s in range(1, 9)]


@pytest.mark.parametrize("world", [1, 2, 3, 5])
def test_processes_share_out_the_problems_of_a_step(world: int) -> None:
    alone = listed_stream(problems(12), 5, seed=1)
    streams = [listed_stream(problems(12), 5, 1, rank, world) for rank in range(world)]
    for step in range(1, 6):
        found: dict[int, str] = {}
        for stream in streams:
            shares, positions = stream.of_step(step)
            assert len(shares) in (5 // world, -(-5 // world)), "shared out evenly, up to one"
            found.update(zip(positions, (one.problem.id for one in shares), strict=True))
        assert [found[position] for position in range(5)] == drawn(alone, step)


def test_too_few_problems_is_an_error() -> None:
    with pytest.raises(ReasonRLError, match=r"takes 8 different problems .* only 7 training problems; lower"):
        listed_stream(problems(7), 8, seed=0).of_step(1)


def test_a_process_without_a_problem_is_an_error() -> None:
    with pytest.raises(ReasonRLError, match="problems_per_step 2 leaves some of the 3 processes without"):
        listed_stream(problems(7), 2, 0, rank=0, world=3)


def streamed(count: int, window: int = 4, left_out: tuple[int, ...] = (), key: str = "s") -> Streamed:
    def prompted(problem: Problem) -> Prompted | None:
        return None if int(problem.id[1:]) in left_out else Prompted(problem, (1,))

    return Streamed(lambda: (one.problem for one in problems(count)), prompted, window, key)


def test_a_stream_draws_every_problem_once_an_epoch_in_another_order_each_time() -> None:
    drawing = ProblemStream([(streamed(12), 1.0)], 4)
    epochs = [[id_ for step in range(3 * e + 1, 3 * e + 4) for id_ in drawn(drawing, step)] for e in range(3)]
    for epoch in epochs:
        assert sorted(epoch) == sorted(f"p{i}" for i in range(12))
    assert all(first != second for first, second in pairwise(epochs))
    assert drawn(drawing, 2) == epochs[0][4:8], "an earlier step again: the stream begins anew"


def test_a_stream_reads_its_window_and_no_further() -> None:
    read = 0

    def source() -> Iterator[Problem]:
        nonlocal read
        for one in problems(1000):
            read += 1
            yield one.problem

    ProblemStream([(Streamed(source, lambda p: Prompted(p, (1,)), 10, "s"), 1.0)], 4).of_step(3)
    assert read <= 10 + 12


def test_what_is_left_out_of_a_stream_is_in_no_step() -> None:
    drawing = ProblemStream([(streamed(6, left_out=(1, 4)), 1.0)], 2)
    assert {id_ for step in range(1, 20) for id_ in drawn(drawing, step)} == {"p0", "p2", "p3", "p5"}
    with pytest.raises(ReasonRLError, match=r"takes 5 different problems .* only 4 training problems"):
        ProblemStream([(streamed(6, left_out=(1, 4)), 1.0)], 5).of_step(1)


def test_a_mixture_draws_of_each_task_its_share_and_no_problem_twice_in_a_step() -> None:
    few = [Prompted(Problem(f"few{i}", "", None), (i,)) for i in range(3)]
    drawing = ProblemStream([(Listed(problems(30), "a"), 2.0), (Listed(few, "b"), 1.0), (streamed(40), 1.0)], 8)
    for step in range(1, 13):
        ids = drawn(drawing, step)
        of_few = [id_ for id_ in ids if id_.startswith("few")]
        assert len(ids) == 8
        assert len(of_few) == len(set(of_few)) == 2
    assert len({id_ for step in range(1, 13) for id_ in drawn(drawing, step) if id_.startswith("few")}) == 3
