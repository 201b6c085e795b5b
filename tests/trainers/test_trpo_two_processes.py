"""Two gloo processes on the CPU take the step of TRPO that one takes, whatever groups each holds."""

import json
import os
import socket
import subprocess
import sys
from typing import Any

import pytest
import torch
from accelerate.state import PartialState
from small_runs import ROOT, accelerator
from two_processes_trpo import CASES, step

LIMIT = 300  # seconds; minutes only on a machine that is very busy
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "tests")}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of the two processes found."""
    folder = tmp_path_factory.mktemp("found")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    script = [sys.executable, str(ROOT / "tests" / "two_processes_trpo.py"), str(folder)]
    processes = [
        subprocess.Popen(
            script, env=ENVIRONMENT | world | {"RANK": rank, "LOCAL_RANK": rank}, stderr=subprocess.PIPE, text=True
        )
        for rank in ("0", "1")
    ]
    try:
        errors = [process.communicate(timeout=LIMIT)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], "\n".join(errors)
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
