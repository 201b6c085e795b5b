"""Rollouts and their verdicts on disk: one Parquet file a step, with all that a reader or another tool needs."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from reasonrl import files
from reasonrl.errors import ReasonRLError
from reasonrl.types import Problem, Rollout
from reasonrl.verifier import Verdict

_STEP = pa.struct([("start", pa.int32()), ("end", pa.int32()), ("reward", pa.float64())])
_VERDICT = [
    ("verifier", pa.string()),
    ("verifier_version", pa.string()),
    ("reason", pa.string()),
    ("steps", pa.list_(_STEP)),
    ("evidence", pa.string()),  # JSON: every verifier has its own
]
SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        ("problem_id", pa.string()),
        ("sample", pa.int32()),
        ("prompt", pa.string()),
        ("response", pa.string()),
        ("reference", pa.string()),
        ("metadata", pa.string()),  # JSON
        ("prompt_tokens", pa.int32()),
        ("response_tokens", pa.int32()),
        ("finish_reason", pa.string()),
        ("temperature", pa.float64()),
        ("reward", pa.float64()),  # the weighted sum; null where it could not be judged
        ("correct", pa.bool_()),  # by the first verifier; null where it could not judge
        ("advantage", pa.float64()),
        *_VERDICT,  # of the first verifier, the judge
        ("verdicts", pa.list_(pa.struct([*_VERDICT, ("reward", pa.float64()), ("weight", pa.float64())]))),
        ("prompt_ids", pa.list_(pa.int32())),
        ("response_ids", pa.list_(pa.int32())),
        ("logprobs", pa.list_(pa.float32())),
        ("seed", pa.int64()),
        ("policy_version", pa.int64()),
    ]
)


def record(
    problem: Problem,
    rollout: Rollout,
    verdicts: Sequence[tuple[str, str, float, Verdict]],
    *,
    step: int,
    temperature: float,
    reward: float | None,
    correct: bool | None,
    advantage: float | None,
) -> dict[str, Any]:
    """One row of a rollout file.

    Args:
        problem, rollout: what was asked and what was sampled.
        verdicts: (verifier, its version, weight, verdict), in the task's order; the first is the judge.
        step: the training step; 0 for an evaluation before training.
        temperature: it was sampled at.
        reward, correct, advantage: None where the response could not be judged (or nothing was trained).
    """
    prompt = problem.prompt
    stored = [_stored(name, version, weight, verdict) for name, version, weight, verdict in verdicts]
    judge = {name: value for name, value in stored[0].items() if name not in ("reward", "weight")}
    return {
        "step": step,
        "problem_id": problem.id,
        "sample": rollout.sample,
        "prompt": prompt if isinstance(prompt, str) else json.dumps(prompt, ensure_ascii=False),
        "response": rollout.text,
        "reference": problem.reference,
        "metadata": _json(problem.metadata),
        "prompt_tokens": len(rollout.prompt_ids),
        "response_tokens": len(rollout.response_ids),
        "finish_reason": rollout.finish_reason,
        "temperature": temperature,
        "reward": reward,
        "correct": correct,
        "advantage": advantage,
        **judge,
        "verdicts": stored,
        "prompt_ids": rollout.prompt_ids,
        "response_ids": rollout.response_ids,
        "logprobs": rollout.logprobs,
        "seed": rollout.seed,
        "policy_version": rollout.version,
    }


def write(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Write rows (see `record`) as one Parquet file; it appears whole or not at all.

    Raises:
        ReasonRLError: the disk is full, or may not be written to.
    """
    table = pa.Table.from_pylist([dict(row) for row in records], schema=SCHEMA)
    with files.whole(path) as unfinished:
        pq.write_table(table, unfinished, compression="zstd")


def read(path: Path, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The rows of a rollout file, as `record` made them; of some columns, if they are named.

    Raises:
        ReasonRLError: the file cannot be read, or lacks a column.
    """
    try:
        rows: list[dict[str, Any]] = pq.read_table(path, columns=None if columns is None else list(columns)).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise ReasonRLError(f"{path}: cannot be read as rollouts: {error}") from None
    if rows and columns is not None and (missing := sorted(set(columns) - rows[0].keys())):
        raise ReasonRLError(f"{path}: no rollouts of ours: the columns {', '.join(missing)} are missing")
    return rows


def new_folder(parent: Path, name: str) -> Path:
    """Make the folder parent/name, or parent/name-2, … where earlier ones lie: nothing is ever overwritten.

    Raises:
        ReasonRLError: it cannot be made, or the name would lead to another parent.
    """
    if name in ("", ".", "..") or "/" in name or "\\" in name:
        raise ReasonRLError(f"cannot make a folder named {name!r} in {parent}: the name leads elsewhere")
    number = 1
    while True:
        folder = parent / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
        except OSError as error:
            raise ReasonRLError(f"cannot make the folder {folder}: {error.strerror}") from None
        else:
            return folder


def latest_folder(parent: Path, name: str) -> Path | None:
    """Of the folders that `new_folder` made for a name, the last; None if there is none."""
    numbered = {
        1 if path.name == name else int(path.name.removeprefix(f"{name}-")): path
        for path in (parent.iterdir() if parent.is_dir() else ())
        if path.is_dir() and re.fullmatch(rf"{re.escape(name)}(-[1-9]\d*)?", path.name)
    }
    return numbered[max(numbered)] if numbered else None


def _stored(name: str, version: str, weight: float, verdict: Verdict) -> dict[str, Any]:
    return {
        "verifier": name,
        "verifier_version": version,
        "reason": verdict.reason,
        "steps": [{"start": s.start, "end": s.end, "reward": s.reward} for s in verdict.steps],
        "evidence": _json(verdict.evidence),
        "reward": verdict.reward,
        "weight": weight,
    }


def _json(values: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(values), ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:  # NaN and infinity are no JSON: readers other than Python's refuse the whole text
        finite = json.loads(json.dumps(dict(values), default=str), parse_constant=lambda _: None)
        return json.dumps(finite, ensure_ascii=False)
