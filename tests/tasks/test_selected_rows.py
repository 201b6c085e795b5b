"""Which rows of the data become problems: several files, hold-out, shuffle, most rows, streams, faulty rows."""

import json
from pathlib import Path
from typing import Any

import datasets
import pytest

from reasonrl import ReasonRLError, datafiles
from reasonrl.datafiles import DatasetConfig, load_rows
from reasonrl.generators import Split
from reasonrl.tasks import Task, TaskConfig

PATH = Path("task.yaml")


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def ten(tmp_path: Path) -> str:
    return write(tmp_path / "ten.jsonl", [{"n": n, "even": n % 2 == 0} for n in range(10)])


def numbers(split: Split, **config: Any) -> list[tuple[int, int]]:
    """(number of the row, its n)."""
    return [(index, row["n"]) for index, row in load_rows(DatasetConfig(**config), split, PATH)]


@pytest.mark.parametrize("streaming", [False, True])
def test_rows_keep_their_number_in_the_data(ten: str, streaming: bool) -> None:
    given = {"data_files": {"train": ten}, "streaming": streaming}
    assert numbers("train", **given, where={"even": False}) == [(n, n) for n in (1, 3, 5, 7, 9)]
    assert numbers("train", **given, where={"even": False}, rows={"train": 2}) == [(1, 1), (3, 3)]
    assert numbers("train", **given, rows={"eval": 2}) == [(n, n) for n in range(10)]


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("shuffle", [None, 5])
def test_what_is_held_out_is_not_trained_on(ten: str, streaming: bool, shuffle: int | None) -> None:
    given: dict[str, Any] = {
        "data_files": {"train": ten}, "streaming": streaming, "shuffle": shuffle, "hold_out": 3, "window": 4,
    }  # fmt: skip
    train, held_out = numbers("train", **given), numbers("eval", **given)
    assert len(held_out) == 3
    assert sorted(train + held_out) == [(n, n) for n in range(10)]
    assert numbers("eval", **given) == held_out, "every time the same"
    if shuffle is None:
        assert held_out == [(0, 0), (1, 1), (2, 2)]
    else:
        assert held_out != [(0, 0), (1, 1), (2, 2)]


def test_a_file_of_its_own_is_the_evaluation_split_and_nothing_is_held_out(ten: str, tmp_path: Path) -> None:
    other = write(tmp_path / "other.jsonl", [{"n": 70}])
    given = {"data_files": {"train": ten, "eval": other}, "hold_out": 3}
    assert numbers("eval", **given) == [(0, 70)]
    assert len(numbers("train", **given)) == 10


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("split", ["train", "eval"])
@pytest.mark.parametrize("hold_out", [10, 11])
def test_a_hold_out_that_leaves_nothing_is_an_error(ten: str, split: Split, streaming: bool, hold_out: int) -> None:
    given: dict[str, Any] = {"data_files": {"train": ten}, "streaming": streaming}
    with pytest.raises(ReasonRLError, match=f"hold_out {hold_out} leaves nothing to train on of 10 rows; lower it"):
        numbers(split, **given, hold_out=hold_out)
    assert len(numbers("train", **given, hold_out=9)) == 1
    assert numbers(split, **given, hold_out=9, rows={split: 1}) != []


def test_rows_held_out_take_the_place_of_the_evaluation_split_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datafiles, "_hub_answers", lambda: True)
    hub = {"train": [{"n": n} for n in range(5)], "test": [{"n": 70}]}
    monkeypatch.setattr(datasets, "load_dataset", lambda **asked: hub[asked["split"]])
    assert numbers("eval", hub="x/y") == [(0, 70)]
    assert numbers("eval", hub="x/y", hold_out=2) == [(0, 0), (1, 1)]
    assert numbers("train", hub="x/y", hold_out=2) == [(2, 2), (3, 3), (4, 4)]


def test_the_order_is_the_seeds(ten: str) -> None:
    orders = [numbers("train", data_files={"train": ten}, shuffle=seed) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == numbers("train", data_files={"train": ten})


@pytest.mark.parametrize("streaming", [False, True])
def test_several_files_and_patterns_follow_one_another(tmp_path: Path, streaming: bool) -> None:
    files = [write(tmp_path / f"part-{i}.jsonl", [{"n": 10 * i + j} for j in range(2)]) for i in range(3)]
    expected = list(enumerate([0, 1, 10, 11, 20, 21]))
    assert numbers("train", data_files={"train": tuple(files)}, streaming=streaming) == expected
    assert numbers("train", data_files={"train": str(tmp_path / "part-*.jsonl")}, streaming=streaming) == expected
    with pytest.raises(ReasonRLError, match=r"data_files.train: no file matches .*none-\*"):
        numbers("train", data_files={"train": str(tmp_path / "none-*.jsonl")})


def test_a_pattern_finds_files_and_passes_over_folders(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    write(tmp_path / "inner" / "a.jsonl", [{"n": 1}])
    write(tmp_path / "b.jsonl", [{"n": 2}])
    assert numbers("train", data_files={"train": f"{tmp_path}/**"}) == [(0, 2), (1, 1)]


def test_a_file_whose_name_looks_like_a_pattern_is_read(tmp_path: Path) -> None:
    (tmp_path / "v[1]").mkdir()
    file = write(tmp_path / "v[1]" / "a[2]*.jsonl", [{"n": 5}])
    assert numbers("train", data_files={"train": file}) == [(0, 5)]


def test_several_configurations_follow_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datafiles, "_hub_answers", lambda: True)
    monkeypatch.setattr(datasets, "load_dataset", lambda **asked: [{"n": {"a": 1, "b": 2}[asked["name"]]}])
    assert numbers("train", hub="x/y", config=["a", "b"]) == [(0, 1), (1, 2)]


def test_a_stream_reads_no_more_than_it_needs(tmp_path: Path) -> None:
    """The second file is not even JSON: a stream that stops before it does not notice."""
    good = write(tmp_path / "a.jsonl", [{"n": n} for n in range(5)])
    (tmp_path / "b.jsonl").write_text("nonsense\n")
    config = DatasetConfig(data_files={"train": (good, str(tmp_path / "b.jsonl"))}, streaming=True)
    rows = load_rows(config, "train", PATH)
    assert [next(rows)[1]["n"] for _ in range(5)] == list(range(5))
    with pytest.raises(ReasonRLError, match=r"task\.yaml: data_files\.train: .*b\.jsonl:1: not JSON"):
        next(rows)


def test_a_stream_with_a_misspelt_column_ends_within_the_window(tmp_path: Path) -> None:
    """The second file is not even JSON: the fault is told before it."""
    good = write(tmp_path / "a.jsonl", [{"n": n, "in": None} for n in range(5)])
    (tmp_path / "b.jsonl").write_text("nonsense\n")
    files = {"train": (good, str(tmp_path / "b.jsonl"))}
    with pytest.raises(ReasonRLError, match=r"dataset.where: no column 'in.n'; 'in' holds None"):
        numbers("train", data_files=files, streaming=True, window=5, where={"in.n": None})


def test_an_empty_file_streams_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("")
    assert numbers("train", data_files={"train": str(tmp_path / "a.jsonl")}, streaming=True) == []


# Faulty rows

FAULTY: list[dict[str, Any]] = [{"q": "1", "a": "1"}, {"q": "2", "a": None}, {"q": " ", "a": "3"}, {"q": "4", "a": "4"}]


def task_of(file: str, **dataset: Any) -> Task:
    config = TaskConfig.model_validate({
        "name": "t",
        "dataset": {"data_files": {"train": file}} | dataset,
        "prompt": {"template": "{{ q }}"},
        "reference": {"column": "a"},
        "demonstration": "{{ a }}",
        "verifiers": [{"name": "exact"}],
    })  # fmt: skip
    return Task(config, PATH)


def test_a_faulty_row_is_an_error_unless_it_may_be_left_out(tmp_path: Path) -> None:
    file = write(tmp_path / "rows.jsonl", FAULTY)
    with pytest.raises(ReasonRLError, match=r"row 1: reference\.column"):
        task_of(file).problems("train")
    lenient = task_of(file, skip_faulty=True)
    assert [p.id for p in lenient.problems("train")] == ["train-0", "train-3"]
    assert [p.id for p in lenient.problems("train", 1)] == ["train-0"]
    assert [(p.id, text) for p, text in lenient.demonstrations()] == [("train-0", "1"), ("train-3", "4")]
    assert len(lenient.demonstrations(most=1)) == 1


def test_where_all_rows_are_faulty_the_first_fault_is_told(tmp_path: Path) -> None:
    file = write(tmp_path / "rows.jsonl", [{"q": "1", "answer": "1"}] * 2)
    with pytest.raises(ReasonRLError, match=r"row 0: reference\.column: no column 'a'; the data has: answer, q"):
        task_of(file, skip_faulty=True).problems("train")


def test_the_splits_of_a_task_are_those_its_data_has(tmp_path: Path) -> None:
    file = write(tmp_path / "rows.jsonl", FAULTY)
    assert task_of(file).splits() == ["train"]
    assert task_of(file, hold_out=1).splits() == ["train", "eval"]
    assert task_of(file, hub="a/b", splits={"eval": "test"}).splits() == ["train", "eval"]
