"""`reasonrl tasks show` where rows are at fault or absent, and `tasks check` where there is no terminal."""

import io
import json
import time
from pathlib import Path
from typing import Any

import pytest
from cli_in_process import Program, program_of
from rich.console import Console

from reasonrl.cli import tasks as command

TASK = """\
name: mine
dataset: {data_files: {train: train.jsonl}}
prompt: {template: "{{ q }}"}
reference: {column: a}
verifiers: [{name: exact}]
"""
RIGHT, FAULTY = {"q": "1+1?", "a": "2"}, {"q": "1+1?", "a": ""}


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Program:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    return program_of(monkeypatch, capsys)


def write(name: str, *rows: dict[str, Any]) -> str:
    Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path(f"{name}.yaml").write_text(TASK.replace("mine", name).replace("train.jsonl", f"{name}.jsonl"))
    return f"{name}.yaml"


def test_a_row_that_cannot_become_a_problem_is_shown_as_such(program: Program) -> None:
    ended = program("tasks", "show", write("mine", FAULTY, RIGHT))
    assert (ended.code, ended.err) == (0, "")
    assert "mine.yaml: row 0: reference.column: column 'a' holds ''" in ended.out
    assert "reference  2" in ended.out


def test_it_is_an_error_if_no_row_shown_can_become_a_problem(program: Program) -> None:
    ended = program("tasks", "show", write("mine", FAULTY, FAULTY, RIGHT), "--rows", "2")
    assert ended.code == 2
    assert "row 1: reference.column: column 'a' holds ''" in ended.out
    assert "sampling   temperature" in ended.out, "all else is shown before"
    assert "mine.yaml: none of the rows shown can become a problem" in ended.err


def test_it_is_an_error_if_there_are_no_rows(program: Program) -> None:
    ended = program("tasks", "show", write("mine"))
    assert ended.code == 2
    assert "mine.yaml: no rows in the train split" in ended.err
    assert program("tasks", "show", "mine.yaml", "--rows", "0").code == 0


def test_the_faults_of_all_parts_are_told(program: Program) -> None:
    parts = [write("one"), write("two", RIGHT), write("three", FAULTY)]
    Path("mix.yaml").write_text("name: mix\nmixture:\n" + "".join(f"- task: {part}\n" for part in parts))
    ended = program("tasks", "show", "mix.yaml")
    assert ended.code == 2
    assert "one.yaml: no rows" in ended.err
    assert "three.yaml: none of the rows" in ended.err
    assert "reference  2" in ended.out


def test_a_check_without_a_terminal_says_at_once_what_is_read(program: Program) -> None:
    ended = program("tasks", "check", write("mine", RIGHT))
    assert ended.code == 0
    assert ended.out.splitlines()[0] == "mine, train: reading"
    ended = program("tasks", "check", "mine.yaml", "--json", "-")
    assert json.loads(ended.out)["passed"]
    assert ended.err.splitlines()[0] == "mine, train: reading"


def test_a_long_check_without_a_terminal_prints_a_line_every_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while a generator makes all of its rows, and nothing is told."""
    monkeypatch.setattr(command, "_PLAIN_EVERY", 0.2)
    output = io.StringIO()
    with command.show_progress(Console(width=20, file=output)) as progress:
        progress("mine, train: reading", 0, None)
        time.sleep(1)
        for done in range(1, 1001):
            progress("mine, train: [checked]", done, 2000)
        time.sleep(1)
    first, second, *others = output.getvalue().splitlines()
    assert (first, second) == ("mine, train: reading", "mine, train: reading, 0 s")
    assert others[-1].startswith("mine, train: [checked] 1000 of 2000 rows, ")
    assert len(others) < 20
