"""What must not matter to advantages and returns, for any batch; and what they equal by definition."""

import math
import random
import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Barrier

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from reasonrl.algorithms.advantages import GroupStd, agreeing, group_relative, leave_one_out
from reasonrl.algorithms.masking import masked, masked_sum
from reasonrl.algorithms.process import process_agreeing, process_relative
from reasonrl.algorithms.returns import gae, returns_to_go
from reasonrl.algorithms.steps import Steps
from reasonrl.algorithms.token_rewards import token_rewards
from reasonrl.algorithms.whitening import SumOver, explained_variance, whiten

NAN = float("nan")
STDS: list[GroupStd] = ["population", "sample", "none"]
numbers = st.one_of(st.sampled_from([0.0, 0.3, 1.0]), st.floats(-5, 5).map(lambda number: round(number, 3)))
decays = st.sampled_from([0.0, 0.5, 0.9, 1.0])


@dataclass(frozen=True)
class One:
    """A response: its group, whether it was judged, what it earned, and its tokens as (kl, value)."""

    group: int
    judged: bool
    outcome: float
    bootstrap: float
    tokens: list[tuple[float, float]]
    steps: list[tuple[float, int]]  # (reward, index of the last token)


@st.composite
def responses(draw: st.DrawFn) -> One:
    tokens = draw(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=5))
    steps = draw(st.lists(st.tuples(numbers, st.integers(0, len(tokens) - 1)), max_size=4))
    group = draw(st.sampled_from([-(2**63), 3, 2**62]))
    return One(group, draw(st.booleans()), draw(numbers), draw(numbers), tokens, steps)


few = settings(deadline=None, max_examples=50)  # each runs a dozen functions
batches = st.lists(responses(), min_size=1, max_size=10)


@dataclass(frozen=True)
class Batch:
    """Responses as tensors; token t of each stands in column columns[t]."""

    ids: Tensor
    judged: Tensor
    outcome: Tensor
    bootstrap: Tensor
    mask: Tensor
    kl: Tensor
    values: Tensor
    steps: Steps


def tensors(batch: list[One], columns: list[int] | None = None, width: int = 5, behind: float = NAN) -> Batch:
    columns = list(range(5)) if columns is None else columns
    mask = torch.zeros(len(batch), width, dtype=torch.bool)
    kl, values = torch.full((2, len(batch), width), behind, dtype=torch.float64)
    for row, one in enumerate(batch):
        for column, (kl[row, column], values[row, column]) in zip(columns, one.tokens, strict=False):
            mask[row, column] = True
    # what an unjudged response earned is as unknown as what stands behind the mask
    each = [(r if one.judged else behind, row, columns[t]) for row, one in enumerate(batch) for r, t in one.steps]
    steps = torch.tensor(each, dtype=torch.float64).reshape(-1, 3)
    return Batch(
        ids=torch.tensor([one.group for one in batch]),
        judged=torch.tensor([one.judged for one in batch]),
        outcome=torch.tensor([one.outcome if one.judged else behind for one in batch], dtype=torch.float64),
        bootstrap=torch.tensor([one.bootstrap for one in batch], dtype=torch.float64),
        mask=mask,
        kl=kl,
        values=values,
        steps=Steps(steps[:, 0], steps[:, 1].long(), steps[:, 2].long()),
    )


def of_groups(x: Batch) -> dict[str, Tensor]:
    """All that compares a response with its group, on the tokens."""
    everywhere: dict[str, Tensor] = {"leave_one_out": leave_one_out(x.outcome, x.ids, x.judged)}
    everywhere["agreeing"] = agreeing(x.outcome, x.ids, x.judged).double()
    everywhere["process_agreeing"] = process_agreeing(x.steps.rewards, x.steps.responses, x.ids, x.judged).double()
    everywhere |= {f"group_relative/{std}": group_relative(x.outcome, x.ids, x.judged, std=std) for std in STDS}
    by_token = {f"process/{std}": process_relative(*x.steps, x.ids, x.judged, x.mask, std=std) for std in STDS}
    return {name: value[:, None] * x.mask for name, value in everywhere.items()} | by_token


def of_tokens(x: Batch) -> dict[str, Tensor]:
    """All that is computed along the tokens, of the responses that were judged."""
    mask = x.mask & x.judged[:, None]
    rewards = token_rewards(mask, outcome=x.outcome, kl=x.kl, beta=0.5, steps=x.steps)
    filled = torch.where(mask, rewards, x.kl)  # so that the rewards, too, have something behind the mask
    advantages, returns = gae(filled, x.values, mask, gamma=0.9, lam=0.8, bootstrap=x.bootstrap)
    whitened = whiten(torch.where(mask, returns, x.kl), mask)
    to_go = returns_to_go(filled, mask, gamma=0.9)
    return {"rewards": rewards, "gae": advantages, "returns": returns, "whitened": whitened, "to_go": to_go}


def everything(x: Batch) -> dict[str, Tensor]:
    return of_groups(x) | of_tokens(x)


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@few
@given(batch=batches, seed=st.integers(0, 10**6))
def test_permuting_responses_permutes_everything(batch: list[One], seed: int) -> None:
    order = random.Random(seed).sample(range(len(batch)), len(batch))
    expected = {name: value[order] for name, value in everything(tensors(batch)).items()}
    assert_same(everything(tensors([batch[i] for i in order])), expected)


@few
@given(batch=batches, columns=st.sets(st.integers(0, 12), min_size=5, max_size=5).map(sorted))
def test_padding_anywhere_changes_nothing(batch: list[One], columns: list[int]) -> None:
    apart = everything(tensors(batch, columns, width=13))
    assert_same({name: value[:, columns] for name, value in apart.items()}, everything(tensors(batch)))
    rest = [column for column in range(13) if column not in columns]
    assert not any(value[:, rest].any() for value in apart.values())


@few
@given(batch=batches)
def test_only_the_partition_by_id_matters(batch: list[One]) -> None:
    renamed = [replace(one, group={-(2**63): 8, 3: -1, 2**62: 2**63 - 1}[one.group]) for one in batch]
    assert_same(everything(tensors(renamed)), everything(tensors(batch)))


@few
@given(batch=batches, behind=st.sampled_from([NAN, math.inf, -math.inf]))
def test_what_stands_behind_the_mask_changes_no_bit(batch: list[One], behind: float) -> None:
    found, expected = everything(tensors(batch, behind=behind)), everything(tensors(batch, behind=7.0))
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@few
@given(batch=batches)
def test_nan_behind_the_mask_reaches_no_gradient(batch: list[One]) -> None:
    x = tensors(batch)
    for name, advantages in everything(x).items():
        assert not advantages.requires_grad, name
        logprobs = x.values.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(masked_sum(advantages * masked(logprobs, x.mask), x.mask), logprobs)
        assert torch.equal(gradient, advantages), name


@few
@given(batch=batches, shift=st.floats(-100, 100))
def test_shifting_all_rewards_changes_nothing_relative(batch: list[One], shift: float) -> None:
    x = tensors(batch)
    shifted = replace(x, outcome=x.outcome + shift, steps=x.steps._replace(rewards=x.steps.rewards + shift))
    assert_same(of_groups(shifted), of_groups(x), 1e-6)
    torch.testing.assert_close(whiten(x.values + shift, x.mask), whiten(x.values, x.mask), rtol=1e-6, atol=1e-6)


@few
@given(batch=batches)
def test_splitting_the_batch_by_group_changes_no_advantage(batch: list[One]) -> None:
    whole = of_groups(tensors(batch))
    for group in {one.group for one in batch}:
        rows = [row for row, one in enumerate(batch) if one.group == group]
        part = of_groups(tensors([batch[row] for row in rows]))
        assert_same(part, {name: value[rows] for name, value in whole.items()})


@few
@given(batch=batches, std=st.sampled_from(STDS))
def test_one_step_a_response_is_outcome_supervision(batch: list[One], std: GroupStd) -> None:
    x = tensors([replace(one, steps=[(one.outcome, len(one.tokens) - 1)]) for one in batch])
    process = process_relative(*x.steps, x.ids, x.judged, x.mask, std=std)
    outcome = group_relative(x.outcome, x.ids, x.judged, std=std)
    torch.testing.assert_close(process, outcome[:, None] * x.mask, rtol=1e-9, atol=1e-9)
    silent = process_agreeing(x.steps.rewards, x.steps.responses, x.ids, x.judged)
    assert torch.equal(silent, agreeing(x.outcome, x.ids, x.judged))


@few
@given(batch=batches, std=st.sampled_from(STDS[:2]))
def test_process_follows_the_definition(batch: list[One], std: GroupStd) -> None:
    x = tensors(batch)
    found = process_relative(*x.steps, x.ids, x.judged, x.mask, std=std, eps=1e-6)
    silent = process_agreeing(x.steps.rewards, x.steps.responses, x.ids, x.judged)
    deviation = statistics.pstdev if std == "population" else statistics.stdev
    for row, one in enumerate(batch):
        pool = [r for other in batch if other.judged and other.group == one.group for r, _ in other.steps]
        teaches = one.judged and len(set(pool)) > 1
        z = [((r - statistics.fmean(pool)) / (deviation(pool) + 1e-6), t) for r, t in one.steps if teaches]
        expected = [math.fsum(score for score, end in z if end >= t) for t in range(len(one.tokens))]
        assert found[row, x.mask[row]].tolist() == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert silent[row].item() == (not teaches or not one.steps)
        # Cauchy–Schwarz: the squares of all z of a group sum to their number; √G when each response has one step
        assert found[row].abs().max().item() <= math.sqrt(len(pool) * len(one.steps)) + 1e-9


@few
@given(batch=batches, gamma=decays, lam=decays)
def test_gae_follows_the_definition(batch: list[One], gamma: float, lam: float) -> None:
    x = tensors(batch, columns=[0, 1, 3, 4, 6], width=8)
    advantages, returns = gae(x.kl, x.values, x.mask, gamma=gamma, lam=lam, bootstrap=x.bootstrap)
    for row, one in enumerate(batch):
        rewards, values = [r for r, _ in one.tokens], [v for _, v in one.tokens]
        pairs = zip(rewards, [*values[1:], one.bootstrap], values, strict=True)
        errors = [r + gamma * after - v for r, after, v in pairs]
        expected = [sum((gamma * lam) ** k * e for k, e in enumerate(errors[t:])) for t in range(len(errors))]
        assert advantages[row, x.mask[row]].tolist() == pytest.approx(expected, abs=1e-9)
    assert torch.equal(returns, masked(advantages + x.values, x.mask))


@few
@given(batch=batches, gamma=decays)
def test_gae_at_the_ends_of_lambda(batch: list[One], gamma: float) -> None:
    x = tensors(batch)
    last = torch.arange(5) == torch.tensor([len(one.tokens) - 1 for one in batch])[:, None]
    # the critic's guess of what would have come after the last token is one more reward there
    to_go = returns_to_go(x.kl + gamma * x.bootstrap[:, None] * last, x.mask, gamma=gamma)
    advantages, returns = gae(x.kl, x.values, x.mask, gamma=gamma, lam=1.0, bootstrap=x.bootstrap)
    torch.testing.assert_close(advantages, masked(to_go - x.values, x.mask), rtol=0, atol=1e-9)
    torch.testing.assert_close(returns, to_go, rtol=0, atol=1e-9)
    after = torch.where(last, x.bootstrap[:, None], x.values.roll(-1, dims=1))
    td_error = masked(x.kl + gamma * after - x.values, x.mask)
    assert torch.equal(gae(x.kl, x.values, x.mask, gamma=gamma, lam=0.0, bootstrap=x.bootstrap)[0], td_error)


def on_processes(parts: list[Batch], function: Callable[[Batch, SumOver], Tensor]) -> list[Tensor]:
    """The function on each part at once, as processes run it: each waits for all whenever a sum is asked for."""
    barrier, totals = Barrier(len(parts), timeout=60), [torch.empty(0)] * len(parts)

    def run(rank: int) -> Tensor:
        def sum_over(total: Tensor) -> Tensor:
            totals[rank] = total
            barrier.wait()
            whole = torch.stack(totals).sum(dim=0)
            barrier.wait()
            return whole

        return function(parts[rank], sum_over)

    with ThreadPoolExecutor(len(parts)) as pool:
        return list(pool.map(run, range(len(parts))))


@few
@given(batch=batches, data=st.data(), equal=st.booleans())
def test_whitening_over_processes_is_that_of_the_whole(batch: list[One], data: st.DataObject, equal: bool) -> None:
    cut = data.draw(st.integers(0, len(batch)))
    if equal:
        batch = [replace(one, tokens=[(0.3, 0.1)] * len(one.tokens)) for one in batch]
    whole = tensors(batch)
    # one process may have no row at all
    parts = [
        replace(whole, kl=whole.kl[rows], values=whole.values[rows], mask=whole.mask[rows])
        for rows in (slice(cut), slice(cut, None))
    ]
    whitened = torch.cat(on_processes(parts, lambda x, sum_over: whiten(x.kl, x.mask, sum_over=sum_over)))
    torch.testing.assert_close(whitened, whiten(whole.kl, whole.mask), rtol=1e-9, atol=1e-9)
    assert not (equal and whitened.any())
    explained = on_processes(parts, lambda x, sum_over: explained_variance(x.values, x.kl, x.mask, sum_over=sum_over))
    expected = explained_variance(whole.values, whole.kl, whole.mask)
    torch.testing.assert_close(explained, [expected, expected], rtol=1e-9, atol=1e-9)
