"""The rows of a data set, from the hub or from local files: which ones, in which order, all at once or as a stream."""

import glob
import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from reasonrl import rowfiles
from reasonrl.errors import ReasonRLError
from reasonrl.generators import Row, Split
from reasonrl.selection import Wanted, kept, shuffled_window
from reasonrl.yamlfile import Record

Files = str | tuple[str, ...]
_HUB_PATIENCE = 5.0  # seconds for one request; the hub's own client retries for half a minute before it gives up


class DatasetConfig(Record):
    """A data set of the hub, or local files in the same fields (`data_files`, which win where given); and which rows.

    The rows of a split are those that `where` keeps, in the order `shuffle` gives them, without or with those that
    `hold_out` sets aside, and of these the first so many that `rows` asks for.

    Attributes:
        hub, config, revision: its id, configuration (or several, one after another) and pinned revision.
        splits: what the data set calls our splits.
        data_files: by split a file, a pattern such as `data/*.jsonl`, or several; seen from where one works. JSON,
            JSON Lines, CSV (each also gzipped) or Parquet, read as written: in CSV every value is text.
        streaming: read rows as they are needed, for data larger than memory; training shuffles within a window.
        where: column: the value to keep, a list of values, or {min, max, not}: bounds of numbers, texts or dates.
            Nested columns by dotted path; a row that has no such path has no value there.
        shuffle: seed of the order; as in the data if null.
        rows: most rows of a split.
        hold_out: so many rows of the training split are the evaluation split, in place of one that the hub has; but
            files for `eval` win.
        window: rows a stream is shuffled among.
        skip_faulty: leave rows out whose prompt or reference cannot be made, instead of an error; `reasonrl tasks
            check` lists them.
    """

    hub: str | None = None
    config: str | tuple[str, ...] | None = None
    revision: str | None = None
    splits: dict[Split, str] = Field({"train": "train", "eval": "test"})
    data_files: dict[Split, Files] = Field({})
    streaming: bool = False
    where: dict[str, Wanted] = Field({})
    shuffle: int | None = None
    rows: dict[Split, Annotated[int, Field(ge=1)]] = Field({})
    hold_out: int = Field(0, ge=0)
    window: int = Field(10_000, ge=2)
    skip_faulty: bool = False

    @model_validator(mode="after")
    def _has_a_source(self) -> Self:
        if not self.hub and not self.data_files:
            raise ValueError("a dataset needs `hub` (an id) or `data_files` (a file for `train` and/or `eval`)")
        return self


def load_rows(config: DatasetConfig, split: Split, task: Path) -> Iterator[tuple[int, Row]]:
    """The rows of a split, each with its number in the data as it is stored (from 0).

    All are read before the first is given, unless the data set streams.

    Raises:
        ReasonRLError: there is no such split, its data cannot be had or read, or a filter keeps no row; names the
            task's YAML and the cure. Of a stream, some of this is only found on the way.
    """
    aside = 0 if "eval" in config.data_files else config.hold_out
    stored = _stored(config, "train" if aside else split, task)
    rows = _ordered(config, kept(stored, config.where, task, config.window if config.streaming else None))
    if aside:
        rows = _parted(rows, split, aside, task)
    return itertools.islice(rows, config.rows.get(split))


def file_states(config: DatasetConfig, split: Split) -> dict[Path, tuple[int, int]]:
    """Bytes and time of the last change (nanoseconds) of each local file a split is read from; none of the hub's."""
    given = config.data_files.get("train" if config.hold_out and "eval" not in config.data_files else split, ())
    files = _existing(given if isinstance(given, tuple) else (given,))
    return {file: (stat.st_size, stat.st_mtime_ns) for file in files if file.exists() and (stat := file.stat())}


def _ordered(config: DatasetConfig, rows: Iterator[tuple[int, Row]]) -> Iterator[tuple[int, Row]]:
    if config.streaming:
        return rows if config.shuffle is None else shuffled_window(rows, config.window, random.Random(config.shuffle))
    every = list(rows)
    if config.shuffle is not None:
        random.Random(config.shuffle).shuffle(every)
    return iter(every)


def _parted(rows: Iterator[tuple[int, Row]], split: Split, aside: int, task: Path) -> Iterator[tuple[int, Row]]:
    """The first rows, which are the evaluation split, or the others; there must be some of both."""
    held_out = list(itertools.islice(rows, aside))
    left = list(itertools.islice(rows, 1))
    if held_out and not left:
        raise ReasonRLError(
            f"{task}: dataset.hold_out {aside} leaves nothing to train on of {len(held_out)} rows; lower it"
        )
    yield from held_out if split == "eval" else itertools.chain(left, rows)


def _stored(config: DatasetConfig, split: Split, task: Path) -> Iterator[tuple[int, Row]]:
    """All rows of a split of the data."""
    if split in config.data_files:
        return enumerate(_file_rows(config.data_files[split], split, task))
    return enumerate(itertools.chain.from_iterable(_hub_sources(config, split, task)))


def _file_rows(given: Files, split: Split, task: Path) -> Iterator[Row]:
    try:
        for file in _existing(given if isinstance(given, tuple) else (given,)):
            yield from (row for _, row in rowfiles.read(file))
    except ReasonRLError as error:
        raise ReasonRLError(f"{task}: data_files.{split}: {error}") from None


def _existing(given: Sequence[str]) -> Iterator[Path]:
    for name in given:
        pattern = Path(name).expanduser()
        if pattern.is_file() or not any(character in name for character in "*?["):
            yield pattern
            continue
        found = sorted(path for path in map(Path, glob.glob(str(pattern), recursive=True)) if path.is_file())
        if not found:
            raise ReasonRLError(f"no file matches {name} (looked for in {Path.cwd()})")
        yield from found


def _hub_sources(config: DatasetConfig, split: Split, task: Path) -> Iterator[Iterable[Row]]:
    if config.hub is None:
        raise ReasonRLError(
            f"{task}: dataset.data_files has no file for the {split!r} split; add {split}: FILE"
            + (", or `hold_out: N` to set training rows aside" if split == "eval" else "")
        )
    if split not in config.splits:
        raise ReasonRLError(
            f"{task}: {config.hub} has no {split!r} split (dataset.splits names none); give a file, "
            f"dataset.data_files.{split}" + (", or `hold_out: N` to set training rows aside" if split == "eval" else "")
        )
    for name in config.config if isinstance(config.config, tuple) else (config.config,):
        asked = {"path": config.hub, "name": name, "split": config.splits[split], "revision": config.revision}
        yield _from_hub(config, split, task, asked)


def _from_hub(config: DatasetConfig, split: Split, task: Path, asked: dict[str, str | None]) -> Iterable[Row]:
    assert config.hub is not None
    if _hub_answers():
        return _load(task, config.hub, asked, config.streaming)
    try:
        with _offline():
            return _load(task, config.hub, asked, streaming=False)  # what was loaded before is on this machine
    except ReasonRLError:
        raise ReasonRLError(
            f"{task}: the hub cannot be reached, and {config.hub} has not been loaded on this machine before; give a "
            f"file with its columns (JSON, JSON Lines, CSV or Parquet): dataset.data_files.{split} in a task, "
            f"`task.data_files.{split}=FILE` in a run, `--data {split}=FILE` with other commands"
        ) from None


def _load(task: Path, what: str, arguments: Mapping[str, str | None], streaming: bool) -> Iterable[Row]:
    """The rows; all of them now, or one by one if streaming."""
    rows = _reading(task, what, arguments, streaming)
    return rows if streaming else list(rows)


def _reading(task: Path, what: str, arguments: Mapping[str, str | None], streaming: bool) -> Iterator[Row]:
    import datasets  # heavy: half a second that listing tasks should not pay

    try:
        yield from datasets.load_dataset(**arguments, streaming=streaming)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        # The outer error of a file that cannot be parsed says only that something went wrong; its cause says what.
        reason = error.__cause__ or error
        raise ReasonRLError(f"{task}: cannot load {what}: {reason}") from None


def _hub_answers() -> bool:
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        get_session().head(constants.ENDPOINT, timeout=_HUB_PATIENCE)
    except Exception:  # noqa: BLE001  the client's error classes differ by its version; all mean that it got no answer
        return False
    return True


@contextmanager
def _offline() -> Iterator[None]:
    """Let `datasets` look only into its cache. Both libraries read their flag anew at each request."""
    import datasets
    from huggingface_hub import constants

    before = datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before
