"""`reasonrl build`: from rollouts to files, sampled now where there are none, and what it refuses."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_calls import save_tiny_model
from cli_in_process import Program, program_of
from pair_rows import rollout_file, rollout_row

from reasonrl import tasks


@pytest.fixture
def run(tmp_path: Path) -> Path:
    rows = [
        rollout_row(f"p{n}", k, text, reward)
        for n in range(3)
        for k, (text, reward) in enumerate([("7, so it is seven", 1.0), ("8, it must be eight", 0.0), ("nine?", 0.0)])
    ]
    return rollout_file(tmp_path / "run", rows)


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    return program_of(monkeypatch, capsys)


def test_pairs_and_demonstrations_are_written_and_summed_up(program: Program, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "made" / "pairs.parquet"
    ended = program("build", "pairs", str(run), "-o", str(out), "--per-problem", "1", "--choice", "balanced")
    assert ended.code == 0, ended.err
    assert "3 pairs of 3 problems" in ended.out
    assert "warning: 3 pairs are few" in ended.out
    assert pq.read_table(out).column("chosen").to_pylist() == ["7, so it is seven"] * 3
    ended = program("build", "sft", str(run), "-o", str(out), "--limit", "2")
    assert "2 demonstrations of 2 problems" in ended.out
    assert pq.read_table(out).column("completion").to_pylist() == ["7, so it is seven"] * 2


def test_the_same_command_writes_the_same_file(program: Program, run: Path, tmp_path: Path) -> None:
    tables = []
    for name in ("one", "two"):
        program("build", "pairs", str(run), "-o", str(tmp_path / name), "--limit", "4", "--seed", "3")
        tables.append(pq.read_table(tmp_path / name))
    assert tables[0].num_rows == 4
    assert tables[0].equals(tables[1])


def test_an_evaluation_is_told_to_be_no_longer_held_out(program: Program, run: Path, tmp_path: Path) -> None:
    (run / "rollouts").rename(run / "eval")
    ended = program("build", "pairs", str(run / "eval"), "-o", str(tmp_path / "pairs.parquet"))
    assert "no longer held out" in ended.out


def test_responses_are_sampled_now(program: Program, tmp_path: Path) -> None:
    """Of an untrained model none is right: there is nothing to write, and the responses are there all the same."""
    model = save_tiny_model(tmp_path / "model")
    ended = program(
        "build", "pairs", "--task", "arithmetic", "--model", str(model), "-n", "3", "--rows", "4", "--runs",
        str(tmp_path / "runs"), "--max-tokens", "8", "--truncated", "-o", str(tmp_path / "pairs.parquet"),
    )  # fmt: skip
    assert ended.code == 2
    assert "there are no pairs to write\n12 responses" in ended.err
    [stored] = (tmp_path / "runs").glob("*/rollouts.parquet")
    table = pq.read_table(stored)
    assert table.num_rows == 12
    first = {problem.id for problem in tasks.load("arithmetic").problems("train", 4)}
    assert set(table.column("problem_id").to_pylist()) == first


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give ROLLOUTS"),
        (("--task", "arithmetic"), "--task and --model go together"),
        (("nowhere",), "there is no file or folder nowhere"),
        ((".",), "there are no rollouts in this folder"),
        (("pairs.jsonl",), "cannot be read as Parquet"),
        (("other.parquet",), "holds no rollouts, its column 'step' is missing"),
        (("--steps", "--margin", "0.5", "run"), "leave --margin out"),
    ],
)
def test_what_it_refuses(
    program: Program,
    monkeypatch: pytest.MonkeyPatch,
    run: Path,
    tmp_path: Path,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.jsonl").write_text("{}\n")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    if arguments == (".",):
        (tmp_path / "other.parquet").unlink()
    ended = program("build", "pairs", *arguments, "-o", "out.parquet")
    assert ended.code == 2
    assert message in ended.err
    assert not (tmp_path / "out.parquet").exists()
