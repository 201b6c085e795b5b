"""The rows of a data set, from the hub or from local files."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from reasonrl.errors import ReasonRLError
from reasonrl.generators import Row, Split
from reasonrl.yamlfile import Record

_FORMATS = {
    ".json": "json",
    ".jsonl": "json",
    ".json.gz": "json",
    ".jsonl.gz": "json",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".parquet": "parquet",
}
_HUB_PATIENCE = 5.0  # seconds for one request; the hub's own client retries for half a minute before it gives up


class DatasetConfig(Record):
    """A data set of the hub, or local files in the same fields (`data_files`, which win where given).

    Attributes:
        hub, config, revision: its id, configuration and pinned revision.
        splits: what the data set calls our splits.
        data_files: a file by split: JSON, JSON Lines, CSV (each also gzipped) or Parquet; seen from where one works.
    """

    hub: str | None = None
    config: str | None = None
    revision: str | None = None
    splits: dict[Split, str] = Field({"train": "train", "eval": "test"})
    data_files: dict[Split, str] = Field({})

    @model_validator(mode="after")
    def _has_a_source(self) -> Self:
        if not self.hub and not self.data_files:
            raise ValueError("a dataset needs `hub` (an id) or `data_files` (a file for `train` and/or `eval`)")
        return self


def load_rows(config: DatasetConfig, split: Split, task: Path) -> list[Row]:
    """All rows of a split.

    Raises:
        ReasonRLError: there is no such split, or its data cannot be had or read; names the task's YAML and the cure.
    """
    if split in config.data_files:
        file = Path(config.data_files[split])
        source = {"path": _format(file, split, task), "data_files": str(file), "split": "train"}
        return _load(task, str(file), source)
    if config.hub is None:
        raise ReasonRLError(f"{task}: dataset.data_files has no file for the {split!r} split; add {split}: FILE")
    if split not in config.splits:
        raise ReasonRLError(f"{task}: dataset.splits names no {split!r} split of {config.hub}; add {split}: NAME")
    asked = {"path": config.hub, "name": config.config, "split": config.splits[split], "revision": config.revision}
    if _hub_answers():
        return _load(task, config.hub, asked)
    try:
        with _offline():
            return _load(task, config.hub, asked)
    except ReasonRLError:
        raise ReasonRLError(
            f"{task}: the hub cannot be reached, and {config.hub} has not been loaded on this machine before; give a "
            f"file with its columns (JSON, JSON Lines, CSV or Parquet): dataset.data_files.{split} in a task, "
            f"`task.data_files.{split}=FILE` in a run" + (", `--data FILE` in an evaluation" if split == "eval" else "")
        ) from None


def _format(file: Path, split: Split, task: Path) -> str:
    if not file.is_file():
        raise ReasonRLError(f"{task}: data_files.{split}: there is no file {file} (looked for in {Path.cwd()})")
    for ending, form in _FORMATS.items():
        if file.name.lower().endswith(ending):
            return form
    raise ReasonRLError(f"{task}: data_files.{split}: {file} ends in none of {', '.join(_FORMATS)}")


def _load(task: Path, what: str, arguments: Mapping[str, str | None]) -> list[Row]:
    import datasets  # heavy: half a second that listing tasks should not pay

    try:
        return list(datasets.load_dataset(**arguments))
    except StopIteration:  # what the JSON reader makes of an empty file
        return []
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        if 'Instruction "train" corresponds to no data' in str(error):  # and of one without rows
            return []
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
