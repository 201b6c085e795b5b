"""Local files row by row, exactly as they are written: JSON Lines, JSON, CSV (each also gzipped) and Parquet.

No type is inferred, since that changes values: in CSV all is text (007, NA), in JSON whole numbers keep all digits.
"""

import csv
import gzip
import io
import itertools
import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from reasonrl.errors import ReasonRLError
from reasonrl.generators import Row

Placed = tuple[str, Row]
_LONGEST_CELL = 2**31 - 1  # of CSV; Python's own limit of 128 KiB is less than some responses have
_LOOK_AHEAD = 1000  # rows of JSON whose keys are the columns
_BATCH = 1000  # rows of Parquet
_LINE_CURE = "each line must be one JSON object (a list of objects belongs into a file that ends in .json)"
_LIST_CURE = "the file must be one list of objects (objects one a line belong into a file that ends in .jsonl)"


def read(file: Path) -> Iterator[Placed]:
    """The rows of a file one by one, each with its place for messages: `line 3`, in JSON and Parquet `row 2` (from 0).

    A key that an object of JSON lacks and others have is a column without a value (None). Binary values of Parquet are
    text where they are valid UTF-8. The file is closed after the last row, and when the iteration is given up.

    Raises:
        ReasonRLError: there is no such file, its name has none of the endings, or something in it is not as its ending
            says; names the file, the line where there is one, and the cure.
    """
    rows = _reader(file)(file)
    try:
        yield from rows
    except gzip.BadGzipFile as error:
        raise ReasonRLError(f"{file}: not gzip, or damaged ({error}); compress it anew or drop the .gz") from None
    except (EOFError, zlib.error) as error:
        raise ReasonRLError(f"{file}: the gzipped data is cut off or damaged ({error}); fetch it anew") from None
    except OSError as error:
        raise ReasonRLError(f"{file}: cannot be read: {error.strerror or error}") from None


def _reader(file: Path) -> Callable[[Path], Iterator[Placed]]:
    if file.is_dir():
        raise ReasonRLError(f"{file} is a folder; give its files, such as {file}/*.jsonl")
    if not file.is_file():
        raise ReasonRLError(f"there is no file {file} (looked for in {Path.cwd()})")
    for ending, reader in _READERS.items():
        if file.name.lower().endswith(ending):
            return reader
    raise ReasonRLError(f"{file} ends in none of {', '.join(_READERS)}")


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """Lines of text with their numbers (from 1). Decoded one by one, so that a fault has a line."""
    with _opened(file) as data:
        for number, line in enumerate(data, 1):
            try:
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise ReasonRLError(
                    f"{file}:{number}: not UTF-8: {error.reason} at byte {error.start} of the line; save the file as "
                    "UTF-8"
                ) from None


def _opened(file: Path) -> BinaryIO:
    return io.BufferedReader(gzip.open(file)) if file.name.lower().endswith(".gz") else file.open("rb")


# JSON


def _json_lines(file: Path) -> Iterator[Placed]:
    written = ((number, text) for number, text in _lines(file) if not text.isspace())
    return _as_table(
        (f"line {number}", _object(_parsed(text.rstrip(), file, number, _LINE_CURE), f"{file}:{number}", _LINE_CURE))
        for number, text in written
    )


def _json_list(file: Path) -> Iterator[Placed]:
    text = "".join(line for _, line in _lines(file))
    if not text.strip():
        return
    values = _parsed(text, file, None, _LIST_CURE)
    if not isinstance(values, list):
        lists = [key for key, value in values.items() if isinstance(value, list)] if isinstance(values, dict) else []
        within = f"; under its key {lists[0]!r} is a list: write that list alone" if len(lists) == 1 else ""
        raise ReasonRLError(f"{file}: holds {_kind(values)}{within}; {_LIST_CURE}")
    yield from _as_table(
        (f"row {number}", _object(value, f"{file}: row {number}", _LIST_CURE)) for number, value in enumerate(values)
    )


def _as_table(rows: Iterable[Placed]) -> Iterator[Placed]:
    """Rows that all have the columns of the first rows, and those met since; without a value where they lacked one."""
    rows = iter(rows)
    head = list(itertools.islice(rows, _LOOK_AHEAD))
    columns: Row = {key: None for _, row in head for key in row}
    for place, row in itertools.chain(head, rows):
        if row.keys() == columns.keys():
            yield place, row
        else:
            columns |= dict.fromkeys(row)
            yield place, columns | row


def _parsed(text: str, file: Path, line: int | None, cure: str) -> Any:
    place = str(file) if line is None else f"{file}:{line}"
    try:
        value = _DECODER.decode(text)
        if "\\ud" in text or "\\uD" in text:
            json.dumps(value, ensure_ascii=False).encode()  # fails on half a character, which no file could hold
        return value
    except json.JSONDecodeError as error:
        place = f"{file}:{error.lineno if line is None else line}"
        fault = f"not JSON: {error.msg} (column {error.colno})"
    except UnicodeEncodeError as error:
        fault, cure = f"half a character, {error.object[error.start]!r}, without its other half", "leave it out"
    except RecursionError:
        fault, cure = "nested too deeply", "flatten it"
    except ValueError as error:
        fault, cure = str(error), "write it as text, in quotation marks, or null"
    raise ReasonRLError(f"{place}: {fault}; {cure}")


def _object(value: Any, place: str, cure: str) -> Row:
    if not isinstance(value, dict):
        raise ReasonRLError(f"{place}: a row must be an object, {{…}}, not {_kind(value)}; {cure}")
    return value


def _kind(value: Any) -> str:
    match value:
        case dict():
            return "one object"
        case list():
            return "a list"
        case str():
            return "a text"
    return "null" if value is None else "one value"


def _unrepeated(pairs: list[tuple[str, Any]]) -> Row:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} stands twice in one object")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:20]} is larger than a float can be")
    return number


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is no number of JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unrepeated, parse_float=_finite, parse_constant=_refused)


# CSV


def _csv(file: Path) -> Iterator[Placed]:
    csv.field_size_limit(_LONGEST_CELL)
    reader = csv.reader((text for _, text in _lines(file)), strict=True)
    header: list[str] = []
    line = 1  # where a row begins; with line breaks in its cells it ends on a later one
    try:
        for cells in reader:
            if cells and not header:
                header = _named(cells, f"{file}:{line}")
            elif cells:
                if len(cells) != len(header):
                    raise ReasonRLError(
                        f"{file}:{line}: {len(cells)} cells, but the header has {len(header)}; a value with commas or "
                        "line breaks stands in double quotation marks"
                    )
                yield f"line {line}", dict(zip(header, cells, strict=True))
            line = reader.line_num + 1
    except csv.Error as error:
        raise ReasonRLError(
            f"{file}:{line}: not CSV: {error}; a value with commas, quotation marks or line breaks stands in double "
            "quotation marks, and those within it are doubled"
        ) from None


def _named(header: list[str], place: str) -> list[str]:
    if twice := [name for name in header if header.count(name) > 1]:
        raise ReasonRLError(f"{place}: two columns are named {twice[0]!r}; give each its own name")
    return header


# Parquet


def _parquet(file: Path) -> Iterator[Placed]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(file) as data:
            _named(data.schema_arrow.names, str(file))
            binary = [field.name for field in data.schema_arrow if _is_binary(field.type)]
            for batch in data.iter_batches(batch_size=_BATCH):
                for row in batch.to_pylist():
                    for name in binary:
                        row[name] = _as_text(row[name])
                    yield f"row {number}", row
                    number += 1
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise ReasonRLError(f"{file}: not Parquet, or damaged: {error}; write it anew") from None


def _is_binary(kind: Any) -> bool:
    return str(kind) in ("binary", "large_binary", "binary_view")


def _as_text(value: bytes | None) -> str | bytes | None:
    """Old writers of Parquet did not mark text as such."""
    try:
        return value if value is None else value.decode()
    except UnicodeDecodeError:
        return value


_READERS: dict[str, Callable[[Path], Iterator[Placed]]] = {
    ".json": _json_list,
    ".jsonl": _json_lines,
    ".json.gz": _json_list,
    ".jsonl.gz": _json_lines,
    ".csv": _csv,
    ".csv.gz": _csv,
    ".parquet": _parquet,
}
