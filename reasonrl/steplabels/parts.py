"""A Parquet file written piece by piece: what is interrupted goes on where it was, and gives the same file."""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from reasonrl import files
from reasonrl.errors import ReasonRLError

_MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
_REST = [
    ("completions", pa.list_(pa.string())),
    ("labels", pa.list_(pa.float64())),
    ("right", pa.list_(pa.int32())),
    ("judged", pa.list_(pa.int32())),
    ("problem_id", pa.string()),
    ("reference", pa.string()),
    ("step", pa.int64()),
    ("sample", pa.int32()),
]


def write_in_parts(
    path: Path,
    about: Mapping[str, Any],
    pieces: Sequence[Any],
    make: Callable[[Any], list[dict[str, Any]]],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[list[dict[str, Any]]]:
    """Make the rows of each piece, keep them in a folder beside the file, and join them when all are there.

    Args:
        path: the file; the folder is `.NAME.parts`.
        about: all that the rows depend on. A folder with other settings is not gone on with.
        pieces, make: a piece → its rows.
        progress: told how many of how many pieces are done.

    Yields:
        The rows of each piece, those of an earlier run too.

    Raises:
        ReasonRLError: an interrupted run had other settings, or the file cannot be written.
    """
    folder = path.with_name(f".{path.name}.parts")
    _begin(folder, about)
    for number, piece in enumerate(pieces):
        part = folder / f"{number:06d}.parquet"
        if not part.is_file():
            _write(part, [make(piece)])
        progress(number + 1, len(pieces))
        yield pq.read_table(part).to_pylist()
    _write(path, (pq.read_table(folder / f"{number:06d}.parquet").to_pylist() for number in range(len(pieces))))
    shutil.rmtree(folder)


def _begin(folder: Path, about: Mapping[str, Any]) -> None:
    settings, file = json.loads(json.dumps(about)), folder / "settings.json"
    if file.is_file():
        before = json.loads(file.read_text(encoding="utf-8"))
        if before != settings:
            other = sorted(key for key in before.keys() | settings.keys() if before.get(key) != settings.get(key))
            raise ReasonRLError(
                f"{folder} is of an interrupted run that differs in {', '.join(other)}; run that again, or remove it"
            )
        return
    with files.whole(file) as unfinished:
        unfinished.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def _write(path: Path, groups: Iterable[list[dict[str, Any]]]) -> None:
    """Groups of rows, one after the other, as one file; the first row says whether prompts are texts or chats."""
    with files.whole(path) as unfinished, ExitStack() as stack:
        writer = None
        for rows in filter(None, groups):
            if writer is None:
                schema = _schema(chat=not isinstance(rows[0]["prompt"], str))
                writer = stack.enter_context(pq.ParquetWriter(unfinished, schema, compression="zstd"))
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
        if writer is None:
            pq.write_table(_schema(chat=False).empty_table(), unfinished)
        stack.close()  # before it gets its name


def _schema(*, chat: bool) -> pa.Schema:
    return pa.schema([("prompt", _MESSAGES if chat else pa.string()), *_REST])
