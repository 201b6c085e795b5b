"""`configs/tiny_code.yaml`, cut to a minute: a model learns to write functions, the sandbox judges, GRPO goes on."""

import json
from pathlib import Path
from typing import Any

import pytest
from sandboxes import needs_sandbox
from small_runs import reset_accelerate, silent

from reasonrl import config, store
from reasonrl.trainers import run

STEPS = 2
SMALLER = (
    "model.tiny.hidden_size=96", "model.tiny.intermediate_size=160", "model.tiny.layers=2", "model.tiny.heads=4",
    "warm_start.steps=70", "warm_start.batch_size=16", f"algorithm.steps={STEPS}", "algorithm.problems_per_step=4",
    "evaluation.rows=4", "evaluation.samples=1", "evaluation.k=[1]", "threads=1", "engine=huggingface",
)  # fmt: skip


@needs_sandbox
@pytest.mark.timeout(300)
def test_programs_of_a_run_are_judged_in_the_sandbox(tmp_path: Path) -> None:
    reset_accelerate()
    folder = run.train(config.load("tiny_code", [f"runs={tmp_path}", *SMALLER]), silent())
    rows: list[dict[str, Any]] = [row for path in sorted((folder / "rollouts").iterdir()) for row in store.read(path)]
    assert len(rows) == STEPS * 4 * 8
    judged = [json.loads(row["evidence"]) for row in rows if row["reason"] != "no_answer"]
    assert len(judged) > len(rows) / 4  # it writes programs by now
    assert {evidence["tier"] for evidence in judged} <= {"bwrap-pool", "bwrap"}
    assert any(evidence["run"] > 0 and evidence["memory"] > 0 for evidence in judged)
    assert "infra" not in {row["reason"] for row in rows}
    for name in ("before", "after"):
        report = json.loads((folder / "eval" / f"{name}.json").read_text())
        assert (report["greedy"]["judged"], report["greedy"]["unjudged"]) == (4, 0)
