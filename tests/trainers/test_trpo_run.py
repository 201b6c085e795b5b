"""Whole runs of TRPO: every part connected, within the trust region at every step."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_runs import DEBUG, offered, reset_accelerate, silent
from transformers import AutoModelForCausalLM
from typer.testing import CliRunner

from reasonrl import Problem, Response, Verdict, Verifier
from reasonrl import config as run_config
from reasonrl.cli.main import app
from reasonrl.models.load import load_policy
from reasonrl.plugins import installed
from reasonrl.trainers import run

TRPO = {
    "extends": DEBUG,
    "model": {"attention": "eager"},
    "warm_start": {"steps": 10},
    "algorithm": {
        "name": "trpo", "steps": 3, "problems_per_step": 6, "group_size": 4, "max_kl": 0.02, "damping": 0.01,
        "kl": {"coefficient": 0.02},
    },
    "evaluation": {"rows": 1, "samples": 1, "k": [1], "every": 0},
}  # fmt: skip
KEYS = {
    "policy_loss", "grad_norm", "updates", "surrogate_gain", "trust_kl", "step_fraction", "line_search_tried", "kl",
    "approx_kl", "entropy", "reward", "seconds/update", "seconds/sync",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    reset_accelerate()
    yield
    reset_accelerate()


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "trpo.yaml"
    path.write_text(yaml.safe_dump(TRPO | changes))
    return path


def metrics(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line.pop("phase") == "trpo"]


def test_a_run_of_the_command(tmp_path: Path) -> None:
    arguments = ["train", str(written(tmp_path)), f"runs={tmp_path}", "name=short"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    folder = tmp_path / "short"
    lines = metrics(folder)
    assert [line["step"] for line in lines] == [1, 2, 3]
    for line in lines:
        assert line.keys() >= KEYS
        assert "learning_rate" not in line
        assert all(math.isfinite(value) for value in line.values())
        assert 0 < line["trust_kl"] <= 0.02
        assert line["surrogate_gain"] > 0
        assert 0 < line["step_fraction"] <= 1
        assert line["updates"] == 1
        assert line["approx_kl"] < 1e-9  # measured before the step, against the trainer's own π_old
    assert [line["policy_version"] for line in lines] == [0, 1, 2]
    assert (folder / "final" / "model.safetensors").is_file()


class Same(Verifier):
    """The same reward for everything."""

    name = "same"
    isolation = "inline"

    def verify(self, problem: Problem, response: Response) -> Verdict:
        return Verdict(0.3, "same")


def test_where_all_rewards_agree_no_weight_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(installed().verifiers, "same", offered(Same)["same"])
    task = {
        "name": "same",
        "generator": {"name": "arithmetic", "options": {"digits": 1, "eval_rows": 10}},
        "prompt": {"template": "{{ question }}"},
        "verifiers": [{"name": "same"}],
        "sampling": {"max_tokens": 6},
    }
    (tmp_path / "same.yaml").write_text(yaml.safe_dump(task))
    given = [f"task={tmp_path / 'same.yaml'}", f"runs={tmp_path / 'runs'}"]
    wanted = run_config.load(
        str(written(tmp_path, warm_start=None)), [*given, "algorithm.steps=2", "algorithm.kl.coefficient=0"]
    )
    folder = run.train(wanted, silent())
    final = AutoModelForCausalLM.from_pretrained(folder / "final").state_dict()
    start = load_policy(wanted.model, wanted.seed).model.state_dict()
    assert all((start[name] == final[name]).all() for name in start | final)
    for line in metrics(folder):
        assert [line[name] for name in ("updates", "step_fraction", "trust_kl", "surrogate_gain")] == [0, 0, 0, 0]
