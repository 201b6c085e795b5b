"""GRPO with process supervision by a process reward model: what is stored and trained on is what the model says."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import yaml
from reward_models import saved, tokenizer
from small_runs import DEBUG, reset_accelerate, silent
from transformers import AutoModelForTokenClassification

from reasonrl import config, store
from reasonrl.trainers import run


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    reset_accelerate()
    yield
    reset_accelerate()


def test_a_process_reward_model_supervises_steps(tmp_path: Path) -> None:
    model, words = saved(tmp_path / "prm", auto=AutoModelForTokenClassification, num_labels=2), tokenizer()
    options = {"model": str(tmp_path / "prm"), "convention": "token_classification", "device": "cpu"}
    options |= {"steps": "separator", "separator": ",", "reduction": "mean"}
    task = {"extends": "debug", "name": "steps", "verifiers": [
        {"name": "arithmetic_steps", "weight": 0, "options": {"answer": ":"}}, {"name": "prm", "options": options},
    ]}  # fmt: skip
    (tmp_path / "task.yaml").write_text(yaml.safe_dump(task))
    document = {
        "extends": DEBUG, "task": str(tmp_path / "task.yaml"), "runs": str(tmp_path / "runs"), "warm_start": None,
        "evaluation": {"rows": 1, "samples": 1, "k": [1], "every": 0},
        "algorithm": {"steps": 1, "process": {"steps": "verifier"}},
    }  # fmt: skip
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(document))
    folder = run.train(config.load(str(tmp_path / "run.yaml"), []), silent())
    rows = store.read(folder / "rollouts" / "step-000001.parquet")
    several = 0
    for row in rows:
        steps = row["verdicts"][1]["steps"]
        ids = list(words(row["prompt"])["input_ids"])
        for step in steps:
            ids += words(row["response"][step["start"] : step["end"]] + "\n")["input_ids"]
            good = model(input_ids=torch.tensor([ids])).logits[0, -1].softmax(-1)[1]
            assert step["reward"] == pytest.approx(float(good), abs=1e-4)
        if steps:
            assert row["reward"] == pytest.approx(sum(step["reward"] for step in steps) / len(steps), abs=1e-6)
        several += len(steps) > 1
    assert several > 3
    assert any(row["advantage"] for row in rows)
