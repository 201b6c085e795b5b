"""Rows into padded batches, micro-batches within a budget, minibatches that cover the step."""

import math
from collections import Counter
from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reasonrl.batch import Row, collate, micro_batches, minibatch_groups, pack

NAN = math.nan


def row(group: int, prompt: int, response: int) -> Row:
    return Row(tuple(range(1, prompt + 1)), tuple(range(1, response + 1)), group=group)


def computed(rows: list[Row], *, share_prompt: bool = True) -> int:
    prompts = len({r.group for r in rows}) if share_prompt else len(rows)
    return prompts * max(len(r.prompt_ids) for r in rows) + len(rows) * max(len(r.response_ids) for r in rows)


def test_collate_by_hand() -> None:
    batch = collate(
        [
            Row((5, 6), (7,), sampler_logprobs=(-1.5,), old_logprobs=(-1.0,), advantages=(0.5,), group=4),
            Row((8,), (9, 10, 11), old_logprobs=(-2.0, -3.0, -4.0), ref_logprobs=(-5.0, -6.0, -7.0), group=2),
            Row((5, 6), (12, 13), advantages=(-0.5, 0.25), group=4),
        ],
        pad_id=99,
    )
    assert batch.prompt_ids.tolist() == [[5, 6], [99, 8]]
    assert batch.prompt_mask.tolist() == [[1, 1], [0, 1]]
    assert batch.prompt_index.tolist() == [0, 1, 0]
    assert batch.response_ids.tolist() == [[7, 99, 99], [9, 10, 11], [12, 13, 99]]
    assert batch.response_mask.tolist() == [[1, 0, 0], [1, 1, 1], [1, 1, 0]]
    torch.testing.assert_close(
        batch.old_logprobs, torch.tensor([[-1, NAN, NAN], [-2, -3, -4], [NAN, NAN, NAN]]), equal_nan=True
    )
    torch.testing.assert_close(batch.sampler_logprobs[0], torch.tensor([-1.5, NAN, NAN]), equal_nan=True)
    assert batch.sampler_logprobs[1:].isnan().all()
    torch.testing.assert_close(
        batch.ref_logprobs, torch.tensor([[NAN, NAN, NAN], [-5, -6, -7], [NAN, NAN, NAN]]), equal_nan=True
    )
    torch.testing.assert_close(
        batch.advantages, torch.tensor([[0.5, NAN, NAN], [NAN, NAN, NAN], [-0.5, 0.25, NAN]]), equal_nan=True
    )
    assert batch.values.isnan().all()


def test_faults_are_errors() -> None:
    with pytest.raises(ValueError, match="at least one prompt token"):
        Row((), (1,))
    with pytest.raises(ValueError, match="one response token"):
        Row((1,), ())
    with pytest.raises(ValueError, match="2 old_logprobs for 1 response"):
        Row((1,), (1,), old_logprobs=(0.0, 0.0))
    with pytest.raises(ValueError, match="2 sampler_logprobs for 1 response"):
        Row((1,), (1,), sampler_logprobs=(0.0, 0.0))
    with pytest.raises(ValueError, match="at least one row"):
        collate([], pad_id=0)
    with pytest.raises(ValueError, match="group 3 have different prompts"):
        collate([Row((1,), (1,), group=3), Row((2,), (1,), group=3)], pad_id=0)


@st.composite
def groups(draw: st.DrawFn) -> list[Row]:
    rows = []
    for group in range(draw(st.integers(1, 6))):
        prompt = draw(st.integers(1, 12))
        rows += [row(group, prompt, n) for n in draw(st.lists(st.integers(1, 20), min_size=1, max_size=6))]
    return draw(st.permutations(rows))


@given(groups(), st.integers(1, 120), st.booleans())
def test_micro_batches_keep_the_budget_and_every_row(rows: list[Row], budget: int, share_prompt: bool) -> None:
    batches = micro_batches(rows, budget, share_prompt=share_prompt)
    assert Counter(id(r) for batch in batches for r in batch) == Counter(map(id, rows))
    for batch in batches:
        assert len(batch) == 1 or computed(batch, share_prompt=share_prompt) <= budget


@given(groups(), st.integers(1, 120))
def test_a_group_that_fits_is_not_cut(rows: list[Row], budget: int) -> None:
    batches = micro_batches(rows, budget)
    for group in {r.group for r in rows}:
        whole = [r for r in rows if r.group == group]
        homes = sum(any(r.group == group for r in batch) for batch in batches)
        assert homes == 1 or computed(whole) > budget


@given(groups())
def test_a_large_budget_makes_one_micro_batch(rows: list[Row]) -> None:
    assert len(micro_batches(rows, 10**6)) == 1


def test_responses_of_like_length_meet() -> None:
    # Long and short groups take turns; sorted by length, half of the micro-batches are short throughout.
    rows = [row(group, 4, 50 if group % 2 else 5) for group in range(16) for _ in range(4)]
    batches = micro_batches(rows, 500)
    responses = sum(len(batch) * max(len(r.response_ids) for r in batch) for batch in batches)
    real = sum(len(r.response_ids) for r in rows)
    assert 1 - real / responses < 0.05


@given(groups(), st.integers(1, 60))
def test_packs_keep_the_budget_and_every_row(rows: list[Row], budget: int) -> None:
    batches = pack(rows, budget)
    assert Counter(id(r) for batch in batches for r in batch) == Counter(map(id, rows))
    sizes = [sum(len(r.prompt_ids) + len(r.response_ids) for r in batch) for batch in batches]
    assert all(len(batch) == 1 or size <= budget for batch, size in zip(batches, sizes, strict=True))
    assert all(first + second > budget for first, second in combinations(sizes, 2)), "two would have fitted into one"


def test_packs_by_hand() -> None:
    rows = [row(group, 1, tokens - 1) for group, tokens in enumerate([3, 6, 4, 7, 12])]  # 20 tokens but the last one
    packed = [[len(r.prompt_ids) + len(r.response_ids) for r in batch] for batch in pack(rows, 10)]
    assert packed == [[12], [7, 3], [6, 4]]


@given(st.sets(st.integers(0, 99)), st.integers(1, 8), st.text(max_size=5))
def test_minibatches_are_a_partition_into_almost_equal_parts(groups: set[int], minibatches: int, seed: str) -> None:
    cut = minibatch_groups(groups, minibatches, seed)
    assert sorted(group for part in cut for group in part) == sorted(groups)
    assert {len(part) for part in cut} <= {len(groups) // minibatches, -(-len(groups) // minibatches)}
    assert cut == minibatch_groups(sorted(groups, reverse=True), minibatches, seed)


def test_minibatches_change_with_the_seed_and_there_is_one() -> None:
    assert minibatch_groups(range(64), 2, "0/1/0") != minibatch_groups(range(64), 2, "0/2/0")
    with pytest.raises(ValueError, match="0 minibatches"):
        minibatch_groups(range(5), 0, "")
