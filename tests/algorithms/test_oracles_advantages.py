"""Advantages against the float64 rows of an independent NumPy implementation."""

from itertools import chain

import torch
from oracle_rows import Case, close, float64, padded, rows

from reasonrl.algorithms.advantages import group_relative, leave_one_out
from reasonrl.algorithms.process import process_relative
from reasonrl.algorithms.returns import gae, returns_to_go
from reasonrl.algorithms.whitening import whiten

WIDTH = 13


def with_zeros(ragged: list[list[float]]) -> list[list[float]]:
    return [[*row, *[0.0] * (WIDTH - len(row))] for row in ragged]


@rows("group_advantage")
def test_group_advantage(case: Case) -> None:
    given = case["inputs"]
    rewards = float64(given["r"])
    ids = torch.arange(len(rewards)) // given["G"]
    options = {key: given[key] for key in ("std", "eps") if key in given}
    close(group_relative(rewards, ids, torch.ones_like(ids, dtype=torch.bool), **options), case["expected"])


@rows("rloo_advantage")
def test_rloo_advantage(case: Case) -> None:
    rewards = float64(case["inputs"]["r"])
    ids = torch.arange(len(rewards)) // case["inputs"]["G"]
    close(leave_one_out(rewards, ids, torch.ones_like(ids, dtype=torch.bool)), case["expected"])


@rows("process_advantage")
def test_process_advantage(case: Case) -> None:
    given = case["inputs"]
    counts = torch.tensor([len(steps) for steps in given["step_rewards"]])
    advantages = process_relative(
        float64(list(chain(*given["step_rewards"]))),
        torch.arange(len(counts)).repeat_interleave(counts),
        torch.tensor(list(chain(*given["step_ends"]))),
        torch.zeros_like(counts),
        torch.ones_like(counts, dtype=torch.bool),
        torch.arange(WIDTH) < torch.tensor(given["lengths"])[:, None],
    )
    close(advantages, with_zeros(case["expected"]))


@rows("gae")
def test_gae(case: Case) -> None:
    given = case["inputs"]
    rewards, values = padded([given["rewards"]], WIDTH), padded([given["values"]], WIDTH)
    bootstrap = float64([given["bootstrap"]]) if "bootstrap" in given else None
    found = gae(rewards, values, ~rewards.isnan(), gamma=given["gamma"], lam=given["lam"], bootstrap=bootstrap)
    close(torch.cat(found), with_zeros(case["expected"]))


@rows("reinforce_pp_advantage")
def test_reinforce_pp_advantage(case: Case) -> None:
    token_rewards = padded(case["inputs"]["token_rewards"], WIDTH)
    mask = ~token_rewards.isnan()
    close(whiten(returns_to_go(token_rewards, mask), mask), with_zeros(case["expected"]))
