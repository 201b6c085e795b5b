"""How far apart sampler and trainer are: measured by hand, for the trained model itself, and in a whole run."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from plain_grpo import config, plain_logprobs, run_of
from small_runs import DEBUG, engine_of, judged, reset_accelerate, tiny_policy, token_stats, update, with_advantages
from typer.testing import CliRunner

from reasonrl.cli.main import app
from reasonrl.models.load import Policy
from reasonrl.rollout.engine import Request, Sampling
from reasonrl.trainers import metrics
from reasonrl.trainers.metrics import TokenStats
from reasonrl.trainers.policy import with_old_logprobs

NAN = math.nan
MISMATCH = {*metrics.MISMATCH_MEANS, *metrics.MISMATCH_MAXIMA, *metrics.MISMATCH_MINIMA}


@pytest.fixture
def policy() -> Policy:
    return tiny_policy(0)


def test_mismatch_metrics_by_hand(policy: Policy) -> None:
    """log π_old − log μ of 0.5 and −0.1 on one response and 0.3 on another, in a micro-batch each."""
    wanted = config(
        problems_per_step=1, group_size=2, epochs=2, micro_batch_tokens=1, importance={"mode": "truncated", "cap": 1.3}
    )
    shifts, ids, rewards = [(0.5, -0.1), (0.3,)], [(3, 4), (6,)], [1.0, 0.0]
    pair = [judged(0, j, ids[j], rewards[j]) for j in range(2)]
    pair = [
        replace(one, rollout=replace(one.rollout, logprobs=tuple(
            (plain_logprobs(policy.model, one).detach() - torch.tensor(shift)).tolist()
        )))
        for one, shift in zip(pair, shifts, strict=True)
    ]  # fmt: skip
    run = run_of(policy, None, wanted)
    stats = token_stats(run)
    samples = with_old_logprobs(run, with_advantages(run, pair, [0]), on_policy=False)
    update(run, samples, stats)
    found = stats.reduced(run.session)
    ratios = [math.exp(0.5), math.exp(-0.1), math.exp(0.3)]
    assert {name: found[name] for name in MISMATCH} == pytest.approx({
        "mismatch_mean": 0.3, "mismatch_max": 0.5, "importance_mean": sum(ratios) / 3, "importance_min": ratios[1],
        "importance_max": ratios[0], "importance_capped": 2 / 3,
    }, rel=1e-4)  # fmt: skip
    assert found["approx_kl"] == pytest.approx(0.0, abs=1e-6), "measured from the trainer's π_old"


def test_nan_behind_the_mask_reaches_no_metric(policy: Policy) -> None:
    run = run_of(policy, None, config())
    stats = TokenStats(["a"], maxima=["b"], minima=["c"])
    values, mask = torch.tensor([[3.0, NAN], [-2.0, -5.0]]), torch.tensor([[1, 0], [1, 1]])
    stats.add(mask, a=values, b=values, c=values)
    stats.add(mask, a=values, b=values - 1, c=values + 1)
    assert stats.reduced(run.session) == pytest.approx({"a": -8 / 6, "b": 3.0, "c": -5.0, "padding": 0.25})
    nothing = TokenStats(["a"], maxima=["b"], minima=["c"]).reduced(run.session)
    assert nothing == {"a": 0.0, "b": 0.0, "c": 0.0, "padding": 0.0}


@pytest.mark.parametrize(
    ("settings", "measured"),
    [
        ({}, True),
        ({"epochs": 2}, False),
        ({"importance": {"mode": "truncated"}}, True),
        ({"epochs": 2, "importance": {"mode": "truncated"}}, True),
        ({"epochs": 2, "importance": {"mode": "none"}}, False),
    ],
)
def test_the_mismatch_is_measured_where_the_trainer_knows_it(
    policy: Policy, settings: dict[str, Any], measured: bool
) -> None:
    run = run_of(policy, None, config(**settings))
    assert MISMATCH & token_stats(run).reduced(run.session).keys() == (MISMATCH if measured else set())


def test_the_mismatch_of_the_trained_model_itself_is_rounding() -> None:
    policy = tiny_policy(0)
    run = replace(run_of(policy, None, config(problems_per_step=2, group_size=8)), sampling=Sampling(max_tokens=16))
    requests = [Request(f"p{i}", (3 + i, 4, 5), tuple(range(8 * i, 8 * i + 8))) for i in range(2)]
    sampled = sorted(engine_of(policy).sample(requests, run.sampling), key=lambda one: (one.problem_id, one.sample))
    given = [replace(judged(0, j, (3,), float(j % 2)), rollout=one) for j, one in enumerate(sampled)]
    stats = token_stats(run)
    assert update(run, with_advantages(run, given, [0, 1]), stats) is not None
    found = stats.reduced(run.session)
    assert 0 < found["mismatch_mean"] <= found["mismatch_max"] < 1e-4
    assert found["importance_min"] == pytest.approx(1, abs=1e-4)
    assert found["importance_max"] == pytest.approx(1, abs=1e-4)
    assert found["importance_capped"] == 0


def test_a_whole_run_that_corrects(tmp_path: Path) -> None:
    reset_accelerate()
    small_run = ("warm_start.steps=5", "evaluation.rows=1", "evaluation.samples=1", "evaluation.k=[1]")
    overrides = [*small_run, "algorithm.steps=2", "algorithm.importance.mode=truncated", f"runs={tmp_path}"]
    result = CliRunner().invoke(app, ["train", DEBUG, *overrides], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    written = (tmp_path / "debug-grpo" / "metrics.jsonl").read_text().splitlines()
    lines = [line for line in map(json.loads, written) if line["phase"] == "grpo"]
    assert len(lines) == 2
    for line in lines:
        assert line["updates"] == 2
        assert 0 < line["mismatch_mean"] <= line["mismatch_max"] < 1e-4
        assert line["importance_capped"] == 0


def test_every_mismatch_metric_is_documented() -> None:
    assert [name for name in MISMATCH if f"`{name}`" not in (metrics.__doc__ or "")] == []
