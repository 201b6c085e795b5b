"""Evaluations over a task that leaves rows out say so and store how many."""

import json
from pathlib import Path

import pytest
from cli_calls import save_tiny_model
from cli_in_process import Program, program_of

from reasonrl.evaluation import report as reports

TASK = """\
name: gaps
dataset: {data_files: {eval: rows.jsonl}, skip_faulty: true}
prompt: {template: "{{ q }}"}
reference: {column: a}
verifiers: [{name: exact}]
sampling: {max_tokens: 4}
"""
LINE = "gaps: 2 of 4 rows left out of the eval split (first: row 1: reference.column: column 'a' holds"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    monkeypatch.chdir(tmp_path)
    rows = [{"q": "1", "a": "1"}, {"q": "2", "a": None}, {"q": "3", "a": "3"}, {"q": "4", "a": None}]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("gaps.yaml").write_text(TASK)
    return program_of(monkeypatch, capsys)


def test_verify_tells_and_stores_what_was_left_out(program: Program) -> None:
    Path("responses.jsonl").write_text('{"problem_id": "eval-0", "response": "1"}\n')
    told = program("verify", "gaps.yaml", "responses.jsonl")
    assert (told.code, told.out.count(LINE)) == (0, 1)
    path = Path("runs/verify-gaps/report.json")
    assert json.loads(path.read_text())["left_out"] == 2
    assert reports.read(path).left_out == 2

    Path("gaps.yaml").write_text(TASK.replace("{data_files: {eval: rows.jsonl}", "{data_files: {eval: whole.jsonl}"))
    Path("whole.jsonl").write_text('{"q": "1", "a": "1"}\n')
    whole = program("verify", "gaps.yaml", "responses.jsonl")
    assert (whole.code, "left out" in whole.out) == (0, False)
    path = Path("runs/verify-gaps-2/report.json")
    assert "left_out" not in json.loads(path.read_text()), "a report as it always was"
    assert reports.read(path).left_out == 0


def test_eval_tells_and_stores_what_was_left_out(program: Program, tmp_path: Path) -> None:
    model = save_tiny_model(tmp_path / "tiny")
    told = program("eval", "gaps.yaml", "--model", str(model), "-n", "1", "--json", "-")
    assert (told.code, told.err.count(LINE), LINE in told.out) == (0, 1, False)
    assert json.loads(told.out)["left_out"] == 2
    assert json.loads(Path("runs/eval-gaps/report.json").read_text())["left_out"] == 2
