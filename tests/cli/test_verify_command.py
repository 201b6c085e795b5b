"""`reasonrl verify` as a user runs it: another system's responses, breakdowns, JSON for other programs, faults."""

import json
from pathlib import Path

import pytest
from cli_calls import call, refused
from cli_in_process import Program, program_of

GSM8K = Path(__file__).parents[1] / "data" / "gsm8k_rows.jsonl"
LEVELS = """
name: levels
dataset: {data_files: {eval: problems.jsonl}}
prompt: {template: "{{ q }}"}
reference: {column: a}
metadata: [level]
verifiers: [{name: exact}]
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    monkeypatch.chdir(tmp_path)
    for name, value in {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    return program_of(monkeypatch, capsys)


def jsonl(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_verify_gsm8k_from_another_systems_file(tmp_path: Path) -> None:
    jsonl(
        tmp_path / "other.jsonl",
        {"problem_id": "eval-0", "responses": ["#### 72", "#### 7"]},
        {"problem_id": "eval-1", "responses": ["#### 10", "so it is 10."]},
    )
    command = ("verify", "gsm8k", "other.jsonl", "--data", GSM8K, "-k", "1,2", "--workers", "1")
    result = call(*command, "--json", "out.json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    for words in (
        "gsm8k, held-out problems",
        "│ sampled pass@2 (n=2) │ 100.0% [100.0%, 100.0%] │",
        "2 of 6",
        "2 of 6 problems have responses; the others count neither as right nor as wrong",
        "rollouts  runs/verify-gsm8k/rollouts.parquet",
        "report    out.json",
    ):
        assert words in result.stdout
    assert "greedy" not in result.stdout
    written = (tmp_path / "out.json").read_text()
    assert written == (tmp_path / "runs" / "verify-gsm8k" / "report.json").read_text()
    assert json.loads(written)["coverage"] == {"answered": 2, "problems": 6}

    piped = call(*command, "--json", "-", cwd=tmp_path)
    assert piped.stdout == written
    assert "gsm8k, held-out problems" in piped.stderr


def test_transformers_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jsonl(tmp_path / "r.jsonl", {"response": "x"})
    (tmp_path / "transformers.py").write_text("raise SystemExit('transformers was imported')\n")
    (tmp_path / "task.yaml").write_text(LEVELS)
    jsonl(tmp_path / "problems.jsonl", {"q": "1+1", "a": "2", "level": 1})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    result = call("verify", "task.yaml", "r.jsonl", cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


def test_breakdowns_are_below_the_table(program: Program, tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text(LEVELS)
    jsonl(tmp_path / "problems.jsonl", *({"q": "1+1", "a": "2", "level": level} for level in (10, 9, 10)))
    jsonl(tmp_path / "r.jsonl", *({"response": answer, "temperature": 0} for answer in ("2", "3", "4")))
    shown = program("verify", "task.yaml", "r.jsonl")
    assert shown.code == 0
    table = shown.out[shown.out.index("by level") :]
    assert "sampled" not in shown.out
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in table.splitlines() if "│" in line]
    assert [row[:2] for row in rows] == [["9", "1"], ["10", "2"]]
    assert [row[2].split()[0] for row in rows] == ["0.0%", "50.0%"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["gsm8k", "r.jsonl", "-k", "2"], "error: pass@2: no problem of r.jsonl has 2 responses, the most is 1; lower"),
        (["gsm8k", "r.jsonl", "-k", "x"], "error: -k x: expected whole numbers separated by commas"),
        (["gsm8k", "nope.jsonl"], "error: there is no file nope.jsonl (looked for in"),
        (["gsm8k", "empty.jsonl"], "error: empty.jsonl: is empty"),
        (["gsm8k", "r.jsonl", "--split", "test"], "'test' is not one of 'train', 'eval'"),
        (["gsm8k", "r.jsonl", "--deadline", "0"], "Invalid value for '--deadline'"),
        (["gsm8c", "r.jsonl"], "error: no task is named 'gsm8c'; did you mean 'gsm8k'?"),
        (["gsm8k", "wrong.jsonl"], "error: wrong.jsonl: line 1: id: the task has no problem 'eval-17'; did you mean"),
    ],
)
def test_a_mistake_is_told_and_nothing_is_left(
    program: Program, tmp_path: Path, arguments: list[str], expected: str
) -> None:
    jsonl(tmp_path / "r.jsonl", *({"response": "#### 72"} for _ in range(6)))
    jsonl(tmp_path / "wrong.jsonl", {"id": "eval-17", "response": "#### 72"})
    jsonl(tmp_path / "empty.jsonl")
    ended = program("verify", *arguments, "--data", f"eval={GSM8K}")
    assert ended.code == 2
    assert "Traceback" not in ended.err
    assert expected in " ".join(ended.err.replace("│", "").split())
    assert not (tmp_path / "runs").exists()


def test_help_and_a_mixture_takes_no_data(tmp_path: Path) -> None:
    shown = call("verify", "--help", cwd=tmp_path)
    for word in ("TASK", "FILE", "--split", "--data", "-k", "--workers", "--deadline", "--rows", "--runs", "--json"):
        assert word.lower() in shown.stdout.lower()
    (tmp_path / "mix.yaml").write_text("name: mix\nmixture: [{task: debug}, {task: arithmetic}]\n")
    message = refused(call("verify", "mix.yaml", "r.jsonl", "--data", "r.jsonl", cwd=tmp_path))
    assert "mix is a mixture; give files under its tasks" in message
