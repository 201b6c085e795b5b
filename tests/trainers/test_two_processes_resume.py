"""A run on two gloo processes is resumed: each goes on with its own generators, and the run is the same bit for bit."""

import json
from pathlib import Path

from resumed_runs import assert_same, task
from resumed_scorers import scorer_config_of
from two_process_launch import launch_two


def test_two_processes_go_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    task(tmp_path)  # written once, and not by each process
    scorer_config_of(tmp_path, "reward_model", "")
    launch_two("two_processes_resume.py", tmp_path, [0, 0])
    assert_same(tmp_path / "cut" / "debug-grpo", tmp_path / "whole" / "debug-grpo")
    state = json.loads((tmp_path / "cut" / "debug-grpo" / "checkpoints" / "ppo-000002" / "state.json").read_text())
    first, second = state["random"]
    assert first["python"] != second["python"], "each has its own"
    assert_same(tmp_path / "cut" / "reward-model", tmp_path / "whole" / "reward-model")
