"""Stored responses, as pairs and demonstrations are chosen from them."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from reasonrl.errors import ReasonRLError
from reasonrl.types import Message
from reasonrl.verifier import StepReward

Prompt = str | tuple[Message, ...]
_COLUMNS = (
    "step", "problem_id", "sample", "prompt", "response", "reference", "response_tokens", "finish_reason", "reward",
    "correct", "verifier", "verifier_version", "verdicts", "policy_version",
)  # fmt: skip
SAMPLED = "sampled.json"  # beside rollouts that were sampled for pairs: task, model, seed
_CURE = "give Parquet files of rollouts, or the folder of a run or an evaluation (runs/NAME)"


@dataclass(frozen=True)
class Source:
    """Where a response comes from.

    Attributes:
        run: the folder of the run or evaluation.
        model: what the run trained or evaluated, by its config or report; empty where there is neither.
        step, sample: the training step (0: before training), and which response to its problem.
        policy_version: how many syncs of the weights to the sampler there had been.
        verifier, verifier_version: the judge.
    """

    run: str
    model: str
    step: int
    sample: int
    policy_version: int
    verifier: str
    verifier_version: str


@dataclass(frozen=True)
class Candidate:
    """A stored response that could be judged.

    Attributes:
        problem_id, prompt, reference: its problem.
        text, tokens: the response, and its length.
        reward, correct: the weighted sum of its verifiers' rewards; is it right, by the judge?
        truncated: was it cut at the token limit?
        logprob: mean log-probability of its tokens when it was sampled; NaN where that was not stored, or not read.
        steps: the spans that a verifier rewards, those of the first verifier that has any.
        source: where it comes from.
    """

    problem_id: str
    prompt: Prompt
    reference: str | None
    text: str
    tokens: int
    reward: float
    correct: bool
    truncated: bool
    logprob: float
    steps: tuple[StepReward, ...]
    source: Source


@dataclass
class Problems:
    """Responses by problem, in the order in which problems were met; one asked in several steps or runs is one problem.

    Attributes:
        groups: the candidates of each problem.
        responses, unjudged: how many responses there were, and how many of them nobody could judge.
    """

    groups: list[list[Candidate]]
    responses: int
    unjudged: int


def rollout_files(paths: Sequence[Path]) -> list[Path]:
    """The rollout files that are meant: of a run its training steps, not its evaluations, which are held-out problems.

    Raises:
        ReasonRLError: there is no such path, or no rollouts in it.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_file():
            found.append(path)
            continue
        if not path.is_dir():
            raise ReasonRLError(f"there is no file or folder {path}; {_CURE}")
        places = ("rollouts/*.parquet", "rollouts.parquet", "*.parquet")
        inside = next((files for place in places if (files := sorted(path.glob(place)))), None)
        if inside is None:
            raise ReasonRLError(f"{path}: there are no rollouts in this folder; {_CURE}")
        found += inside
    return list(dict.fromkeys(found))


def read_problems(files: Sequence[Path], *, logprobs: bool = False) -> Problems:
    """All responses of rollout files (`rollout_files`), by problem.

    Args:
        files: as `reasonrl.store` writes them.
        logprobs: also read the log-probabilities of their tokens.

    Raises:
        ReasonRLError: a file holds no rollouts, or no log-probabilities where these are asked for.
    """
    groups: dict[tuple[str, str | None], list[Candidate]] = {}
    problems = Problems([], 0, 0)
    for file in files:
        for row in _rows(file, logprobs):
            problems.responses += 1
            if row["correct"] is None or row["reward"] is None:
                problems.unjudged += 1
            else:
                groups.setdefault((row["prompt"], row["reference"]), []).append(_candidate(row, file))
    problems.groups = list(groups.values())
    return problems


def _rows(file: Path, logprobs: bool) -> Iterator[dict[str, Any]]:
    columns = [*_COLUMNS, *["logprobs"] * logprobs]
    try:
        with pq.ParquetFile(file) as data:
            if missing := [name for name in columns if name not in data.schema_arrow.names]:
                raise ReasonRLError(f"{file}: holds no rollouts, its column {missing[0]!r} is missing; {_CURE}")
            for batch in data.iter_batches(columns=columns):
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise ReasonRLError(f"{file}: cannot be read as Parquet: {error}; {_CURE}") from None


def _candidate(row: dict[str, Any], file: Path) -> Candidate:
    logprobs = row.get("logprobs") or ()
    return Candidate(
        problem_id=row["problem_id"],
        prompt=stored_prompt(row["prompt"]),
        reference=row["reference"],
        text=row["response"],
        tokens=row["response_tokens"],
        reward=row["reward"],
        correct=row["correct"],
        truncated=row["finish_reason"] == "length",
        logprob=math.fsum(logprobs) / len(logprobs) if logprobs else math.nan,
        steps=_steps(row["verdicts"]),
        source=Source(
            *run_of(file),
            row["step"],
            row["sample"],
            row["policy_version"],
            row["verifier"],
            row["verifier_version"],
        ),
    )


def _steps(verdicts: Sequence[dict[str, Any]]) -> tuple[StepReward, ...]:
    found = next((verdict["steps"] for verdict in verdicts if verdict["steps"]), ())
    return tuple(StepReward(step["start"], step["end"], step["reward"]) for step in found)


def stored_prompt(text: str) -> Prompt:
    """A prompt as `store.record` writes it: chat messages are JSON."""
    if text.startswith('[{"'):
        try:
            messages = json.loads(text)
        except json.JSONDecodeError:
            return text
        if all(isinstance(one, dict) and one.keys() == {"role", "content"} for one in messages):
            return tuple(messages)
    return text


@cache
def run_of(file: Path) -> tuple[str, str]:
    """The folder of the run or evaluation that a rollout file belongs to, and its model."""
    for folder in (file.parent, file.parent.parent):
        if (config := folder / "config.yaml").is_file():
            model = yaml.safe_load(config.read_text(encoding="utf-8")).get("model", {})
            return str(folder), model.get("path") or "tiny"
        for name in ("report.json", SAMPLED):
            if (report := folder / name).is_file():
                return str(folder), json.loads(report.read_text(encoding="utf-8")).get("model", "")
    return str(file.parent), ""
