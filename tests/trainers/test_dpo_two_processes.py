"""DPO on two gloo processes gives what it gives on one: references, metrics, weights."""

import json
from pathlib import Path
from typing import Any

import pytest
from small_runs import accelerator
from two_process_launch import launch_two
from two_processes_dpo import CASES, steps


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of the two processes found."""
    folder = tmp_path_factory.mktemp("found")
    launch_two("two_processes_dpo.py", folder, [0, 0])
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)]


@pytest.mark.parametrize("name", CASES)
def test_two_processes_are_one(found: list[dict[str, Any]], name: str, tmp_path: Path) -> None:
    assert [one["processes"] for one in found] == [2, 2]
    expected = steps(accelerator(), CASES[name], tmp_path)
    assert not expected["cached"]
    for one in (each[name] for each in found):
        assert one["cached"] == (name != "dpo"), "the first case leaves them to the others, on both processes"
        for ours, alone in zip(one["references"], expected["references"], strict=True):
            assert ours == pytest.approx(alone, rel=1e-5)
        assert len(one["lines"]) == 2
        for line, other in zip(one["lines"], expected["lines"], strict=True):
            assert line.keys() == other.keys()
            assert line["grad_norm"] > 0
            for key in line.keys() - {"seconds", "tokens_per_second"}:
                assert line[key] == pytest.approx(other[key], rel=1e-4, abs=1e-6), key
        for parameter, weights in expected["weights"].items():
            assert one["weights"][parameter] == pytest.approx(weights, rel=1e-4, abs=1e-5), parameter
