"""Rollout files: what goes in comes out, other tools open them, nothing is half written or overwritten."""

import json
import math
import threading
from pathlib import Path
from typing import Any

import datasets
import pandas as pd  # type: ignore[import-untyped]
import pyarrow.parquet as pq
import pytest

from reasonrl import ReasonRLError, StepReward, Verdict, store
from reasonrl.types import Problem, Rollout

RIGHT = Verdict(1.0, "correct", (StepReward(0, 5, 1.0), StepReward(6, 9, 0.0)), {"answer": "7", "bound": math.nan})
LATE = Verdict(None, "timeout")


def rollout(sample: int = 0, text: str = "3+4=7") -> Rollout:
    return Rollout(
        problem_id="p1",
        sample=sample,
        prompt_ids=(1, 2, 3),
        response_ids=(4, 5),
        logprobs=(-0.5, -1.25),
        text=text,
        finish_reason="length",
        version=3,
        seed=2**63 - 1,
    )


def row(verdict: Verdict = RIGHT, **changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"step": 12, "temperature": 0.7, "reward": 1.1, "correct": True, "advantage": -0.25}
    problem = Problem("p1", "3+4=", "7", {"level": 2, "weight": math.inf, "tags": ["a", "ü"]})
    verdicts = [("exact", "0.1.0", 1.0, verdict), ("length", "2.0", 0.1, Verdict(0.5, "fits"))]
    return store.record(problem, rollout(), verdicts, **given | changes)


def as_json(rows: list[dict[str, Any]]) -> Any:
    """Tuples as lists, so that what was read compares with what was written."""
    return json.loads(json.dumps(rows))


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    rows = [row(), row(LATE, reward=None, correct=None, advantage=None)]
    store.write(tmp_path / "rollouts" / "step-000012.parquet", rows)
    assert store.read(tmp_path / "rollouts" / "step-000012.parquet") == as_json(rows)


def test_a_row_holds_what_another_tool_needs(tmp_path: Path) -> None:
    stored = row()
    assert set(stored) == set(store.SCHEMA.names)  # a key the schema lacks would be dropped without a word
    expected = {
        "step": 12, "problem_id": "p1", "sample": 0, "prompt": "3+4=", "response": "3+4=7", "reference": "7",
        "reward": 1.1, "correct": True, "advantage": -0.25,
    }  # fmt: skip
    assert {key: stored[key] for key in expected} == expected
    assert (stored["prompt_tokens"], stored["response_tokens"], stored["finish_reason"]) == (3, 2, "length")
    assert (stored["verifier"], stored["verifier_version"], stored["reason"]) == ("exact", "0.1.0", "correct")
    assert stored["steps"] == [{"start": 0, "end": 5, "reward": 1.0}, {"start": 6, "end": 9, "reward": 0.0}]
    assert [(v["verifier"], v["reward"], v["weight"]) for v in stored["verdicts"]] == [
        ("exact", 1.0, 1.0), ("length", 0.5, 0.1),
    ]  # fmt: skip


def test_evidence_and_metadata_are_json_that_every_reader_takes() -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    stored = row()
    assert json.loads(stored["evidence"], parse_constant=refuse) == {"answer": "7", "bound": None}
    assert json.loads(stored["metadata"], parse_constant=refuse) == {"level": 2, "weight": None, "tags": ["a", "ü"]}
    assert "ü" in stored["metadata"]


def test_a_response_that_was_not_judged_is_null_never_0(tmp_path: Path) -> None:
    store.write(tmp_path / "a.parquet", [row(LATE, reward=None, correct=None, advantage=None), row()])
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.schema == store.SCHEMA
    for column in ("reward", "correct", "advantage"):
        assert table[column].null_count == 1
    assert store.read(tmp_path / "a.parquet")[0]["verdicts"][0]["reward"] is None
    assert store.read(tmp_path / "a.parquet")[0]["reason"] == "timeout"


def test_a_chat_prompt_is_stored_as_its_messages() -> None:
    messages = ({"role": "system", "content": "be brief"}, {"role": "user", "content": "3+4?"})
    stored = store.record(
        Problem("p1", messages, None),  # type: ignore[arg-type]
        rollout(),
        [("exact", "1", 1.0, RIGHT)],
        step=0,
        temperature=1.0,
        reward=1.0,
        correct=True,
        advantage=None,
    )
    assert json.loads(stored["prompt"]) == list(messages)
    assert stored["reference"] is None


def test_the_file_opens_with_datasets_and_pandas(tmp_path: Path) -> None:
    path = tmp_path / "step-000001.parquet"
    store.write(path, [row(), row(LATE, reward=None, correct=None)])
    loaded = datasets.load_dataset("parquet", data_files=str(path), split="train", cache_dir=str(tmp_path / "cache"))
    assert loaded["reward"][:] == [1.1, None]
    assert loaded[0]["steps"][1] == {"start": 6, "end": 9, "reward": 0.0}
    frame = pd.read_parquet(path)
    assert list(frame["problem_id"]) == ["p1", "p1"]
    assert frame["reward"].isna().tolist() == [False, True]
    assert list(frame["logprobs"][0]) == [-0.5, -1.25]


def test_no_rows_make_a_file_with_the_schema(tmp_path: Path) -> None:
    store.write(tmp_path / "a.parquet", [])
    assert pq.read_table(tmp_path / "a.parquet").schema == store.SCHEMA
    assert store.read(tmp_path / "a.parquet") == []


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    store.write(path, [row()])

    def dies_half_way(table: Any, where: Path, **settings: Any) -> None:
        where.write_bytes(b"PAR1 half of a file")
        raise OSError("disk full")

    monkeypatch.setattr(pq, "write_table", dies_half_way)
    with pytest.raises(ReasonRLError, match=r"cannot write .*disk full"):
        store.write(path, [row(), row()])
    with pytest.raises(ReasonRLError, match=r"cannot write .*disk full"):
        store.write(tmp_path / "b.parquet", [row()])
    assert len(store.read(path)) == 1
    assert [p.name for p in tmp_path.glob("*.parquet")] == ["a.parquet"]


def test_folders_are_never_shared_whoever_asks_at_once(tmp_path: Path) -> None:
    made: list[Path] = []
    start = threading.Barrier(8)

    def ask() -> None:
        start.wait()
        made.append(store.new_folder(tmp_path / "runs", "quickstart"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(p.name for p in made) == ["quickstart", *(f"quickstart-{n}" for n in range(2, 9))]
    assert all(p.is_dir() for p in made)


@pytest.mark.parametrize("name", ["../evil", "a/b", "a\\b", "/etc/x", "..", ".", ""])
def test_a_name_leads_to_no_other_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ReasonRLError, match="the name leads elsewhere"):
        store.new_folder(tmp_path / "runs", name)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(ReasonRLError, match=r"cannot make the folder .*runs/mine: Not a directory"):
        store.new_folder(tmp_path / "runs", "mine")
