"""The program as a user meets it: help, version, verifiers, faults in a run — in words, with exit code 2."""

import subprocess
import sys
from pathlib import Path

import pytest
from cli_calls import PROGRAM, call, refused
from pydantic import BaseModel, Field

from reasonrl import ReasonRLError, Response, Verdict, Verifier
from reasonrl.cli import main
from reasonrl.cli import verifiers as command
from reasonrl.plugins import BrokenPlugin, VerifierSource, installed
from reasonrl.types import Problem


def test_version_and_help(tmp_path: Path) -> None:
    assert call("--version", cwd=tmp_path).stdout.startswith("reasonrl 0.")
    shown = call("--help", cwd=tmp_path)
    assert shown.returncode == 0
    for word in ("train", "eval", "verifiers", "--version", "Reinforcement learning for reasoning"):
        assert word in shown.stdout


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["train"], ["CONFIG", "Dotted overrides", "seed=2"]),
        (["eval"], ["TASK", "--model", "-n", "-k", "--rows", "--data", "--json", "[default: 4]"]),
        (["verifiers"], ["list", "info"]),
        (["verifiers", "info"], ["NAME"]),
    ],
)
def test_every_command_explains_itself(tmp_path: Path, command: list[str], words: list[str]) -> None:
    shown = call(*command, "--help", cwd=tmp_path)
    assert shown.returncode == 0
    for word in words:
        assert word.lower() in shown.stdout.lower()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["trian"], "No such command 'trian'"),
        (["train"], "Missing argument"),
        (["train", "nope"], "error: no run is named 'nope'; there are: debug/grpo, debug/"),
        (["train", "nope.yaml"], "error: nope.yaml: cannot be read: No such file or directory"),
        (["train", "bad.yaml"], "bad.yaml:2: seeed: unknown key; did you mean 'seed'?"),
        (["train", "quickstart", "seed=x"], "error: from the command line, seed=x: seed: expected a whole"),
        (["train", "quickstart", "algorithm.name=grop"], "did you mean 'grpo'?"),
        (["train", "quickstart", "task=nope"], "error: no task is named 'nope'; there are: aime24, "),
        (["train", "quickstart", "seed"], "error: 'seed' is no override; write key=value"),
        (["verifiers", "info", "nope"], "error: no verifier is named 'nope'; installed are: arithmetic_steps, choice"),
    ],
)  # fmt: skip
def test_a_mistake_gets_a_message_and_exit_code_2(tmp_path: Path, arguments: list[str], expected: str) -> None:
    (tmp_path / "bad.yaml").write_text("name: x\nseeed: 1\n")
    assert expected in refused(call(*arguments, cwd=tmp_path))


def test_verifiers_list_and_info(tmp_path: Path) -> None:
    listed = call("verifiers", "list", cwd=tmp_path).stdout
    for name in ("arithmetic_steps", "choice", "exact", "format", "length", "math"):
        assert name in listed
    assert "outcome, process" in listed
    info = call("verifiers", "info", "exact", cwd=tmp_path).stdout
    for word in ("reads reference", "ignore_case", "bool", "False", "compare without regard to case"):
        assert word in " ".join(info.split())


def test_the_module_is_the_program(tmp_path: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "reasonrl", "--version"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith("reasonrl 0.")


@pytest.mark.parametrize(
    "arguments",
    [
        "verifiers list",
        "verifiers info math",
        "--help",
        "train nope",
        "train quickstart task=nope",
        "eval nope --model x",
        "eval arithmetic --model x -k 9",
    ],
)
def test_what_needs_no_model_imports_no_torch(arguments: str) -> None:
    script = (
        f"import sys; sys.argv = ['reasonrl', *{arguments.split()!r}]\n"
        "from reasonrl.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'transformers', 'datasets', 'sympy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=120)


class Options(BaseModel):
    parts: list[str] = Field(default_factory=lambda: ["[bold]", "b"], description="which [parts] count")
    share: float = Field(description="needed")


class Odd(Verifier):
    """One line
    that goes on.

    And a list:
        first
        second
    """

    name = "odd"
    Options = Options

    def verify(self, problem: Problem, response: Response) -> Verdict:
        return Verdict(1.0, "correct")


def test_info_of_a_verifier_with_odd_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(installed().verifiers, "odd", VerifierSource(Odd, "plugin", "dist", "1.2"))
    monkeypatch.setenv("COLUMNS", "120")
    command.info("odd")
    shown = capsys.readouterr().out
    assert "One line that goes on.\n\nAnd a list:\n    first\n    second\n" in shown
    assert "['[bold]', 'b']" in shown  # the default of a factory, and no markup
    assert "which [parts] count" in shown
    assert "(required)" in shown
    assert "reads       the response alone" in shown


def test_a_broken_plugin_is_listed_with_its_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(installed(), "broken", [BrokenPlugin("bad", "bad-dist", "ImportError: no [module] named x")])
    command.list_verifiers()
    shown = capsys.readouterr().out
    assert "broken: plugin bad (bad-dist)\nImportError: no [module] named x" in shown
    assert "exact" in shown


def test_an_error_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = "a.yaml:3: [bold]no markup[/] \\[x] \\" + " and a line that is longer than any terminal" * 5

    def fails() -> None:
        raise ReasonRLError(text)

    monkeypatch.setattr(sys.modules["reasonrl.cli.main"], "app", fails)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert capsys.readouterr().err == f"error: {text}\n"


def test_the_program_is_installed() -> None:
    assert PROGRAM.is_file()
