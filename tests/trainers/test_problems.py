"""Which problems a step draws: every one once an epoch, of each task its share, whatever processes there are."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from reasonrl import Problem, ReasonRLError
from reasonrl.evaluation.evaluate import Prompted
from reasonrl.trainers.problems import Listed, ProblemStream, Streamed


def listed_stream(listed: list[Prompted], per_step: int, seed: int, rank: int = 0, world: int = 1) -> ProblemStream:
    return ProblemStream([(Listed(listed, str(seed)), 1.0)], per_step, rank, world)


def problems(count: int) -> list[Prompted]:
    return [Prompted(Problem(f"p{i}", "", None), (i,)) for i in range(count)]


def drawn(stream: ProblemStream, step: int) -> list[str]:
    return [one.problem.id for one in stream.of_step(step)[0][0]]


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
            [(shares, positions)] = stream.of_step(step)
            assert len(shares) in (5 // world, -(-5 // world)), "shared out evenly, up to one"
            found.update(zip(positions, (one.problem.id for one in shares), strict=True))
        assert [found[position] for position in range(5)] == drawn(alone, step)


def test_too_few_problems_is_an_error() -> None:
    with pytest.raises(ReasonRLError, match=r"takes 8 different problems .* only 7 training problems; lower"):
        listed_stream(problems(7), 8, seed=0).of_step(1)


def test_a_process_without_a_problem_is_an_error() -> None:
    with pytest.raises(ReasonRLError, match="problems_per_step 2 leaves some of the 3 processes without"):
        listed_stream(problems(7), 2, 0, rank=0, world=3)


Rows = Iterator[tuple[int, Problem | ReasonRLError]]


def rows_of(count: int, faulty: tuple[int, ...] = ()) -> Rows:
    for i, one in enumerate(problems(count)):
        yield i, ReasonRLError(f"t.yaml: row {i}: is at fault") if i in faulty else replace(one.problem, row=i)


def streamed(
    count: int,
    window: int = 4,
    left_out: tuple[int, ...] = (),
    key: str = "s",
    faulty: tuple[int, ...] = (),
    **given: Any,
) -> Streamed:
    def prompted(problem: Problem) -> Prompted | None:
        return None if int(problem.id[1:]) in left_out else Prompted(problem, (1,))

    return Streamed(lambda: rows_of(count, faulty), prompted, window, key, "t", **given)


def test_a_stream_draws_every_problem_once_an_epoch_in_another_order_each_time() -> None:
    drawing = ProblemStream([(streamed(12), 1.0)], 4)
    epochs = [[id_ for step in range(3 * e + 1, 3 * e + 4) for id_ in drawn(drawing, step)] for e in range(3)]
    for epoch in epochs:
        assert sorted(epoch) == sorted(f"p{i}" for i in range(12))
    assert all(first != second for first, second in pairwise(epochs))
    assert drawn(drawing, 2) == epochs[0][4:8], "an earlier step again: the stream begins anew"


def test_a_stream_reads_its_window_and_no_further() -> None:
    read = 0

    def source() -> Rows:
        nonlocal read
        for one in rows_of(1000):
            read += 1
            yield one

    ProblemStream([(Streamed(source, lambda p: Prompted(p, (1,)), 10, "s"), 1.0)], 4).of_step(3)
    assert read <= 10 + 12


def test_what_is_left_out_of_a_stream_is_in_no_step() -> None:
    drawing = ProblemStream([(streamed(6, left_out=(1, 4)), 1.0)], 2)
    assert {id_ for step in range(1, 20) for id_ in drawn(drawing, step)} == {"p0", "p2", "p3", "p5"}
    with pytest.raises(ReasonRLError, match=r"takes 5 different problems .* only 4 training problems"):
        ProblemStream([(streamed(6, left_out=(1, 4)), 1.0)], 5).of_step(1)


def test_rows_left_out_of_a_stream_are_counted_and_the_first_is_told() -> None:
    told: list[str] = []
    source = streamed(12, left_out=(1,), faulty=(4, 7), tell=told.append)
    drawing = ProblemStream([(source, 1.0), (Listed(problems(4), "a"), 1.0)], 4)
    for step in range(1, 5):
        drawing.of_step(step)
    assert drawing.metrics() == {"rows_left_out": 2.0}
    drawing.of_step(8)
    assert drawing.metrics() == {"rows_left_out": 6.0}, "three in each epoch"
    assert (source.left_out.faults, len(told)) == (4, 1)
    assert told[0].startswith("t: rows are left out and counted, rows_left_out (first: row ")
    assert listed_stream(problems(3), 1, seed=0).metrics() == {}, "nothing streams"


def test_a_stream_bears_a_few_faults_and_then_no_more() -> None:
    assert len(drawn(ProblemStream([(streamed(30, faulty=tuple(range(10))), 1.0)], 20), 1)) == 20
    with pytest.raises(ReasonRLError) as caught:
        ProblemStream([(streamed(31, faulty=tuple(range(11))), 1.0)], 20).of_step(1)
    assert str(caught.value).startswith("t: 11 of the first ")
    assert " cannot be used; the first: row " in str(caught.value)
    assert str(caught.value).count("is at fault") == 1
    # however many where they may be skipped, and where a prompt is too long for what was asked
    assert drawn(ProblemStream([(streamed(31, faulty=tuple(range(30)), limited=False), 1.0)], 1), 1) == ["p30"]
    assert drawn(ProblemStream([(streamed(31, left_out=tuple(range(30))), 1.0)], 1), 1) == ["p30"]


def test_too_few_of_a_stream_tells_what_was_left_out() -> None:
    with pytest.raises(
        ReasonRLError, match=r"only 2 training problems \(t: 2 of 4 rows left out .*row [12]: is at fault"
    ):
        ProblemStream([(streamed(4, faulty=(1, 2)), 1.0)], 3).of_step(1)


def test_two_problems_of_a_step_never_have_one_id() -> None:
    def read() -> Rows:
        return ((i, Problem(f"p{i % 12}", f"{i}", None, row=i)) for i in range(24))

    source = Streamed(read, lambda problem: Prompted(problem, (1,)), 24, "s", "t")
    for step in range(1, 4):
        found = ProblemStream([(source, 1.0)], 6).of_step(step)[0][0]
        assert len({one.problem.id for one in found}) == 6
    assert source.left_out.faults > 0
    assert re.search(r"row \d+: has the id 'p\d+' of row \d+ in the same step; choose", source.left_out.first)
    same = Streamed(lambda: ((i, Problem("p", "", None, row=i)) for i in range(50)), source._prompted, 4, "s", "t")
    with pytest.raises(
        ReasonRLError, match=r"t: 11 of the first 12 rows .* has the id 'p' of row \d+ in the same step"
    ):
        ProblemStream([(same, 1.0)], 2).of_step(1)


def test_a_mixture_draws_of_each_task_its_share_and_no_problem_twice_in_a_step() -> None:
    few = [Prompted(Problem(f"few{i}", "", None), (i,)) for i in range(3)]
    drawing = ProblemStream([(Listed(problems(30), "a"), 2.0), (Listed(few, "b"), 1.0), (streamed(40), 1.0)], 8)
    for step in range(1, 13):
        ids = drawn(drawing, step)
        of_few = [id_ for id_ in ids if id_.startswith("few")]
        assert len(ids) == 8
        assert len(of_few) == len(set(of_few)) == 2
    assert len({id_ for step in range(1, 13) for id_ in drawn(drawing, step) if id_.startswith("few")}) == 3
