"""`reasonrl explain` as a user meets it."""

import subprocess
import sys

import pytest
from cli_in_process import Program, program_of
from small_runs import ROOT


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    monkeypatch.setenv("COLUMNS", "40")
    return program_of(monkeypatch, capsys)


RUNS = sorted(
    path.relative_to(ROOT / "configs").with_suffix("").as_posix() for path in (ROOT / "configs").rglob("*.yaml")
)


@pytest.mark.parametrize("name", RUNS)
def test_every_bundled_run_is_explained(program: Program, name: str) -> None:
    code, out, err = program("explain", name)
    assert (code, err) == (0, "")
    assert "minimise over θ" in out
    assert "\x1b" not in out


def test_the_quickstart_says_where_it_is_not_the_papers_grpo(program: Program) -> None:
    _, out, _ = program("explain", "quickstart")
    for line in (
        "\n            std none; the paper: divided by the std of the group, without saying whether 1/n or 1/(n − 1)\n",
        "\n            clip_high 0.28; the paper: one ε below and above 1\n",
        "\n            aggregation token_mean; the paper: the mean over a response's tokens, then over responses\n",
        "\n            kl.coefficient 0; the paper: 0.04\n",
        "\nloss        ℓ = −min(ρA, clip(ρ, 0.8, 1.28)·A),   ρ = π_θ(o_t)/π_old(o_t)\n",  # one line, however narrow
        "\n            50 steps × 64 problems × 8 responses = 25,600 responses\n",
    ):
        assert line in out
    assert "no setting deviates" not in out


def test_overrides_show_and_markup_stays_text(program: Program) -> None:
    overrides = ['algorithm.process={steps: separator, separator: "[/x][red]"}', "algorithm.clip_low=0.25"]
    code, out, _ = program("explain", "quickstart", *overrides)
    assert code == 0
    assert "by separator '[/x][red]', each" in out
    assert "clip(ρ, 0.75, 1.28)" in out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("nope",), "error: no run is named 'nope'"),
        (("quickstart", "task=nope"), "error: no task is named 'nope'"),
        (("quickstart", "algorithm.clip_hih=1"), "did you mean 'clip_high'?"),
    ],
)
def test_a_fault_is_told(program: Program, arguments: tuple[str, ...], expected: str) -> None:
    code, out, err = program("explain", *arguments)
    assert (code, out) == (2, "")
    assert expected in err


def test_no_torch_is_imported() -> None:
    check = "import sys; from reasonrl.cli.explain import explain; explain('quickstart'); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\nFalse\n")
