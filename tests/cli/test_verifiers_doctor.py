"""`reasonrl verifiers doctor`: each tier of the code verifier's sandbox, tried on this machine."""

from pathlib import Path

import pytest
from cli_in_process import Program, program_of
from sandboxes import needs_sandbox

from reasonrl_code.sandbox.tiers import TIERS


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    monkeypatch.setenv("COLUMNS", "300")
    return program_of(monkeypatch, capsys)


def rows(out: str) -> dict[str, list[list[str]]]:
    """The table's rows by part; those of the conclusion, which is of no part, under its first words."""
    found: dict[str, list[list[str]]] = {}
    part = ""
    for line in out.splitlines():
        if line.startswith("├"):
            part = "conclusion"
        elif line.startswith("│"):
            cells = [cell.strip() for cell in line.strip("│").split("│")]
            part = cells[0] or part
            found.setdefault(part, []).append(cells[1:])
    return found


@needs_sandbox
def test_each_tier_is_tried_and_one_is_chosen(program: Program) -> None:
    ended = program("verifiers", "doctor")
    assert ended.code == 0, ended.out
    found = rows(ended.out)
    assert list(found) == [*TIERS, "conclusion"]
    pool = {promise: mark for promise, mark, _ in found["bwrap-pool"]}
    assert set(pool.values()) == {"holds"}
    assert {"it starts", "there is no network", "memory is limited", "no process is left"} <= set(pool)
    weak = {promise: mark for promise, mark, _ in found["unsafe-subprocess"]}
    assert weak["files of the machine are out of sight"] == "not promised"
    assert found["conclusion"] == [["programs run in tier bwrap-pool", "holds", ""]]


def test_without_bubblewrap_it_says_how_to_install_it(
    program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    ended = program("verifiers", "doctor")
    assert ended.code == 1
    found = rows(ended.out)
    for tier in ("bwrap-pool", "bwrap"):
        ((promise, mark, seen),) = found[tier]
        assert (promise, mark) == ("it starts", "does not hold")
        assert "apt-get install bubblewrap" in seen
    ((conclusion, mark, seen),) = found["conclusion"]
    assert (conclusion, mark) == ("programs can be run", "does not hold")
    assert "apt-get install bubblewrap" in seen
    assert "opt in to a weaker tier" in seen
