"""Two gloo processes on the CPU take the step of TRPO that one takes, whatever groups each holds."""

import json
from typing import Any

import pytest
import torch
from accelerate.state import PartialState
from small_runs import accelerator
from two_process_launch import launch_two
from two_processes_trpo import CASES, step


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of the two processes found."""
    folder = tmp_path_factory.mktemp("found")
    launch_two("two_processes_trpo.py", folder, [0, 0])
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)]


@pytest.mark.parametrize("case", CASES)
def test_the_step_is_that_of_one_process(found: list[dict[str, Any]], case: str) -> None:
    expected = step(accelerator(), [0, 1, 2], CASES[case])
    # Each case is what its name says.
    fraction, tried = expected["metrics"]["step_fraction"], expected["metrics"]["line_search_tried"]
    assert (fraction == 0) == (case == "refused")
    assert (tried > 1) == (case == "shortened")
    moved = torch.tensor(expected["moved"])
    for one in found:
        assert one["processes"] == 2
        assert one[case]["metrics"] == pytest.approx(expected["metrics"], rel=1e-4, abs=1e-6)
        assert one[case]["means"].keys() == expected["means"].keys()
        for name, value in one[case]["means"].items():
            if name != "padding":  # depends on what is computed together
                assert value == pytest.approx(expected["means"][name], rel=1e-5, abs=1e-6), name
        apart = torch.tensor(one[case]["moved"]) - moved
        assert apart.norm() <= 1e-3 * moved.norm()


@pytest.mark.parametrize("case", CASES)
def test_both_hold_the_same_bits(found: list[dict[str, Any]], case: str) -> None:
    first, second = found
    assert first[case]["moved"] == second[case]["moved"]
    assert first[case]["metrics"] == second[case]["metrics"]


def test_this_process_is_alone() -> None:
    """Or the comparison above would compare two with two."""
    assert PartialState().num_processes == 1
