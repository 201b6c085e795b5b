"""The guard: a run whose reward can be had without solving anything, and a true verifier that only watches."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_runs import DEBUG, offered, reset_accelerate, silent

from reasonrl import Problem, ReasonRLError, Response, Verdict, Verifier, config, store
from reasonrl.config import GuardConfig
from reasonrl.plugins import installed
from reasonrl.trainers import run
from reasonrl.trainers.guard import Guard, fall


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


@pytest.fixture(autouse=True)
def _parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for verifier in (Sevens, Digits):
        for name, source in offered(verifier).items():
            monkeypatch.setitem(installed().verifiers, name, source)
    reset_accelerate()
    yield
    reset_accelerate()


def started(folder: Path, console: Any, weight: float = 0, **guard: Any) -> Path:
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
    return run.train(config.load(str(folder / "run.yaml")), console)


@pytest.mark.parametrize("action", ["warn", "stop"])
def test_a_hacked_reward_is_noticed(tmp_path: Path, action: str) -> None:
    console = silent()
    if action == "stop":
        with pytest.raises(ReasonRLError, match=r"guard: step \d+: the reward rises, and what digits says"):
            started(tmp_path, console, action=action)
    else:
        started(tmp_path, console, action=action)
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


def test_the_observer_must_be_there_and_silent(tmp_path: Path) -> None:
    with pytest.raises(ReasonRLError, match="no verifier of the task is named 'math'; there are: digits, sevens"):
        started(tmp_path, silent(), verifier="math")
    with pytest.raises(ReasonRLError, match="digits has weight 1, so it is part of the reward"):
        started(tmp_path, silent(), weight=1)


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


def test_a_run_that_goes_on_knows_what_was(tmp_path: Path) -> None:
    rows = [("warm start", 1, 9, 9), ("grpo", 1, 0.1, 0.8), ("grpo", 2, 0.2, 0.7), ("grpo", 3, 0.0, 0.9)]
    text = "".join(
        json.dumps({"phase": phase, "step": step, "reward": reward, "reward/math": score}) + "\n"
        for phase, step, reward, score in rows
    )
    (tmp_path / "metrics.jsonl").write_text(text)
    given = GuardConfig(verifier="math", drop=0.3, window=1, action="stop")
    guard = Guard(given, "grpo", tmp_path / "metrics.jsonl", silent())
    with pytest.raises(ReasonRLError, match=r"fallen by 0\.400"):
        guard.after_step(3, {"reward": 0.3, "reward/math": 0.4})
