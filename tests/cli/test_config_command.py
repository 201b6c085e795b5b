"""`reasonrl config show` prints the run that would be stored; `config schema` writes the schema for editors."""

import json
from pathlib import Path

import pytest
from cli_in_process import Program, program_of
from jsonschema import Draft202012Validator

from reasonrl import config, yamlfile
from reasonrl.schema import json_schema


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    return program_of(monkeypatch, capsys)


@pytest.fixture
def resolved(tmp_path: Path) -> Path:
    """What a run of the quickstart's control on another seed stores."""
    config.save(config.load("quickstart_control", ["seed=7"]), tmp_path / "config.yaml")
    return tmp_path / "config.yaml"


def test_show_prints_what_a_run_stores(program: Program, resolved: Path) -> None:
    code, out, err = program("config", "show", "quickstart_control", "seed=7")
    assert (code, err) == (0, "")
    assert out == resolved.read_text(encoding="utf-8")
    assert "\x1b" not in out
    assert Draft202012Validator(json_schema("run")).is_valid(yamlfile.read(resolved).data)


def test_show_has_colours_on_a_terminal_and_the_same_text(
    program: Program, resolved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    _, out, _ = program("config", "show", str(resolved))
    assert "\x1b[" in out


def test_show_tells_a_fault(program: Program) -> None:
    code, out, err = program("config", "show", "quickstart", "seed=x")
    assert (code, out) == (2, "")
    assert err.startswith("error: from the command line, seed=x: seed: expected a whole number")


def test_show_tells_that_there_is_no_such_task(program: Program) -> None:
    code, out, err = program("config", "show", "debug/grpo", "task=gsm9k")
    assert (code, out) == (2, "")
    assert err.startswith("error: no task is named 'gsm9k'; did you mean 'gsm8k'?")


@pytest.mark.parametrize("kind", ["run", "task"])
def test_schema_is_printed_and_written(program: Program, tmp_path: Path, kind: str) -> None:
    _, out, _ = program("config", "schema", kind)
    assert json.loads(out)["title"] == f"A {kind} YAML of reasonrl"
    code, silent, _ = program("config", "schema", kind, "--out", str(tmp_path / "schema.json"))
    assert (code, silent) == (0, "")
    assert (tmp_path / "schema.json").read_text(encoding="utf-8") == out


def test_a_schema_of_something_else_is_refused(program: Program) -> None:
    code, _, err = program("config", "schema", "model")
    assert code == 2
    assert "'model' is not one of 'run', 'task'" in err
