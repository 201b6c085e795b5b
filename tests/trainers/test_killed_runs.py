"""kill -9 at any moment, again and again: what a run leaves in the end is what an uninterrupted one leaves."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from killed_runs import MOMENTS, SCORER_MOMENTS
from resumed_runs import assert_same
from small_runs import ROOT

LIMIT = 400  # seconds; most of them only on a machine that is very busy


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs: `whole` and `killed` once at each moment."""
    folder = tmp_path_factory.mktemp("killed")
    script = [sys.executable, "-W", "ignore", str(ROOT / "tests" / "killed_runs.py"), str(folder)]
    path = os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        script, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.returncode == 0, done.stderr
    sys.stderr.write(done.stderr)  # shown if a test fails
    return folder


def test_each_was_killed_at_its_moment_and_resumed_by_the_next(folder: Path) -> None:
    codes = json.loads((folder / "codes.json").read_text())
    assert {name: codes[name] for name in MOMENTS} == dict.fromkeys(MOMENTS, -9)
    assert (codes["whole"], codes["the end"]) == (0, 0)
    assert {name: codes[f"rm: {name}"] for name in SCORER_MOMENTS} == dict.fromkeys(SCORER_MOMENTS, -9)
    assert (codes["rm: whole"], codes["rm: the end"]) == (0, 0)


@pytest.mark.parametrize("name", ["debug-grpo", "reward-model"])
def test_what_is_left_is_the_same_bit_for_bit(folder: Path, name: str) -> None:
    assert_same(folder / "killed" / name, folder / "whole" / name)
    assert not [path for path in (folder / "killed").rglob("*") if path.name.endswith(".part")]


def test_a_call_that_lets_nobody_run_is_ended_with_its_stack_written(folder: Path) -> None:
    assert json.loads((folder / "codes.json").read_text())["hang"] == 1
    stacks = (folder / "hang" / "debug-grpo" / "stacks-0.txt").read_text()
    assert "in hang" in stacks
    assert "in verify" in stacks
