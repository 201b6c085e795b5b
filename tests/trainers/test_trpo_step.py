"""How far a step of TRPO goes: within the trust region and uphill, or nowhere at all."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from plain_grpo import kl, responses_of
from plain_trpo import (
    config,
    improve,
    in_loss,
    parameters_of,
    plain_kl,
    plain_loss,
    policy_of,
    rewarded,
    run_of,
    samples_of,
)
from small_runs import weights_of
from torch import Tensor

from reasonrl.evaluation.evaluate import Judged
from reasonrl.models.load import Policy, reference_of
from reasonrl.trainers import trpo


@pytest.fixture(scope="module")
def responses() -> list[Judged]:
    return responses_of(policy_of())


@pytest.fixture(scope="module")
def reference() -> Any:
    return reference_of(policy_of(1).model)


@pytest.mark.parametrize(("seed", "delta"), [(0, 1e-4), (1, 1e-4), (1, 1e-2), (2, 1e-2), (2, 0.5), (0, 0.5)])
def test_an_accepted_step_keeps_within_delta_and_raises_the_surrogate_as_its_metrics_say(
    responses: list[Judged], reference: Any, seed: int, delta: float
) -> None:
    policy = policy_of(seed)
    wanted = config(max_kl=delta, damping=1e-3, kl=kl("k3"), mask_truncated=True)
    run, old = run_of(policy, wanted, reference=reference), reference_of(policy.model)
    found = improve(run, samples_of(run, responses))
    given = {"reference": reference, "corrects": False}
    with torch.no_grad():
        before, after = (plain_loss(m, old, responses, wanted, **given).item() for m in (old, policy.model))
    apart = plain_kl(policy.model, old, in_loss(responses, wanted))
    assert found["updates"] == 1
    assert 0 < apart <= delta
    assert found["trust_kl"] == pytest.approx(apart, rel=1e-3, abs=3e-7)
    assert found["trust_kl"] > delta / 10
    assert found["surrogate_gain"] == pytest.approx(before - after, rel=1e-3, abs=1e-6)
    assert found["surrogate_gain"] > 0
    assert found["step_fraction"] == pytest.approx(0.8 ** (found["line_search_tried"] - 1))


TOO_LONG = {"fisher_share": 0.001, "damping": 1e-4, "cg_iterations": 10}  # by the curvature of one group alone


@pytest.mark.parametrize(("shrink", "delta"), [(0.5, 1e-2), (0.9, 0.5)])
def test_a_step_that_is_too_long_is_shortened(responses: list[Judged], shrink: float, delta: float) -> None:
    wanted = config(max_kl=delta, shrink=shrink, backtracks=60, **TOO_LONG)
    policy, old = policy_of(), policy_of().model
    run, before = run_of(policy, wanted), parameters_of(policy.model)
    found = improve(run, samples_of(run, responses))
    taken, tried = parameters_of(policy.model) - before, found["line_search_tried"]
    assert tried > 2
    assert found["step_fraction"] == pytest.approx(shrink ** (tried - 1))
    counted = in_loss(responses, wanted)
    assert found["trust_kl"] == pytest.approx(plain_kl(policy.model, old, counted), rel=1e-3)
    assert found["trust_kl"] <= delta
    trpo.put(run.session.parameters, before + taken / shrink)  # what was tried before it
    assert plain_kl(policy.model, old, counted) > delta


def unchanged(policy: Policy, before: dict[str, Tensor]) -> bool:
    return all(torch.equal(before[name], now) for name, now in weights_of(policy.model).items())


def assert_refused(found: dict[str, float], tried: int) -> None:
    names = ("updates", "surrogate_gain", "trust_kl", "step_fraction")
    assert [found[name] for name in names] == [0, 0, 0, 0]
    assert found["line_search_tried"] == tried


@pytest.mark.parametrize(
    ("measure", "value"),
    [("mean_kl", 1.0), ("mean_kl", math.inf), ("mean_kl", math.nan), ("loss_of", 1.0), ("loss_of", math.nan)],
)
def test_a_step_that_is_refused_leaves_every_bit(
    responses: list[Judged], monkeypatch: pytest.MonkeyPatch, measure: str, value: float
) -> None:
    policy, moved = policy_of(), []
    before = weights_of(policy.model)

    def too_much(*_: Any, **__: Any) -> float:
        moved.append(not unchanged(policy, before))
        return value

    monkeypatch.setattr(trpo, measure, too_much)
    run = run_of(policy, config(backtracks=3, cg_iterations=1))
    assert_refused(improve(run, samples_of(run, responses)), tried=4)
    assert moved == [True] * 4
    assert unchanged(policy, before)


def test_without_backtracks_a_step_that_is_too_long_is_refused(responses: list[Judged]) -> None:
    policy = policy_of()
    before = weights_of(policy.model)
    run = run_of(policy, config(max_kl=0.5, backtracks=0, **TOO_LONG))
    assert_refused(improve(run, samples_of(run, responses)), tried=1)
    assert unchanged(policy, before)


@pytest.mark.parametrize("reward", [0.3, None])
def test_where_nothing_is_learnt_every_bit_stays(responses: list[Judged], reward: float | None) -> None:
    policy = policy_of()
    before = weights_of(policy.model)
    run = run_of(policy, config())
    found = improve(run, samples_of(run, rewarded(responses, lambda one: reward)))
    assert_refused(found, tried=0)
    assert (found["policy_loss"], found["grad_norm"]) == (0, 0)
    assert unchanged(policy, before)


def test_a_gradient_that_is_not_finite_moves_nothing(responses: list[Judged]) -> None:
    policy = policy_of()
    before = weights_of(policy.model)
    run = run_of(policy, config())
    samples = samples_of(run, responses)
    row = samples[0].row
    samples[0] = replace(samples[0], row=replace(row, advantages=(math.nan,) * len(row.response_ids)))
    assert_refused(improve(run, samples), tried=0)
    assert unchanged(policy, before)
