"""Two gloo processes on the CPU give what one gives: in a whole run of the command, and update by update."""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from accelerate.state import PartialState
from safetensors.torch import load_file
from small_runs import DEBUG, ROOT, accelerator, relative_difference
from two_process_launch import launch_two
from two_processes import CORRECTED, CUTS, GRPO_CONFIG, PPO_CONFIGS, grpo_update, linear_updates, ppo_updates
from typer.testing import CliRunner

from reasonrl import store
from reasonrl.cli.main import app
from reasonrl.config import GRPOConfig

LIMIT = 300  # seconds; minutes only on a machine that is very busy
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "tests")}
# Nine problems on two processes are five and four, and five evaluated problems three and two.
# Adam divides each gradient by its own size, rounding errors too where it is as small as they are: a large epsilon
# keeps them small.
OVERRIDES = (
    "warm_start.steps=10", "warm_start.optimizer.epsilon=0.01", "algorithm.optimizer.epsilon=0.01",
    "algorithm.problems_per_step=9", "algorithm.minibatches=3", "algorithm.group_size=3", "algorithm.epochs=2",
    "algorithm.steps=2", "evaluation.rows=5", "evaluation.every=1", "algorithm.micro_batch_tokens=80",
)  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folders of one run on one process and on two."""
    parent = tmp_path_factory.mktemp("runs")
    result = CliRunner().invoke(app, ["train", DEBUG, *OVERRIDES, f"runs={parent}"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    command = ["torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "reasonrl", "train", DEBUG]
    done = subprocess.run(
        [sys.executable, "-m", *command, *OVERRIDES, f"runs={parent}", "name=two"],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=LIMIT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("held-out problems") == 1, "only one process shows the result"
    assert "Warning" not in done.stderr
    return parent / "debug-grpo", parent / "two"


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_the_weights_are_the_same(runs: tuple[Path, Path]) -> None:
    one, two = (load_file(folder / "final" / "model.safetensors") for folder in runs)
    assert all((one[name] - two[name]).abs().max() < 1e-5 for name in one)
    assert relative_difference(two, one) < 1e-5


def test_the_metrics_are_the_same(runs: tuple[Path, Path]) -> None:
    one, two = map(metrics, runs)
    assert [(line["phase"], line["step"]) for line in one] == [(line["phase"], line["step"]) for line in two]
    assert [line["step"] for line in one if line["phase"] == "grpo"] == [1, 2]
    # Padding depends on what is computed together; and one process is faster than two.
    differ = ("padding", "seconds", "tokens_per_second", "sampled_tokens_per_second")
    for first, second in zip(one, two, strict=True):
        assert first.keys() == second.keys()
        for name in first:
            if not name.startswith((*differ, "phase")):
                assert second[name] == pytest.approx(first[name], rel=1e-5, abs=1e-6), name
        if first["phase"] == "grpo":
            assert first["grad_norm"] > 0
            assert first["updates"] == 6


def test_the_rollouts_are_the_same_in_the_same_order(runs: tuple[Path, Path]) -> None:
    exact = ("problem_id", "sample", "response_ids", "response", "reward", "correct", "seed", "policy_version")
    for name in ("rollouts/step-000001", "rollouts/step-000002", "eval/before", "eval/step-000001", "eval/after"):
        one, two = (store.read(folder / f"{name}.parquet") for folder in runs)
        assert [[row[key] for key in exact] for row in one] == [[row[key] for key in exact] for row in two]
        for first, second in zip(one, two, strict=True):
            assert first["advantage"] == pytest.approx(second["advantage"])
            assert first["logprobs"] == pytest.approx(second["logprobs"], abs=1e-5)


def test_the_evaluations_are_the_same(runs: tuple[Path, Path]) -> None:
    for name in ("before", "step-000001", "after"):
        one, two = (json.loads((folder / "eval" / f"{name}.json").read_text()) for folder in runs)
        assert one | {"model": ""} == two | {"model": ""}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any], Path]:
    """What each of the two processes of two_processes.py found; they are started without a launcher to end them."""
    folder = tmp_path_factory.mktemp("found")
    launch_two("two_processes.py", folder, [0, 2])
    first, second = (json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1))
    return first, second, folder


Found = tuple[dict[str, Any], dict[str, Any], Path]


def test_they_are_two_and_gather_in_order(found: Found) -> None:
    for one in found[:2]:
        assert one["processes"] == 2
        assert one["gathered"] == ["0a", "0b", "1a"]


@pytest.mark.parametrize("cut", CUTS)
def test_an_update_is_that_of_one_process_however_the_batch_is_cut(found: Found, cut: str) -> None:
    losses, weights = linear_updates(accelerator(), range(4))
    for one in found[:2]:
        assert one["linear"][cut][0] == pytest.approx(losses, rel=1e-6)
        assert one["linear"][cut][1][0] == pytest.approx(weights[0], rel=1e-6)


def test_what_is_not_finite_on_one_process_is_skipped_by_both(found: Found) -> None:
    first, second = (one["not finite"] for one in found[:2])
    assert first == second
    assert (first["applied"], first["kept"], first["skipped"]) == (False, True, 2)
    assert "2 updates in a row" in first["stopped"]


@pytest.mark.parametrize(("name", "settings"), [("grpo", GRPO_CONFIG), ("corrected", CORRECTED)])
def test_a_process_whose_groups_agree_takes_part_in_the_update_of_the_other(
    found: Found, name: str, settings: GRPOConfig
) -> None:
    expected = grpo_update(accelerator(), [0, 1, 2], settings)
    means = expected["means"]
    assert means["importance_min"] < 1 < settings.importance.cap < means["importance_max"]
    for one in (each[name] for each in found[:2]):
        assert one["loss"] == pytest.approx(expected["loss"], abs=1e-7)
        assert one["norm"] == pytest.approx(expected["norm"], rel=1e-5)
        assert one["means"] == pytest.approx(expected["means"], rel=1e-5, abs=1e-12)
        for parameter, weights in expected["weights"].items():
            assert one["weights"][parameter] == pytest.approx(weights, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", PPO_CONFIGS)
def test_a_step_of_ppo_is_that_of_one_process(found: Found, name: str) -> None:
    expected = ppo_updates(accelerator(), [0, 1, 2], PPO_CONFIGS[name])
    said, advantages = expected["said"], [a for row in expected["advantages"].values() for a in row]
    assert statistics.fmean(advantages) == pytest.approx(0, abs=1e-6), "whitened, over the tokens of both"
    assert (said["updates"], said["stopped_updates"]) == ((1, 2) if name == "stopped" else (3, 0))
    assert said["value_clip_fraction"] > 0
    assert (expected["penalty"] != 1) == (name == "penalty")
    both = [each["ppo"][name] for each in found[:2]]
    assert {key for one in both for key in one["advantages"]} == expected["advantages"].keys()
    for one in both:
        assert one["said"] == pytest.approx(said, rel=1e-5, abs=1e-7)
        assert one["penalty"] == expected["penalty"]
        for key, row in one["advantages"].items():
            assert row == pytest.approx(expected["advantages"][key], rel=1e-5, abs=1e-6)
        for parameter, weights in expected["weights"].items():
            assert one["weights"][parameter] == pytest.approx(weights, rel=1e-5, abs=1e-5)


def test_weights_of_two_types_are_updated_together(found: Found) -> None:
    expected = ["torch.bfloat16 True", "torch.float32 True", "torch.float32 True"]
    assert found[0]["mixed types"] == expected == found[1]["mixed types"]


def test_where_no_process_has_anything_to_learn_both_pass_over_the_update(found: Found) -> None:
    assert [one["nothing"] for one in found[:2]] == [[None, 0.5]] * 2


def test_too_many_unjudged_on_one_process_stop_both(found: Found) -> None:
    first, second = (one["unjudged"] for one in found[:2])
    assert first == second
    assert "1 of 4 responses" in first


def test_when_one_process_dies_the_other_does_not_wait_for_ever(found: Found) -> None:
    assert (found[2] / "noticed").is_file()


def test_this_process_is_alone() -> None:
    """Or the comparisons above would compare two with two."""
    assert PartialState().num_processes == 1
