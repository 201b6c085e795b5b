"""The guard: a run whose reward can be had without solving anything, and a true verifier that only watches."""

import itertools
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
import yaml
from cli_in_process import program_of
from resumed_runs import Killed, assert_same, contents, folder_of, killed_at, train
from safetensors.torch import load_file
from small_runs import DEBUG, offered, reset_accelerate, silent
from transformers import AutoModelForCausalLM

from reasonrl import Problem, ReasonRLError, Response, Verdict, Verifier, config, store
from reasonrl.config import GuardConfig, RunConfig
from reasonrl.plugins import installed
from reasonrl.trainers import run
from reasonrl.trainers.guard import Guard, GuardStop, best_step, fall


class Sevens(Verifier):
    """A reward that can be hacked: a share of sevens, whatever the problem was."""

    name = "sevens"
    isolation = "inline"

    def verify(self, problem: Problem, response: Response) -> Verdict:
        return Verdict(response.text.count("7") / max(1, len(response.text)), "counted")


class Digits(Verifier):
    """Stands for what is really wanted: a share of symbols other than 7."""

    name = "digits"
    isolation = "inline"

    def verify(self, problem: Problem, response: Response) -> Verdict:
        return Verdict(1 - response.text.count("7") / max(1, len(response.text)), "counted")


@contextmanager
def hackable() -> Iterator[None]:
    """The verifiers are installed."""
    with patch.dict(installed().verifiers, {**offered(Sevens), **offered(Digits)}):
        reset_accelerate()
        yield
    reset_accelerate()


@pytest.fixture(autouse=True)
def _parts() -> Iterator[None]:
    with hackable():
        yield


def config_of(folder: Path, *overrides: str, weight: float = 0, **guard: Any) -> RunConfig:
    task = {
        "extends": "debug", "name": "hackable", "sampling": {"max_tokens": 6},
        "verifiers": [{"name": "digits", "weight": weight}, {"name": "sevens"}],
    }  # fmt: skip
    (folder / "task.yaml").write_text(yaml.safe_dump(task))
    document = {
        "extends": DEBUG, "task": str(folder / "task.yaml"), "runs": str(folder / "runs"), "warm_start": None,
        "evaluation": {"rows": 1, "samples": 1, "k": [1], "every": 0},
        "guard": {"verifier": "digits", "window": 2} | guard,
        "algorithm": {
            "steps": 14, "problems_per_step": 32, "kl": {"coefficient": 0.0}, "optimizer": {"learning_rate": 0.02},
        },
    }  # fmt: skip
    (folder / "run.yaml").write_text(yaml.safe_dump(document))
    return config.load(str(folder / "run.yaml"), overrides)


ALL_KEPT = ("checkpoint.every=1", "checkpoint.keep=20")


@pytest.mark.parametrize("action", ["warn", "stop"])
def test_a_hacked_reward_is_noticed(tmp_path: Path, action: str) -> None:
    console = silent()
    wanted = config_of(tmp_path, action=action)
    if action == "stop":
        with pytest.raises(GuardStop, match=r"guard: step \d+: the reward rises, and what digits says"):
            run.train(wanted, console)
    else:
        run.train(wanted, console)
    assert console.file.getvalue().count("guard: step") == 1  # type: ignore[attr-defined]
    [folder] = (tmp_path / "runs").iterdir()
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    steps = len(lines)
    assert (steps == 14) == (action == "warn")
    for line in lines:
        assert line["reward"] == pytest.approx(line["reward/sevens"]), "the observer is no part of the reward"
        assert line["reward/digits"] == pytest.approx(1 - line["reward/sevens"])
    assert lines[-1]["reward/digits"] < lines[0]["reward/digits"] - 0.1
    assert lines[-1]["reward"] > lines[0]["reward"]
    assert (folder / "final" / "model.safetensors").is_file(), "what it came to is kept"
    [after, *_] = store.read(folder / "eval" / "after.parquet")
    assert after["step"] == steps
    for row in store.read(folder / "rollouts" / f"step-{steps:06d}.parquet"):
        assert row["reward"] == pytest.approx(row["verdicts"][1]["reward"])


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, str]:
    """A folder with a run that its guard has stopped, all checkpoints kept; the last step, and what was said."""
    folder = tmp_path_factory.mktemp("stopped")
    with hackable(), pytest.raises(GuardStop) as caught:
        train(config_of(folder, *ALL_KEPT, action="stop"))
    return folder, caught.value.step, str(caught.value)


def test_a_run_that_is_stopped_leaves_what_a_run_leaves(stopped: tuple[Path, int, str]) -> None:
    """`final/` is the policy of the last step; the checkpoint that is named is where the observer was best."""
    parent, step, said = stopped
    folder = parent / "runs" / "debug-grpo"
    kept = load_file(folder / "checkpoints" / f"grpo-{step:06d}" / "policy.safetensors")
    final = AutoModelForCausalLM.from_pretrained(folder / "final")
    for name, parameter in final.named_parameters():
        assert torch.equal(parameter, kept[name]), name
    assert {row["step"] for row in store.read(folder / "eval" / "after.parquet")} == {step}
    assert (folder / "eval" / "after.json").exists()
    scores = [line["reward/digits"] for line in contents(folder)["metrics.jsonl"]]
    assert len(scores) == step < 14
    means = [sum(pair) for pair in itertools.pairwise(scores)]
    best = 1 + means.index(max(means))
    assert f"stopped after step {step}; final/ is the policy of then. It was best about step {best}" in said
    assert f"the checkpoint grpo-{best:06d} is the nearest" in said
    assert f"reasonrl train {folder} --resume guard.action=warn" in said


def test_it_goes_on_all_the_same_if_the_guard_is_to_warn(stopped: tuple[Path, int, str], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(stopped[0] / "runs" / "debug-grpo", tmp_path / "run"))
    wanted = config_of(stopped[0], *ALL_KEPT, f"runs={tmp_path}", action="warn")
    expected = train(wanted)
    assert_same(train(wanted, folder), expected)
    assert len(contents(folder)["metrics.jsonl"]) == 14


def test_resumed_it_is_stopped_where_it_was(stopped: tuple[Path, int, str], tmp_path: Path) -> None:
    """After it has ended, and after it was killed with its last checkpoint written and no model."""
    whole = stopped[0] / "runs" / "debug-grpo"
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    shutil.rmtree(folder / "final")
    for path in folder.glob("eval/after.*"):
        path.unlink()
    for _ in range(2):
        with pytest.raises(GuardStop) as caught:
            train(config_of(stopped[0], *ALL_KEPT, action="stop"), folder)
        assert caught.value.step == stopped[1]
        assert_same(folder, whole)


def test_the_command_fails_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With few checkpoints kept, none of which is an earlier one."""
    config_of(tmp_path, action="stop")
    ended = program_of(monkeypatch, capsys)("train", str(tmp_path / "run.yaml"), "checkpoint.every=0")
    assert ended.code == 2
    assert "error: guard: step" in ended.err
    assert "no earlier checkpoint is kept; checkpoint.best=reward/digits keeps one" in ended.err
    assert "held-out problems" in ended.out, "the table"
    folder = tmp_path / "runs" / "debug-grpo"
    last = len(contents(folder)["metrics.jsonl"])
    assert [path.name for path in (folder / "checkpoints").iterdir()] == [f"grpo-{last:06d}"]


def test_a_supervised_warm_start_is_not_watched(tmp_path: Path) -> None:
    warm = "warm_start={steps: 2, batch_size: 2}"
    wanted = config_of(tmp_path, warm, "algorithm.steps=1", "checkpoint.every=1", window=1)
    with killed_at(2, "warm start"), pytest.raises(Killed):
        train(wanted)
    folder = train(wanted, folder_of(wanted))
    assert [line["phase"] for line in contents(folder)["metrics.jsonl"]] == ["warm start", "warm start", "grpo"]


def test_the_observer_must_be_there_and_silent(tmp_path: Path) -> None:
    with pytest.raises(ReasonRLError, match="no verifier of the task is named 'math'; there are: digits, sevens"):
        train(config_of(tmp_path, verifier="math"))
    with pytest.raises(ReasonRLError, match="digits has weight 1, so it is part of the reward"):
        train(config_of(tmp_path, weight=1))


@pytest.mark.parametrize(
    ("rewards", "observed", "window", "expected"),
    [
        ([0.1, 0.2, 0.3], [0.5, 0.6, 0.3], 1, 0.3),
        ([0.1, 0.4, 0.3], [0.5, 0.6, 0.3], 1, 0.0),  # the reward has fallen, too
        ([0.1, 0.2, 0.3], [0.5, 0.6, 0.3], 2, 0.1),  # means 0.55, 0.45
        ([0.1, 0.2], [0.5, 0.1], 3, 0.0),
        ([0.1, 0.2, 0.3], [0.1, 0.2, 0.3], 1, 0.0),
    ],
)
def test_the_fall_by_hand(rewards: list[float], observed: list[float], window: int, expected: float) -> None:
    assert fall(rewards, observed, window) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("observed", "window", "step"), [([0.5, 0.6, 0.3], 1, 2), ([0.5, 0.6, 0.3], 2, 1), ([0.1, 0.5, 0.6, 0.5], 3, 3)]
)
def test_the_best_step_by_hand(observed: list[float], window: int, step: int) -> None:
    assert best_step(observed, window) == step


def test_a_run_that_goes_on_knows_what_was(tmp_path: Path) -> None:
    rows = [("warm start", 1, 9, 9), ("grpo", 1, 0.1, 0.8), ("grpo", 2, 0.2, 0.7), ("grpo", 3, 0.0, 0.9)]
    text = "".join(
        json.dumps({"phase": phase, "step": step, "reward": reward, "reward/math": score}) + "\n"
        for phase, step, reward, score in rows
    )
    (tmp_path / "metrics.jsonl").write_text(text)
    given = GuardConfig(verifier="math", drop=0.3, window=1, action="stop")
    guard = Guard(given, "grpo", tmp_path / "metrics.jsonl", silent())
    assert guard.resumed(2) is None
    found = guard.after_step(3, {"reward": 0.3, "reward/math": 0.4})
    assert found is not None
    assert "fallen by 0.400" in found.text
    assert found.best == 1
