"""PPO with a reward model as its reward and the true verifier beside it: what is stored is what the model says."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from reward_models import saved, tokenizer
from small_runs import DEBUG, reset_accelerate, silent
from transformers import AutoModelForCausalLM

from reasonrl import ReasonRLError, config, store
from reasonrl.trainers import run


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    reset_accelerate()
    yield
    reset_accelerate()


def likes_seven(folder: Path) -> Any:
    """A reward model whose score is √H if the text ends with a 7, and else 0: its layers add nothing."""
    model = saved(folder)
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
    embeddings = model.model.embed_tokens.weight
    embeddings[:, 0] = 0
    embeddings[tokenizer()("7")["input_ids"][0]] = torch.eye(len(embeddings[0]))[0]
    model.score.weight.copy_(torch.eye(len(embeddings[0]))[:1])
    model.save_pretrained(folder)
    return model


def ppo(tmp_path: Path, *settings: str) -> Path:
    task = {
        "extends": "debug", "name": "sevens", "sampling": {"max_tokens": 3},
        "verifiers": [
            {"name": "arithmetic_steps", "weight": 0, "options": {"answer": ":"}},
            {"name": "reward_model", "options": {"model": str(tmp_path / "rm"), "device": "cpu", "std": math.sqrt(24)}},
        ],
    }  # fmt: skip
    (tmp_path / "sevens.yaml").write_text(yaml.safe_dump(task))
    document = {
        "extends": DEBUG, "task": str(tmp_path / "sevens.yaml"), "runs": str(tmp_path / "runs"), "warm_start": None,
        "evaluation": {"rows": 1, "samples": 1, "k": [1], "every": 0},
        "algorithm": {
            "name": "ppo", "steps": 8, "problems_per_step": 64, "epochs": 2, "optimizer": {"learning_rate": 0.01},
            "critic": {"optimizer": {"learning_rate": 0.01}},
        },
    }  # fmt: skip
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(document))
    return run.train(config.load(str(tmp_path / "run.yaml"), settings), silent())


def test_ppo_learns_what_the_reward_model_likes(tmp_path: Path) -> None:
    model = likes_seven(tmp_path / "rm")
    folder = ppo(tmp_path)
    rows = [row for path in sorted((folder / "rollouts").glob("*.parquet")) for row in store.read(path)]
    assert len(rows) == 8 * 64
    words = tokenizer()
    for row in rows[::40]:
        ids = torch.tensor([words(row["prompt"] + row["response"])["input_ids"]])
        said = float(model(input_ids=ids).logits[0, 0]) / math.sqrt(24)
        assert said == pytest.approx(float(row["response"].endswith("7")), abs=1e-4)
        assert row["reward"] == pytest.approx(said, abs=1e-4)
        assert [one["verifier"] for one in row["verdicts"]] == ["arithmetic_steps", "reward_model"]
        assert row["correct"] == (row["verdicts"][0]["reward"] == 1)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rewards = [line["reward"] for line in lines]
    assert rewards[0] == pytest.approx(sum(row["reward"] for row in rows[:64]) / 64, abs=1e-6)
    assert sum(rewards[:3]) / 3 < 0.2
    assert sum(rewards[-3:]) / 3 > 0.6


def test_a_run_with_an_untrained_reward_model_does_not_begin(tmp_path: Path) -> None:
    saved(tmp_path / "rm", auto=AutoModelForCausalLM)
    with pytest.raises(ReasonRLError, match=r"verifier reward_model: model: .* without score.weight"):
        ppo(tmp_path, "algorithm.steps=1")
    assert not (tmp_path / "runs").exists()
