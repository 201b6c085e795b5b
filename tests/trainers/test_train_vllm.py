"""A whole run that samples with vLLM: weights arrive, the mismatch is rounding, and its model evaluates the same."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_runs import DEBUG, reset_accelerate
from typer.testing import CliRunner
from vllm_engines import needs_vllm

from reasonrl import store
from reasonrl.cli.main import app
from reasonrl.config import EngineConfig
from reasonrl.evaluation import engines
from reasonrl.evaluation.engines import TOY, choose

STEPS = 2
# Heads of 32 numbers, the smallest that vLLM takes.
VLLM = ("model.tiny.hidden_size=64", "model.tiny.heads=2", "engine.name=vllm", "engine.kv_cache_gib=1")


def reasonrl(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run of two steps, with a probe after every sync."""
    runs = tmp_path_factory.mktemp("runs")
    reset_accelerate()
    overrides = (f"algorithm.steps={STEPS}", "engine.probe_every=1", "evaluation.every=0", f"runs={runs}")
    reasonrl("train", DEBUG, *VLLM, *overrides)
    yield runs / "debug-grpo"
    reset_accelerate()


@needs_vllm
def test_a_run_trains_and_its_mismatch_is_rounding(folder: Path) -> None:
    written = (folder / "metrics.jsonl").read_text().splitlines()
    lines = [line for line in map(json.loads, written) if line["phase"] == "grpo"]
    assert [line["step"] for line in lines] == [1, STEPS]
    for line in lines:
        assert 0 < line["mismatch_mean"] <= line["mismatch_max"] < 1e-3
        assert line["importance_min"] == pytest.approx(1, abs=1e-3)
        assert line["importance_max"] == pytest.approx(1, abs=1e-3)
        assert line["importance_capped"] == 0
        assert line["updates"] == 2
        assert line["grad_norm"] > 0
        assert all(math.isfinite(value) for name, value in line.items() if name != "phase")


@needs_vllm
def test_rollouts_carry_the_version_of_the_weights_that_sampled_them(folder: Path) -> None:
    for step in range(1, STEPS + 1):
        rows = store.read(folder / "rollouts" / f"step-00000{step}.parquet")
        assert {row["policy_version"] for row in rows} == {step - 1}
        assert all(len(row["response_ids"]) == len(row["logprobs"]) == row["response_tokens"] for row in rows)
    for name, version in (("before", 0), ("after", STEPS)):
        assert {row["policy_version"] for row in store.read(folder / "eval" / f"{name}.parquet")} == {version}


@needs_vllm
def test_both_engines_evaluate_the_final_model_alike(folder: Path) -> None:
    """Greedy responses are equal, and those the run itself found after its last sync."""
    found = {}
    for name in ("vllm", "huggingface"):
        runs = folder / name
        reasonrl("eval", "debug", "--model", str(folder / "final"), "-n", "1", "--rows", "7", "--engine", name,
                 "--runs", str(runs))  # fmt: skip
        found[name] = greedy(runs / "eval-debug" / "rollouts.parquet")
    assert len(found["vllm"]) == 7
    assert found["vllm"] == found["huggingface"] == greedy(folder / "eval" / "after.parquet")


def greedy(path: Path) -> dict[str, list[int]]:
    return {row["problem_id"]: row["response_ids"] for row in store.read(path) if row["temperature"] == 0}


@pytest.mark.parametrize("name", ["huggingface", "vllm"])
def test_the_engine_named_is_the_one_chosen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "find_spec", lambda module: None)
    assert choose(EngineConfig(name=name), 1) == (name, "as configured")


@pytest.mark.parametrize(
    ("parameters", "installed", "chosen", "why"),
    [
        (10 * TOY, False, "huggingface", "vLLM is not installed"),
        (TOY - 1, True, "huggingface", "the model has 30 M parameters: a toy, for which vLLM is not worth its start"),
        (TOY, True, "vllm", "vLLM is installed, and the model has 30 M parameters"),
        (134_515_008, True, "vllm", "vLLM is installed, and the model has 135 M parameters"),
    ],
)
def test_auto_chooses_and_says_why(
    parameters: int, installed: bool, chosen: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "find_spec", lambda module: object() if installed and module == "vllm" else None)
    assert choose(EngineConfig(), parameters) == (chosen, why)
