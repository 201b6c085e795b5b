"""A whole run of each critic-free algorithm by the command: its phase, its metrics, what it leaves behind.

All from one supervised start. GRPO's own run is that of test_train_run.py.
"""

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

QUICK = ("evaluation.rows=1", "evaluation.samples=1", "evaluation.k=[1]", "evaluation.every=0")
SIZES: dict[str, Any] = {"steps": 2, "problems_per_step": 4, "minibatches": 2, "group_size": 4}
RUNS: dict[str, dict[str, Any]] = {
    **{name: {"name": name, "kl": {"coefficient": 0.05}} for name in PRESETS if name != "grpo"},
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


def reasonrl_train(*overrides: str) -> None:
    result = CliRunner().invoke(app, ["train", DEBUG, *QUICK, *overrides], catch_exceptions=False)
    assert result.exit_code == 0, result.output


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose responses differ in reward."""
    reset_accelerate()
    runs = tmp_path_factory.mktemp("start")
    sft = json.dumps({"name": "sft", "steps": 15, "batch_size": 32, "optimizer": {"learning_rate": 0.01}})
    reasonrl_train("warm_start=null", f"algorithm={sft}", f"runs={runs}", "name=start")
    return runs / "start" / "final"


@pytest.mark.parametrize("name", RUNS)
def test_a_whole_run(start: Path, tmp_path: Path, name: str) -> None:
    algorithm = SIZES | RUNS[name]
    model = ("warm_start=null", "model.tiny=null", f"model.path={start}")
    reasonrl_train(*model, f"algorithm={json.dumps(algorithm)}", f"runs={tmp_path}", "name=mine", "seed=1")
    lines = [json.loads(line) for line in (tmp_path / "mine" / "metrics.jsonl").read_text().splitlines()]
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
