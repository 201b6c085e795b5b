"""What tests of pairs share: rollout files with responses written by hand."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reasonrl import StepReward, Verdict, store
from reasonrl.pairs.candidates import Candidate, Prompt, Source
from reasonrl.types import Problem, Rollout


def rollout_row(
    problem: str,
    sample: int,
    text: str,
    reward: float | None,
    *,
    prompt: Prompt | None = None,
    steps: Sequence[tuple[int, int, float]] = (),
    logprobs: Sequence[float] = (-1.0,),
    tokens: int | None = None,
    cut: bool = False,
) -> dict[str, Any]:
    """A row of a rollout file; right where the reward is 1."""
    ids = tuple(range(len(text) if tokens is None else tokens)) or (0,)
    rollout = Rollout(
        problem_id=problem, sample=sample, prompt_ids=(1,), response_ids=ids, logprobs=tuple(logprobs), text=text,
        finish_reason="length" if cut else "stop", version=2, seed=0,
    )  # fmt: skip
    verdict = Verdict(reward, "given", tuple(StepReward(*step) for step in steps))
    return store.record(
        Problem(problem, f"{problem}?" if prompt is None else prompt, "ref"), rollout, [("exact", "0.3", 1.0, verdict)],
        step=3, temperature=1.0, reward=reward, correct=None if reward is None else reward >= 1, advantage=None,
    )  # fmt: skip


def rollout_file(folder: Path, rows: Sequence[dict[str, Any]], name: str = "rollouts/step-000003.parquet") -> Path:
    """A run's folder with these rows as its rollouts."""
    store.write(folder / name, rows)
    return folder


def candidate(text: str, *, correct: bool, reward: float | None = None, tokens: int | None = None,
              logprob: float = -1.0, sample: int = 0) -> Candidate:  # fmt: skip
    """A response to the problem p."""
    source = Source("run", "model", 1, sample, 1, "exact", "0.3")
    return Candidate(
        "p", "p?", "ref", text, len(text) if tokens is None else tokens, float(correct) if reward is None else reward,
        correct, False, logprob, (), source,
    )  # fmt: skip
