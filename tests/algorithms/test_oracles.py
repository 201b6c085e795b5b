"""Every algorithm so far against the float64 rows of an independent NumPy implementation (tests/data/oracles.json)."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from reasonrl.algorithms.advantages import group_relative
from reasonrl.algorithms.aggregation import AggregationMode, aggregate, count
from reasonrl.algorithms.kl import kl_estimate
from reasonrl.algorithms.losses import clip
from reasonrl.algorithms.masking import masked
from reasonrl.algorithms.pass_at_k import pass_at_k, pass_hat_k

Case = dict[str, Any]

CASES: list[Case] = json.loads((Path(__file__).parents[1] / "data" / "oracles.json").read_text("utf-8"))["cases"]
MODES: dict[str, AggregationMode] = {
    "seq-mean-token-mean": "sequence_mean",
    "token-mean": "token_mean",
    "constant": "constant",
}


def rows(fn: str) -> pytest.MarkDecorator:
    """The decorator that runs a test once for each row of one function."""
    return pytest.mark.parametrize("case", [pytest.param(c, id=c["name"]) for c in CASES if c["fn"] == fn])


def test_no_row_is_missing_and_none_is_left_over() -> None:
    assert Counter(case["fn"] for case in CASES) == {
        "group_advantage": 42,
        "kl_token": 12,
        "ppo_clip_token": 24,
        "grpo_loss": 36,
        "grpo_grad": 12,
        "pass_at_k": 11,
        "pass_hat_k": 9,
    }
    assert len({case["name"] for case in CASES}) == 146


def close(got: Tensor, expected: Any, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(got, float64(expected), rtol=0, atol=tolerance)


def float64(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def padded(ragged: list[list[float]], width: int) -> Tensor:
    """Ragged rows as (B, T), NaN behind the end: whatever reads the padding shows."""
    return float64([[*row, *[float("nan")] * (width - len(row))] for row in ragged])


@rows("group_advantage")
def test_group_advantage(case: Case) -> None:
    given = case["inputs"]
    rewards = float64(given["r"])
    ids = torch.arange(len(rewards)) // given["G"]
    options = {key: given[key] for key in ("std", "eps") if key in given}
    close(group_relative(rewards, ids, torch.ones_like(ids, dtype=torch.bool), **options), case["expected"])


@rows("kl_token")
def test_kl_token(case: Case) -> None:
    given = case["inputs"]
    close(kl_estimate(float64([given["lp"]]), float64([given["ref"]]), given["kind"]), [case["expected"]])


@rows("ppo_clip_token")
def test_ppo_clip_token(case: Case) -> None:
    given = case["inputs"]
    loss = clip(
        float64([given["lp"]]),
        float64([given["old"]]),
        float64([given["A"]]),
        clip_low=given["lo"],
        clip_high=given.get("hi", given["lo"]),
        dual_clip=given.get("dual"),
    )
    close(loss, [case["expected"]])


def grpo_loss(given: Case, logprobs: Tensor, mask: Tensor) -> Tensor:
    """The whole GRPO loss, composed as a trainer composes it."""
    width = mask.shape[1]
    logprobs = masked(logprobs, mask)
    per_token = isinstance(given["A"][0], list)
    loss = clip(
        logprobs,
        masked(padded(given["old"], width), mask),
        masked(padded(given["A"], width), mask) if per_token else float64(given["A"]),
        clip_low=given.get("lo", 0.2),
        clip_high=given.get("hi", 0.2),
        dual_clip=given.get("dual"),
    )
    if "ref" in given:
        loss = loss + given["beta"] * kl_estimate(logprobs, masked(padded(given["ref"], width), mask), "k3")
    sequences, tokens = count(mask)
    mode = MODES[given["mode"]]
    return aggregate(loss, mask, mode, sequences=sequences, tokens=tokens, max_length=given.get("const"))


@rows("grpo_loss")
def test_grpo_loss(case: Case) -> None:
    logprobs = padded(case["inputs"]["lp"], 9)
    close(grpo_loss(case["inputs"], logprobs, ~logprobs.isnan()), case["expected"])


@rows("grpo_grad")
def test_grpo_grad(case: Case) -> None:
    logprobs = padded(case["inputs"]["lp"], 9).requires_grad_()
    mask = ~logprobs.isnan()
    (gradient,) = torch.autograd.grad(grpo_loss(case["inputs"], logprobs, mask), logprobs)
    expected = [[*row, *[0.0] * (9 - len(row))] for row in case["expected"]]
    close(gradient, expected, 1e-6)


@rows("pass_at_k")
def test_pass_at_k_row(case: Case) -> None:
    assert pass_at_k(**case["inputs"]) == pytest.approx(case["expected"], abs=1e-9)


@rows("pass_hat_k")
def test_pass_hat_k_row(case: Case) -> None:
    assert pass_hat_k(**case["inputs"]) == pytest.approx(case["expected"], abs=1e-9)
