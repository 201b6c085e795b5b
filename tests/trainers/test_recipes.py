"""Each recipe from its first stage to its last, a few steps each: one stage's folder is the next one's input."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_in_process import Program, program_of
from small_runs import ROOT, reset_accelerate
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification

from reasonrl import ReasonRLError, config, store
from reasonrl.config import RunConfig

RECIPES = ROOT / "configs" / "recipes"
SMALL = ("threads=1", "evaluation.rows=4", "evaluation.samples=1", "evaluation.k=[1]")
WARM = ("model.tiny.hidden_size=32", "model.tiny.intermediate_size=48", "model.tiny.layers=1", "model.tiny.heads=2")


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Iterator[Program]:
    monkeypatch.chdir(tmp_path)
    reset_accelerate()
    yield program_of(monkeypatch, capsys)
    reset_accelerate()


def stage(program: Program, name: str, *settings: str) -> None:
    ended = program("train", str(RECIPES / f"{name}.yaml"), *settings)
    assert ended.code == 0, ended.err


def lines(folder: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [json.loads(line) for line in Path(folder, "metrics.jsonl").read_text().splitlines()]
    return found


def test_rlhf(program: Program) -> None:
    stage(program, "rlhf_1_sft", *SMALL, *WARM, "algorithm.steps=2")
    # So short a start gets nothing right: pairs by a graded reward are stood in for by pairs of a file.
    pairs = [{"prompt": f"1{n}+11=", "chosen": f"1+{n}=2,1+1=2:2{n}", "rejected": f":{n}"} for n in range(8)]
    Path("pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    stage(
        program, "rlhf_2_reward_model", "threads=1", "algorithm.pairs=[pairs.jsonl]", "algorithm.steps=3",
        "algorithm.batch_size=4", "algorithm.held_out=0.25",
    )  # fmt: skip
    made = AutoModelForSequenceClassification.from_pretrained("runs/rlhf-2-reward-model/final")
    assert made.config.num_labels == 1
    report = json.loads(Path("runs/rlhf-2-reward-model/eval/after.json").read_text())
    assert report["pairs"] == 2
    stage(program, "rlhf_3_ppo", *SMALL, "algorithm.steps=2", "algorithm.problems_per_step=4")
    rows = store.read(Path("runs/rlhf-3-ppo/rollouts/step-000002.parquet"))
    for row in rows:
        watched, learned = row["verdicts"]
        assert (watched["verifier"], watched["weight"]) == ("arithmetic_steps", 0)
        assert row["reward"] == learned["reward"] == json.loads(learned["evidence"])["score"]
        assert row["correct"] == (watched["reward"] == 1)
    for line in lines("runs/rlhf-3-ppo"):
        assert line["reward"] == pytest.approx(line["reward/reward_model"])
        assert line["reward/arithmetic_steps"] == line["pass_rate"]
    assert Path("runs/rlhf-3-ppo/final/model.safetensors").is_file()


def test_reasoning(program: Program) -> None:
    stage(
        program, "reasoning_1_rollouts", *SMALL, *WARM, "warm_start.steps=20", "algorithm.steps=2",
        "algorithm.problems_per_step=4", "algorithm.group_size=2",
    )  # fmt: skip
    ended = program(
        "build", "steps", "runs/reasoning-1-rollouts", "-o", "runs/reasoning-steps.parquet", "--task", "arithmetic",
        "--model", "runs/reasoning-1-rollouts/final", "-n", "2", "--steps", "separator", "--separator", "(?<=[,:])",
        "--max-tokens", "8",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    stage(
        program, "reasoning_2_prm", "threads=1", "algorithm.steps=2", "algorithm.batch_size=4", "algorithm.held_out=0.4"
    )
    made = AutoModelForTokenClassification.from_pretrained("runs/reasoning-2-prm/final")
    assert made.config.num_labels == 2
    stage(
        program, "reasoning_3_grpo", *SMALL, "algorithm.steps=2", "algorithm.problems_per_step=4",
        "algorithm.group_size=2",
    )  # fmt: skip
    rows = store.read(Path("runs/reasoning-3-grpo/rollouts/step-000002.parquet"))
    rewarded = [row for row in rows if row["verdicts"][1]["steps"]]
    assert rewarded
    for row in rewarded:
        steps = [step["reward"] for step in row["verdicts"][1]["steps"]]
        assert all(0 < reward < 1 for reward in steps)
        assert row["reward"] == pytest.approx(min(steps))
    assert all(line["steps"] > 0 for line in lines("runs/reasoning-3-grpo"))


SCORER: dict[str, Any] = {
    "name": "x", "model": {"path": "m"},
    "algorithm": {"name": "reward_model", "pairs": "p.jsonl", "steps": 1, "batch_size": 1},
}  # fmt: skip


@pytest.mark.parametrize("key", ["task", "warm_start", "evaluation", "guard"])
def test_a_reward_model_has_no_task_and_nothing_of_one(key: str) -> None:
    values = {"task": "gsm8k", "warm_start": {"steps": 1, "batch_size": 1}, "evaluation": {"rows": 3}}
    given = SCORER | {key: values.get(key, {"verifier": "math"})}
    with pytest.raises(ValueError, match=f"learns from files alone and does not read '{key}'; leave it out"):
        RunConfig.model_validate(given)


def test_what_samples_needs_a_task_and_what_does_not_no_guard() -> None:
    sft = SCORER | {"algorithm": {"name": "sft", "steps": 1, "batch_size": 1}}
    with pytest.raises(ValueError, match="algorithm sft needs a task"):
        RunConfig.model_validate(sft)
    with pytest.raises(ValueError, match="guard: algorithm sft samples nothing"):
        RunConfig.model_validate(sft | {"task": "gsm8k", "guard": {"verifier": "math"}})


def test_without_the_stage_before_a_stage_does_not_begin(program: Program) -> None:
    ended = program("train", str(RECIPES / "rlhf_2_reward_model.yaml"))
    assert ended.code == 2
    assert "there is no folder runs/rlhf-1-sft/final" in " ".join(ended.err.split())
    with pytest.raises(ReasonRLError, match="has no task"):
        _ = config.load(str(RECIPES / "rlhf_2_reward_model.yaml")).task_ref
