"""A whole run of each critic-free algorithm by the command: its phase, its metrics, what it leaves behind."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from plain_family import PRESETS
from small_runs import DEBUG, reset_accelerate
from typer.testing import CliRunner

from reasonrl import config, store
from reasonrl.cli.main import app

QUICK = ("warm_start.steps=15", "evaluation.rows=1", "evaluation.samples=1", "evaluation.k=[1]", "evaluation.every=0")
SIZES: dict[str, Any] = {"steps": 2, "problems_per_step": 4, "minibatches": 2, "group_size": 4}
RUNS: dict[str, dict[str, Any]] = {
    **{name: {"name": name, "kl": {"coefficient": 0.05}} for name in PRESETS},
    "lone responses": {"name": "reinforce_pp", "group_size": 1, "problems_per_step": 16, "kl": {"coefficient": 0.05}},
    "steps": {"name": "dapo", "process": {"steps": "verifier", "outcome_weight": 0.5}, "entropy_bonus": 0.01},
    "steps of the text": {
        "name": "gspo",
        "process": {"steps": "separator", "separator": ":", "outcome_weight": 1.0},
        "refills": 1,
    },
}


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    reset_accelerate()
    yield
    reset_accelerate()


@pytest.mark.parametrize("name", RUNS)
def test_a_whole_run(tmp_path: Path, name: str) -> None:
    algorithm = SIZES | RUNS[name]
    given = (f"algorithm={json.dumps(algorithm)}", f"runs={tmp_path}", "name=mine", "seed=1")
    result = CliRunner().invoke(app, ["train", DEBUG, *QUICK, *given], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in (tmp_path / "mine" / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if line["phase"] != "warm start"]
    assert [(line["phase"], line["step"]) for line in lines] == [(algorithm["name"], 1), (algorithm["name"], 2)]
    for line in lines:
        assert all(math.isfinite(value) for key, value in line.items() if key != "phase")
        assert line["updates"] >= 1
        assert line["grad_norm"] > 0
        assert ("step_reward" in line) == ("steps" in line) == ("process" in algorithm)
        assert line.get("steps", 1) >= 1, "the outcome at least"
        assert ("groups_left_out" in line) == (algorithm["name"] == "dapo" or "refills" in algorithm)
    read = config.load(str(tmp_path / "mine" / "config.yaml")).algorithm
    assert read.name == algorithm["name"]
    rows = store.read(tmp_path / "mine" / "rollouts" / "step-000001.parquet")
    groups = int(algorithm["problems_per_step"]) + int(lines[0].get("groups_left_out", 0))
    assert 16 <= len(rows) <= groups * int(algorithm["group_size"])
    assert any(row["advantage"] for row in rows)
