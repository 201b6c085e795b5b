"""Whole runs of PPO: the metrics they leave behind, what a warm-up and an early stop do, and that they learn."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from small_runs import DEBUG, offered, reset_accelerate, silent, weights_of
from torch import Tensor
from typer.testing import CliRunner

from reasonrl import Problem, ReasonRLError, Response, Verdict, Verifier, config
from reasonrl.cli.main import app
from reasonrl.models.critic import CriticModule
from reasonrl.plugins import installed
from reasonrl.trainers import run
from reasonrl.trainers.ppo import PPO, train_ppo

TARGET, HORIZON, PENALTY_TARGET = 0.02, 40, 0.01
PPO_YAML = f"""\
extends: {DEBUG}
name: debug-ppo
warm_start: null
evaluation: {{rows: 2, samples: 1, k: [1], every: 0}}
algorithm:
  name: ppo
  steps: 3
  problems_per_step: 4
  group_size: 2
  epochs: 2
  minibatches: 2
  target_kl: 1.0
  process_weight: 0.1
  entropy_bonus: 0.01
  kl: {{coefficient: 0.05, target: {TARGET}, horizon: {HORIZON}}}
  optimizer: {{learning_rate: 3.0e-3}}
  critic: {{optimizer: {{learning_rate: 3.0e-3}}}}
"""
FINITE = {
    "value_loss", "value_clip_fraction", "value_mean", "explained_variance", "critic_grad_norm",
    "critic_skipped_updates", "stopped_updates",
    "approx_kl", "clip_fraction", "kl", "kl_coefficient", "entropy", "policy_loss", "grad_norm", "updates",
    "skipped_updates", "learning_rate", "reward", "step_reward", "steps",
}  # fmt: skip


def metrics(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["phase"] == "ppo"]


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    reset_accelerate()
    yield
    reset_accelerate()


@pytest.fixture
def ppo_yaml(tmp_path: Path) -> str:
    path = tmp_path / "ppo.yaml"
    path.write_text(PPO_YAML + f"runs: {tmp_path / 'runs'}\n")
    return str(path)


def ziegler(line: dict[str, Any]) -> float:
    error = min(max(line["kl"] / TARGET - 1, -0.2), 0.2)
    return float(line["kl_coefficient"] * (1 + error * 8 / HORIZON))


@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_the_command_trains_and_every_number_is_there_and_finite(ppo_yaml: str, tmp_path: Path, shared: bool) -> None:
    arguments = ["train", ppo_yaml, f"algorithm.critic.shared={str(shared).lower()}"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    lines = metrics(tmp_path / "runs" / "debug-ppo")
    assert [line["step"] for line in lines] == [1, 2, 3]
    for line in lines:
        assert FINITE - ({"critic_grad_norm", "critic_skipped_updates"} if shared else set()) <= line.keys()
        assert ("critic_grad_norm" in line) == (not shared)
        assert all(math.isfinite(value) for value in line.values() if not isinstance(value, str))
        assert (line["updates"], line["stopped_updates"]) == (4, 0)
        assert line["grad_norm"] > 0
        assert line["value_loss"] > 0
        assert line["explained_variance"] <= 1
        assert shared or line["critic_grad_norm"] > 0
    assert lines[0]["explained_variance"] == pytest.approx(0, abs=1e-9), "a new critic says 0 everywhere"
    assert lines[0]["kl_coefficient"] == 0.05
    for line, following in pairwise(lines):
        assert following["kl_coefficient"] == pytest.approx(ziegler(line))


def test_the_penalty_adapts_from_step_to_step_but_not_while_the_critic_warms_up(ppo_yaml: str) -> None:
    penalty = f"algorithm.penalty={{coefficient: 0.5, target: {PENALTY_TARGET}}}"
    settings = ["algorithm.loss=penalty", "algorithm.steps=5", "algorithm.critic.warmup_steps=2", penalty]
    lines = metrics(run.train(config.load(ppo_yaml, settings), silent()))
    assert [line["updates"] for line in lines] == [0, 0, 4, 4, 4]
    assert [line["penalty_kl"] for line in lines[:2]] == pytest.approx([0, 0], abs=1e-9)
    assert [line["penalty_coefficient"] for line in lines[:3]] == [0.5] * 3
    for line, following in pairwise(lines[2:]):
        kl = line["penalty_kl"]
        assert kl > 0
        factor = 0.5 if kl < PENALTY_TARGET / 1.5 else 2.0 if kl > 1.5 * PENALTY_TARGET else 1.0
        assert following["penalty_coefficient"] == pytest.approx(factor * line["penalty_coefficient"])
    assert lines[4]["penalty_coefficient"] != 0.5


# --- what is trained when --------------------------------------------------------------------------------------------


class Recorded:
    """Stands for `train_ppo`: keeps the run, and the weights of policy and critic before it and after each step."""

    def __init__(self) -> None:
        self.policy: list[dict[str, Tensor]] = []
        self.critic: list[dict[str, Tensor]] = []

    def __call__(self, ppo: PPO, done: int) -> None:
        self.ppo = replace(ppo, run=replace(ppo.run, after_step=self.keep))
        self.keep(0)
        train_ppo(self.ppo, done)

    def keep(self, step: int) -> None:
        self.policy.append(weights_of(self.ppo.run.policy.model))
        self.critic.append(weights_of(CriticModule(self.ppo.critic)))


def recorded(monkeypatch: pytest.MonkeyPatch, wanted: config.RunConfig) -> tuple[Recorded, list[dict[str, Any]]]:
    record = Recorded()
    monkeypatch.setattr(run, "train_ppo", record)
    return record, metrics(run.train(wanted, silent()))


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return all(torch.equal(first[name], second[name]) for name in second)


def test_while_the_critic_warms_up_the_policy_stays_bit_for_bit(ppo_yaml: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decaying = "algorithm.optimizer.weight_decay=0.1"
    record, lines = recorded(monkeypatch, config.load(ppo_yaml, ["algorithm.critic.warmup_steps=2", decaying]))
    assert [same(before, after) for before, after in pairwise(record.policy)] == [True, True, False]
    assert [same(before, after) for before, after in pairwise(record.critic)] == [False, False, False]
    assert [line["updates"] for line in lines] == [0, 0, 4]
    assert [line["kl_coefficient"] for line in lines] == [0.05] * 3, "no KL was measured that could move it"
    assert all(line["critic_grad_norm"] > 0 for line in lines)
    assert all(line["policy_version"] == step for step, line in enumerate(lines))


def test_the_critic_goes_on_where_the_policy_stops(ppo_yaml: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record, lines = recorded(monkeypatch, config.load(ppo_yaml, ["algorithm.target_kl=1e-9", "algorithm.steps=2"]))
    assert [(line["updates"], line["stopped_updates"]) for line in lines] == [(1, 3), (1, 3)]
    assert record.ppo.critic_session is not None
    for session, applied in ((record.ppo.run.session, 2), (record.ppo.critic_session, 8)):
        assert session.done == 8
        assert {int(state["step"]) for state in session.optimizer.state.values()} == {applied}


def test_lora_trains_adapters_of_policy_and_critic_and_leaves_the_base(
    ppo_yaml: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ["model.lora.rank=2", "algorithm.steps=2", "algorithm.optimizer.learning_rate=0.02"]
    record, lines = recorded(monkeypatch, config.load(ppo_yaml, settings))
    assert all(line["critic_grad_norm"] > 0 < line["grad_norm"] for line in lines)
    for weights in (record.policy, record.critic):
        for name in weights[0]:
            trained = "lora_" in name or name.startswith("head")
            assert torch.equal(weights[0][name], weights[-1][name]) == (not trained), name
    frozen = [p for p in record.ppo.critic.model.parameters() if not p.requires_grad]
    theirs = {id(p) for p in record.ppo.run.policy.model.parameters()}
    assert frozen
    assert all(id(p) in theirs for p in frozen)


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ["algorithm.critic.shared=true", "algorithm.critic.path=some/model"],
            "a shared critic has the policy's trunk",
        ),
        (["algorithm.critic.shared=true", "algorithm.critic.warmup_steps=1"], "there is no critic alone to train"),
    ],
)
def test_what_a_shared_critic_cannot_have_is_refused(ppo_yaml: str, settings: list[str], message: str) -> None:
    with pytest.raises(ReasonRLError, match=message):
        config.load(ppo_yaml, settings)
    for one in settings:
        config.load(ppo_yaml, [one])


# --- it learns, as with a clipped ratio in test_learning.py -----------------------------------------------------------


class Sevens(Verifier):
    """The share of sevens among a response's characters: easy to learn."""

    name = "sevens"
    isolation = "inline"

    def verify(self, problem: Problem, response: Response) -> Verdict:
        return Verdict(response.text.count("7") / max(1, response.tokens), "counted")


@pytest.mark.parametrize(
    "settings",
    [["algorithm.loss=penalty", "algorithm.penalty.target=0.1"], ["algorithm.critic.shared=true"]],
    ids=["penalty", "shared"],
)
def test_a_short_run_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: list[str]) -> None:
    monkeypatch.setitem(installed().verifiers, "sevens", offered(Sevens)["sevens"])
    task = {
        "name": "sevens", "generator": {"name": "arithmetic", "options": {"digits": 1, "eval_rows": 10}},
        "prompt": {"template": "{{ question }}"}, "verifiers": [{"name": "sevens"}], "sampling": {"max_tokens": 6},
    }  # fmt: skip
    (tmp_path / "sevens.yaml").write_text(yaml.safe_dump(task))
    document = {
        "extends": DEBUG, "task": str(tmp_path / "sevens.yaml"), "runs": str(tmp_path / "runs"), "warm_start": None,
        "evaluation": {"rows": 1, "samples": 1, "k": [1], "every": 0},
        "algorithm": {
            "name": "ppo", "steps": 12, "problems_per_step": 32, "epochs": 2, "optimizer": {"learning_rate": 0.01},
            "critic": {"optimizer": {"learning_rate": 0.01}},
        },
    }  # fmt: skip
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(document))
    folder = run.train(config.load(str(tmp_path / "run.yaml"), settings), silent())
    rewards = [line["reward"] for line in metrics(folder)]
    assert sum(rewards[:3]) / 3 < 0.2
    assert sum(rewards[-3:]) / 3 > 0.6
