"""Losses, values and preferences against the float64 rows of an independent NumPy implementation."""

from collections.abc import Callable

import pytest
import torch
from oracle_rows import Case, close, float64, padded, rows
from torch import Tensor

from reasonrl.algorithms.aggregation import AggregationMode, aggregate, count
from reasonrl.algorithms.gspo import sequence_ratio
from reasonrl.algorithms.kl import kl_estimate
from reasonrl.algorithms.losses import cispo, clip, gspo
from reasonrl.algorithms.masking import masked
from reasonrl.algorithms.preference import accuracy, dpo, hinge, implicit_rewards, ipo, margins, reward_model_loss
from reasonrl.algorithms.values import value_loss

MODES: dict[str, AggregationMode] = {
    "seq-mean-token-mean": "sequence_mean",
    "token-mean": "token_mean",
    "constant": "constant",
}
WIDTH = 9


@rows("delta_clip_token")
def test_delta_clip_token(case: Case) -> None:
    given = case["inputs"]
    loss = clip(
        float64([given["lp"]]),
        float64([given["old"]]),
        float64([given["A"]]),
        clip_low=given["lo"],
        clip_high=given["lo"],
        delta=given["delta"],
    )
    close(loss, [case["expected"]])


@rows("cispo_token")
def test_cispo_token(case: Case) -> None:
    given = case["inputs"]
    logprobs = float64([given["lp"]]).requires_grad_()
    # the rows clip at 0 and 1 + eps_high
    limits = {"clip_low": 1.0, "clip_high": given["eps_high"]}
    loss = cispo(logprobs, float64([given["old"]]), float64([given["A"]]), **limits)
    (gradient,) = torch.autograd.grad(loss.sum(), logprobs)
    close(torch.cat([loss.detach(), gradient]), case["expected"])


@rows("cispo_loss")
def test_cispo_loss(case: Case) -> None:
    given = case["inputs"]
    logprobs = padded(given["lp"], WIDTH)
    mask = ~logprobs.isnan()
    loss = cispo(
        masked(logprobs, mask),
        masked(padded(given["old"], WIDTH), mask),
        float64(given["A"]),
        clip_low=1.0,
        clip_high=given["eps_high"],
    )
    sequences, tokens = count(mask)
    close(aggregate(loss, mask, "token_mean", sequences=sequences, tokens=tokens), case["expected"])


@rows("gspo_ratio")
def test_gspo_ratio(case: Case) -> None:
    given = case["inputs"]
    logprobs = padded([given["lp"]], WIDTH)
    close(sequence_ratio(logprobs, padded([given["old"]], WIDTH), ~logprobs.isnan()), [case["expected"]])


def grpo_loss(given: Case, logprobs: Tensor, mask: Tensor) -> Tensor:
    """The whole loss, composed as a trainer composes it."""
    policy, old = masked(logprobs, mask), masked(padded(given["old"], WIDTH), mask)
    per_token = isinstance(given["A"][0], list)
    advantages = masked(padded(given["A"], WIDTH), mask) if per_token else float64(given["A"])
    limits = {"clip_low": given.get("lo", 0.2), "clip_high": given.get("hi", 0.2)}
    if given.get("level") == "sequence":
        loss = gspo(policy, old, advantages, mask, **limits)
    else:
        loss = clip(policy, old, advantages, **limits, dual_clip=given.get("dual"))
    if "ref" in given:
        loss = loss + given["beta"] * kl_estimate(policy, masked(padded(given["ref"], WIDTH), mask), "k3")
    sequences, tokens = count(mask)
    mode = MODES[given["mode"]]
    return aggregate(loss, mask, mode, sequences=sequences, tokens=tokens, max_length=given.get("const"))


@rows("grpo_loss")
def test_grpo_loss(case: Case) -> None:
    logprobs = padded(case["inputs"]["lp"], WIDTH)
    close(grpo_loss(case["inputs"], logprobs, ~logprobs.isnan()), case["expected"])


@rows("grpo_grad")
def test_grpo_grad(case: Case) -> None:
    logprobs = padded(case["inputs"]["lp"], WIDTH).requires_grad_()
    mask = ~logprobs.isnan()
    (gradient,) = torch.autograd.grad(grpo_loss(case["inputs"], logprobs, mask), logprobs)
    expected = [[*row, *[0.0] * (WIDTH - len(row))] for row in case["expected"]]
    close(gradient, expected, 1e-6)


@rows("value_clip_loss")
def test_value_clip_loss(case: Case) -> None:
    given = case["inputs"]
    values = padded(given["v"], WIDTH)
    mask = ~values.isnan()
    parts = [masked(padded(given[name], WIDTH), mask) for name in ("v", "v_old", "ret")]
    sequences, tokens = count(mask)
    loss = value_loss(*parts, clip=given["eps"])
    close(aggregate(loss, mask, "token_mean", sequences=sequences, tokens=tokens), case["expected"])


DPO_LOSSES: dict[str, Callable[..., Tensor]] = {"sigmoid": dpo, "ipo": ipo, "hinge": hinge}


@rows("dpo")
def test_dpo(case: Case) -> None:
    given, expected = case["inputs"], case["expected"]
    beta = given.get("beta", 0.1)
    smoothing = {"label_smoothing": given["label_smoothing"]} if "label_smoothing" in given else {}
    pairs = [float64(given[name]) for name in ("pc", "pr", "rc", "rr")]
    loss = DPO_LOSSES[given.get("kind", "sigmoid")](*pairs, beta=beta, **smoothing)
    chosen = implicit_rewards(pairs[0], pairs[2], beta=beta)
    rejected = implicit_rewards(pairs[1], pairs[3], beta=beta)
    close(loss, expected["per_pair"])
    close(loss.mean(), expected["loss"])
    close(chosen, expected["chosen_rewards"])
    close(rejected, expected["rejected_rewards"])
    close(margins(chosen, rejected).mean(), expected["margin"])
    assert accuracy(chosen, rejected).mean().item() == pytest.approx(expected["accuracy"])


@rows("bradley_terry")
def test_bradley_terry(case: Case) -> None:
    given, expected = case["inputs"], case["expected"]
    chosen, rejected = float64(given["c"]), float64(given["r"])
    margin = float64(given["margin"]) if "margin" in given else None
    loss = reward_model_loss(chosen, rejected, margin=margin, center=given.get("center", 0.0))
    close(loss.mean(), expected["loss"])
    assert accuracy(chosen, rejected).mean().item() == pytest.approx(expected["accuracy"])
