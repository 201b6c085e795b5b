"""GRPO, with outcome and process supervision, PPO, TRPO and online DPO learn arithmetic, from one supervised start.

The long version, all algorithms with several seeds, is benchmarks/learning.py.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from small_runs import ROOT, reset_accelerate, silent

from reasonrl import config
from reasonrl.trainers import run

STEPS = 14
COMMON = ("evaluation.rows=100", "evaluation.samples=4", "evaluation.k=[1]", "threads=1", "engine=huggingface")


def train(name: str, runs: Path, *overrides: str) -> Path:
    reset_accelerate()
    return run.train(config.load(name, [f"runs={runs}", *COMMON, *overrides]), silent())


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The quickstart's model after half of its supervised steps; a quarter of its answers are right."""
    runs = tmp_path_factory.mktemp("start")
    return train("quickstart_control", runs, "algorithm.steps=200", "evaluation.rows=1") / "final"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name", ["learning/grpo", "learning/grpo_process", "learning/ppo", "learning/trpo", "debug/online_dpo"]
)
def test_it_learns_arithmetic(start: Path, tmp_path: Path, name: str) -> None:
    path = str(ROOT / "configs" / f"{name}.yaml")
    given = ["warm_start=null", "model.tiny=null", f"model.path={start}", f"algorithm.steps={STEPS}"]
    folder = train(path, tmp_path, *given)
    before, after = (pass_at_1(folder, name) for name in ("before", "after"))
    assert 0.05 < before < 0.5
    assert after > before + 0.05, (before, after)


def pass_at_1(folder: Path, name: str) -> float:
    found: dict[str, Any] = json.loads((folder / "eval" / f"{name}.json").read_text())
    return float(found["sampled"]["pass_at_k"][0]["value"])
