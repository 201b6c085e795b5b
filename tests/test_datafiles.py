"""Rows from files of every form, from the hub where it answers, and quick words of advice where it does not."""

import gzip
import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import huggingface_hub
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reasonrl import ReasonRLError, datafiles
from reasonrl.datafiles import DatasetConfig, load_rows
from reasonrl.generators import Split

ROWS = [{"question": "Wie viele, bitte?", "answer": "1,080"}, {"question": 'a "b"\nc', "answer": "2 × 3"}]
TASK = Path("task.yaml")


def lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def csv(rows: list[dict[str, Any]]) -> bytes:
    quoted = [",".join('"' + value.replace('"', '""') + '"' for value in row.values()) for row in rows]
    return "\n".join([",".join(rows[0]), *quoted, ""]).encode()


def parquet(rows: list[dict[str, Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


FORMS = {
    "a.jsonl": lines(ROWS),
    "a.jsonl.gz": gzip.compress(lines(ROWS)),
    "a.json": json.dumps(ROWS).encode(),
    "a.json.gz": gzip.compress(json.dumps(ROWS).encode()),
    "a.csv": csv(ROWS),
    "a.csv.gz": gzip.compress(csv(ROWS)),
    "a.parquet": parquet(ROWS),
    "A.JSONL": lines(ROWS),
}


def rows_of(path: Path) -> list[dict[str, Any]]:
    return rows_from(DatasetConfig(data_files={"eval": str(path)}))


def rows_from(config: DatasetConfig, split: Split = "eval") -> list[dict[str, Any]]:
    return [row for _, row in load_rows(config, split, TASK)]


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FORMS[name])
    assert rows_of(tmp_path / name) == ROWS


def test_a_file_that_changed_is_read_anew(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(ROWS))
    assert rows_of(tmp_path / "a.jsonl") == ROWS
    (tmp_path / "a.jsonl").write_bytes(lines(ROWS[:1]))
    assert rows_of(tmp_path / "a.jsonl") == ROWS[:1]


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", b"x", "FILE ends in none of .json, .jsonl, "),
        ("a.jsonl", b'{"a": 1}\n{"a": \n', "FILE:2: not JSON: "),
        ("a.parquet", b"nope", "FILE: not Parquet, or damaged: "),
        ("nope.jsonl", None, "there is no file FILE (looked for in "),
        ("nope*.jsonl", None, "no file matches FILE (looked for in "),
    ],
)
def test_a_file_that_cannot_be_read_is_named_after_task_and_key(
    tmp_path: Path, name: str, content: bytes | None, expected: str, streaming: bool
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ReasonRLError) as caught:
        rows_from(DatasetConfig(data_files={"eval": str(tmp_path / name)}, streaming=streaming))
    message = str(caught.value).replace(str(tmp_path / name), "FILE")
    assert message.startswith(f"task.yaml: data_files.eval: {expected}")


def test_local_files_are_read_without_the_library_of_the_hub(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(ROWS))
    code = (
        "import sys\nfrom pathlib import Path\nfrom reasonrl.datafiles import DatasetConfig, load_rows\n"
        "print(len(list(load_rows(DatasetConfig(data_files={'eval': sys.argv[1]}), 'eval', Path('t')))))\n"
        "assert 'datasets' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.jsonl")], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_a_file_that_is_not_there_says_where_it_was_looked_for() -> None:
    with pytest.raises(ReasonRLError, match=rf"there is no file nope.json \(looked for in {Path.cwd()}\)"):
        rows_of(Path("nope.json"))


def test_a_split_without_a_file_or_a_name_is_named() -> None:
    with pytest.raises(ReasonRLError, match=r"dataset\.data_files has no file for the 'train' split; add train: FILE"):
        rows_from(DatasetConfig(data_files={"eval": "a.json"}), "train")
    with pytest.raises(ReasonRLError, match=r"a/b has no 'train' split \(dataset\.splits names none\); give a file"):
        rows_from(DatasetConfig(hub="a/b", splits={"eval": "test"}), "train")


# The hub


def test_offline_the_error_says_which_files_to_give_and_is_quick() -> None:
    datasets.load_dataset  # noqa: B018  the import is not what is timed
    started = time.monotonic()
    with pytest.raises(ReasonRLError) as caught:
        rows_from(DatasetConfig(hub="openai/gsm8k", config="main"), "eval")
    assert time.monotonic() - started < 3
    message = str(caught.value)
    assert message.startswith("task.yaml: the hub cannot be reached, and openai/gsm8k has not been loaded")
    for cure in ("dataset.data_files.eval", "`task.data_files.eval=FILE`", "`--data eval=FILE`"):
        assert cure in message
    with pytest.raises(ReasonRLError) as caught:
        rows_from(DatasetConfig(hub="openai/gsm8k"), "train")
    assert "`--data train=FILE`" in str(caught.value)


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """As on a machine where nothing says that it is offline."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    yield monkeypatch
    huggingface_hub.close_session()


def test_a_hub_that_does_not_answer_costs_one_short_request(
    online: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    online.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")  # discard: nothing listens there
    started = time.monotonic()
    with caplog.at_level(logging.WARNING), pytest.raises(ReasonRLError, match="the hub cannot be reached"):
        rows_from(DatasetConfig(hub="openai/gsm8k", config="main"), "train")
    assert time.monotonic() - started < 10
    assert "Retrying" not in caplog.text
    # and the libraries are as they were
    assert (datasets.config.HF_HUB_OFFLINE, huggingface_hub.constants.HF_HUB_OFFLINE) == (False, False)


def test_where_the_hub_answers_its_own_error_is_shown(online: pytest.MonkeyPatch) -> None:
    def refuses(**source: Any) -> Any:
        assert not datasets.config.HF_HUB_OFFLINE
        raise datasets.exceptions.DatasetNotFoundError(f"{source['path']} is gated")

    online.setattr(datafiles, "_hub_answers", lambda: True)
    online.setattr(datasets, "load_dataset", refuses)
    with pytest.raises(ReasonRLError, match=r"task\.yaml: cannot load a/b: a/b is gated"):
        rows_from(DatasetConfig(hub="a/b"), "train")


def test_the_hub_is_asked_for_the_pinned_revision_and_the_name_of_the_split(online: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def load_dataset(**source: Any) -> Any:
        asked.append(source)
        return [{"a": 1}]

    online.setattr(datafiles, "_hub_answers", lambda: True)
    online.setattr(datasets, "load_dataset", load_dataset)
    config = DatasetConfig(hub="a/b", config="c", revision="abc", splits={"eval": "validation"})
    assert rows_from(config) == [{"a": 1}]
    assert asked == [{"path": "a/b", "name": "c", "split": "validation", "revision": "abc", "streaming": False}]


def test_without_an_answer_the_cache_is_still_looked_into(online: pytest.MonkeyPatch) -> None:
    def cached(**source: Any) -> Any:
        assert datasets.config.HF_HUB_OFFLINE
        assert huggingface_hub.constants.HF_HUB_OFFLINE
        return [{"a": 1}]

    online.setattr(datafiles, "_hub_answers", lambda: False)
    online.setattr(datasets, "load_dataset", cached)
    assert rows_from(DatasetConfig(hub="a/b"), "eval") == [{"a": 1}]
    assert not datasets.config.HF_HUB_OFFLINE
