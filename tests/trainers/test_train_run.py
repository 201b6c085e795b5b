"""Whole runs: `reasonrl train` on the debug config, and what it leaves behind."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_runs import DEBUG, metrics, reset_accelerate
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner, Result

from reasonrl import config, store
from reasonrl.cli.main import app

TIMED = ("seconds", "tokens_per_second", "sampled_tokens_per_second")


def reasonrl_train(*overrides: str) -> Result:
    result = CliRunner().invoke(app, ["train", DEBUG, *overrides], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def untimed(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if not name.startswith(TIMED)}


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    """Each run may ask accelerate for another precision."""
    reset_accelerate()
    yield
    reset_accelerate()


@pytest.fixture(scope="module")
def output_and_folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Path]:
    """The same command twice."""
    runs = tmp_path_factory.mktemp("runs")
    outputs = [reasonrl_train(f"runs={runs}", "evaluation.rows=5").output for _ in range(2)]
    return outputs[0], runs / "debug-grpo", runs / "debug-grpo-2"


@pytest.fixture(scope="module")
def folder(output_and_folders: tuple[str, Path, Path]) -> Path:
    return output_and_folders[1]


def test_it_says_where_everything_lies_and_shows_no_bars_but_ours(output_and_folders: tuple[str, Path, Path]) -> None:
    output, folder, _ = output_and_folders
    lines = "".join(output.split())  # paths may be wrapped
    assert all(str(folder / name) in lines for name in ("rollouts", "final"))
    assert "before" in output
    assert "pass@2" in output
    assert "shards" not in output
    assert "it/s" not in output


def test_the_resolved_config_loads_back(folder: Path) -> None:
    expected = config.load(DEBUG, [f"runs={folder.parent}", "evaluation.rows=5"])
    assert config.load(str(folder / "config.yaml")) == expected
    assert expected.evaluation.rows == 5


GRPO_KEYS = {
    "step", "reward", "reward_std", "pass_rate", "unjudged", "groups_that_agree", "response_length",
    "response_length_max", "truncated", "policy_version", "reward/arithmetic_steps", "reward/length", "kl", "approx_kl",
    "clip_fraction", "entropy", "padding", "policy_loss", "grad_norm", "updates",
    "skipped_updates", "stopped_updates", "learning_rate",
    "tokens_per_second", "sampled_tokens_per_second", "seconds", "seconds/sample", "seconds/advantages",
    "seconds/update", "seconds/sync", "seconds/store",
}  # fmt: skip


def test_metrics_have_a_line_a_step_and_every_number_is_finite(folder: Path) -> None:
    lines = metrics(folder, "grpo")
    assert [line["step"] for line in lines] == [1, 2, 3]
    for line in lines:
        assert {key for key in line if not key.startswith("reason/")} == GRPO_KEYS
        assert any(key.startswith("reason/arithmetic_steps/") for key in line)
        assert all(math.isfinite(value) for value in line.values())
    assert [line["policy_version"] for line in lines] == [0, 1, 2]
    assert all(line["updates"] == 2 and line["grad_norm"] > 0 for line in lines)
    warm = metrics(folder, "warm start")
    assert [line["step"] for line in warm] == list(range(1, 41))
    assert warm[-1]["loss"] < 0.6 * warm[0]["loss"]
    assert all(math.isfinite(value) for line in warm for value in line.values())


def test_every_metric_is_documented() -> None:
    from reasonrl.trainers import metrics as module

    documented = module.__doc__ or ""
    names = {key.split("/")[0] for key in GRPO_KEYS} - {"step"}
    assert [name for name in names if f"`{name}" not in documented] == []


def test_rollouts_hold_every_response_with_its_verdicts(folder: Path) -> None:
    lines = metrics(folder, "grpo")
    assert sorted(p.name for p in (folder / "rollouts").iterdir()) == [f"step-00000{s}.parquet" for s in (1, 2, 3)]
    for step in (1, 2, 3):
        rows = store.read(folder / "rollouts" / f"step-00000{step}.parquet")
        assert all(list(row) == store.SCHEMA.names for row in rows)
        assert [row["sample"] for row in rows] == list(range(4)) * 6
        assert len({row["problem_id"] for row in rows}) == 6
        assert sum(row["reward"] for row in rows) / 24 == pytest.approx(lines[step - 1]["reward"])
        for start in range(0, 24, 4):
            group = rows[start : start + 4]
            assert len({row["problem_id"] for row in group}) == 1
            assert sum(row["advantage"] for row in group) == pytest.approx(0, abs=1e-6)
            best = max(group, key=lambda row: row["reward"])
            assert best["advantage"] == max(row["advantage"] for row in group)
        for row in rows:
            assert (row["step"], row["policy_version"], row["temperature"]) == (step, step - 1, 1.0)
            assert len(row["response_ids"]) == len(row["logprobs"]) == row["response_tokens"] <= 16
            assert [v["verifier"] for v in row["verdicts"]] == ["arithmetic_steps", "length"]
            assert row["reward"] == pytest.approx(sum(v["weight"] * v["reward"] for v in row["verdicts"]))
            assert row["verifier_version"]


def test_evaluations_before_between_and_after(folder: Path) -> None:
    assert sorted(p.stem for p in (folder / "eval").glob("*.json")) == ["after", "before", "step-000002"]
    assert sorted(p.stem for p in (folder / "eval").glob("*.parquet")) == ["after", "before", "step-000002"]
    for name, version in (("before", 0), ("step-000002", 2), ("after", 3)):
        report = json.loads((folder / "eval" / f"{name}.json").read_text())
        assert (report["greedy"]["judged"], report["sampled"]["judged"]) == (5, 10)
        assert [one["k"] for one in report["sampled"]["pass_at_k"]] == [1, 2]
        rows = store.read(folder / "eval" / f"{name}.parquet")
        assert len(rows) == 15
        assert {row["policy_version"] for row in rows} == {version}
    trained = {row["problem_id"] for s in (1, 2, 3) for row in store.read(folder / f"rollouts/step-00000{s}.parquet")}
    assert trained.isdisjoint(row["problem_id"] for row in store.read(folder / "eval/after.parquet"))


def test_transformers_loads_the_final_model_and_it_is_the_one_evaluated(folder: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(folder / "final")
    tokenizer = AutoTokenizer.from_pretrained(folder / "final")
    for row in store.read(folder / "eval" / "after.parquet")[:3]:
        assert row["temperature"] == 0
        prompt = tokenizer(row["prompt"], return_tensors="pt")
        ids = model.generate(**prompt, do_sample=False, max_new_tokens=16)[0, prompt["input_ids"].shape[1] :]
        assert ids.tolist() == row["response_ids"]
        assert tokenizer.decode(ids, skip_special_tokens=True) == row["response"]


def test_the_same_command_gives_the_same_run_in_a_folder_of_its_own(
    output_and_folders: tuple[str, Path, Path],
) -> None:
    _, first, second = output_and_folders
    for phase in ("warm start", "grpo"):
        lines = [untimed(line) for line in metrics(first, phase)]
        assert lines == [untimed(line) for line in metrics(second, phase)]
        assert lines
    for name in ("rollouts/step-000001", "rollouts/step-000003", "eval/before", "eval/after"):
        assert store.read(first / f"{name}.parquet") == store.read(second / f"{name}.parquet")
    weights = [(f / "final" / "model.safetensors").read_bytes() for f in (first, second)]
    assert weights[0] == weights[1]
    reports = [json.loads((f / "eval" / "after.json").read_text()) for f in (first, second)]
    assert reports[0] | {"model": ""} == reports[1] | {"model": ""}
