"""Mistakes in a run: each ends with exit code 2 and a message that says where it is and what to do."""

from pathlib import Path

import pytest
from cli_in_process import Program, program_of
from secret_verifier import TASK, VARIABLE, offer

GOOD = """\
name: mine
task: arithmetic
model: {path: some/model}
algorithm:
  name: grpo
  steps: 2
  problems_per_step: 4
"""


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Program:
    monkeypatch.chdir(tmp_path)
    return program_of(monkeypatch, capsys)


def message(program: Program, *arguments: str) -> str:
    """What `reasonrl train` says of a run that cannot be."""
    ended = program("train", *arguments)
    assert ended.code == 2
    assert "Traceback" not in ended.out + ended.err
    assert ended.err.startswith("error: ")
    return ended.err.removeprefix("error: ").rstrip("\n")


@pytest.mark.parametrize(
    ("text", "where", "cure"),
    [
        (GOOD + "\tseed: 1\n", "run.yaml:8: not valid YAML: ", "YAML is indented with spaces"),
        (GOOD + "name: other\n", "run.yaml:8: the key 'name' ", "stands on line 1 already"),
        (
            GOOD + "runs: !!python/object/apply:os.system ['touch owned']\n",
            "run.yaml:8: not valid YAML: ",
            "only plain values are read, no Python objects",
        ),
        (GOOD + "seeed: 1\n", "run.yaml:8: seeed: unknown key", "did you mean 'seed'?"),
        (GOOD.replace("steps: 2", "steps: many"), "run.yaml:6: algorithm.steps: ", "expected a whole number"),
        (GOOD + "  group_size: 1\n", "run.yaml:8: algorithm.group_size: ", "expected at least 2, not 1"),
        (GOOD + "  group_size: 1\n", "run.yaml:8: ", "its own mean, so that every advantage would be 0"),
        (GOOD + "  minibatches: 3\n", "run.yaml:4: algorithm: ", "minibatches that work: 1, 2, 4"),
        (GOOD + "extends: run.yaml\n", "run.yaml:8: extends: the files go in a circle: ", "run.yaml → run.yaml"),
        (GOOD + "extends: base.yaml\n", "run.yaml:8: extends: there is no file base.yaml", "relative to the file"),
        (GOOD + "hf_token: hunter2\n", "run.yaml:8: hf_token: unknown key", "from the environment (the hub: HF_TOKEN)"),
        (GOOD + "runs: ${RUNS}\n", "run.yaml:8: runs: ${RUNS}: ", "write the value, or give it on the command line"),
    ],
)  # fmt: skip
def test_a_fault_of_the_file(program: Program, text: str, where: str, cure: str) -> None:
    Path("run.yaml").write_text(text)
    said = message(program, "run.yaml")
    assert said.startswith(where)
    assert cure in said
    assert "hunter2" not in said
    assert not Path("owned").exists()


def test_a_run_that_is_not_there(program: Program) -> None:
    assert message(program, "mine.yaml") == "mine.yaml: cannot be read: No such file or directory"
    said = message(program, "quickstat")
    assert said.startswith("no run is named 'quickstat'; did you mean 'quickstart'? there are: ")
    assert said.endswith("or give the path of a .yaml file")


@pytest.mark.parametrize(
    ("override", "where", "cure"),
    [
        ("seed", "'seed' is no override", "write key=value"),
        ("seed=x", "from the command line, seed=x: seed: ", "expected a whole number, not 'x'"),
        ("algorithm.grup_size=4", "from the command line, algorithm.grup_size=4: ", "did you mean 'group_size'?"),
        ("evaluation.k=[8]", "with evaluation.k=[8] from the command line: evaluation: ", "raise evaluation.samples"),
        ("algorithm.steps.x=1", "from the command line, algorithm.steps.x=1: ", "algorithm.steps is a value"),
        ("model.token=hunter2", "from the command line, model.token=…: model.token: ", "(the hub: HF_TOKEN)"),
    ],
)  # fmt: skip
def test_a_fault_on_the_command_line(program: Program, override: str, where: str, cure: str) -> None:
    Path("run.yaml").write_text(GOOD)
    said = message(program, "run.yaml", override)
    assert where in said
    assert cure in said
    assert "hunter2" not in said


def test_a_secret_that_is_not_set(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch)
    monkeypatch.delenv(VARIABLE, raising=False)
    Path("judged.yaml").write_text(TASK)
    Path("run.yaml").write_text(GOOD.replace("arithmetic", "judged.yaml"))
    said = message(program, "run.yaml")
    assert said.startswith("judged.yaml:9: verifiers.0.options.api_key: the environment variable REASONRL_TEST_KEY")
    assert "export REASONRL_TEST_KEY=" in said


def test_a_secret_in_the_task(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch)
    Path("judged.yaml").write_text(TASK.replace(f"${{{VARIABLE}}}", "hunter2"))
    Path("run.yaml").write_text(GOOD.replace("arithmetic", "judged.yaml"))
    said = message(program, "run.yaml")
    assert said.startswith("judged.yaml:9: verifiers.0.options.api_key: a secret is not written into a YAML")
    assert "write ${NAME}" in said
    assert "hunter2" not in said
