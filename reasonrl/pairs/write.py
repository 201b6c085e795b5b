"""Pairs and demonstrations as Parquet, in the columns that trainers of the ecosystem read (TRL's among them)."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from reasonrl.errors import ReasonRLError
from reasonrl.pairs.candidates import Candidate
from reasonrl.pairs.choices import Pair

_MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
_SOURCE = pa.struct(
    [
        ("run", pa.string()),
        ("model", pa.string()),
        ("step", pa.int64()),
        ("sample", pa.int32()),
        ("policy_version", pa.int64()),
        ("verifier", pa.string()),
        ("verifier_version", pa.string()),
        ("reward", pa.float64()),
        ("tokens", pa.int32()),
    ]
)
_PROBLEM = [("problem_id", pa.string()), ("reference", pa.string())]


def write_pairs(path: Path, pairs: Sequence[Pair]) -> None:
    """Write `prompt`, `chosen` and `rejected` (texts, or chat messages where prompts are) and where they come from.

    Raises:
        ReasonRLError: some prompts are chats and some are not, or the file cannot be written.
    """
    rows = [
        {
            "prompt": pair.chosen.prompt,
            "chosen": pair.chosen.text,
            "rejected": pair.rejected.text,
            "problem_id": pair.chosen.problem_id,
            "reference": pair.chosen.reference,
            "chosen_source": _source(pair.chosen),
            "rejected_source": _source(pair.rejected),
        }
        for pair in pairs
    ]
    _write(path, rows, ("chosen", "rejected"), [("chosen_source", _SOURCE), ("rejected_source", _SOURCE)])


def write_demonstrations(path: Path, demonstrations: Sequence[Candidate]) -> None:
    """Write `prompt` and `completion` (texts, or chat messages where prompts are) and where they come from.

    Raises:
        ReasonRLError: some prompts are chats and some are not, or the file cannot be written.
    """
    rows = [
        {
            "prompt": one.prompt,
            "completion": one.text,
            "problem_id": one.problem_id,
            "reference": one.reference,
            "source": _source(one),
        }
        for one in demonstrations
    ]
    _write(path, rows, ("completion",), [("source", _SOURCE)])


def _write(
    path: Path, rows: list[dict[str, Any]], responses: Sequence[str], sources: list[tuple[str, pa.DataType]]
) -> None:
    chats = {not isinstance(row["prompt"], str) for row in rows}
    if len(chats) == 2:
        raise ReasonRLError(
            "some prompts are chats and some are plain texts, which one file cannot hold; build them apart"
        )
    chat = chats == {True}
    if chat:
        for row in rows:
            row |= {name: [{"role": "assistant", "content": row[name]}] for name in responses}
    text = _MESSAGES if chat else pa.string()
    schema = pa.schema([("prompt", text), *((name, text) for name in responses), *_PROBLEM, *sources])
    unfinished = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), unfinished, compression="zstd")
        os.replace(unfinished, path)
    except OSError as error:
        raise ReasonRLError(f"cannot write {path}: {error.strerror or error}") from None


def _source(candidate: Candidate) -> dict[str, Any]:
    return asdict(candidate.source) | {"reward": candidate.reward, "tokens": candidate.tokens}
