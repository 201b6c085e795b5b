"""Bad input to the real program: exit code 2, the file or flag at fault, the cure, and never a traceback."""

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_calls import save_tiny_model
from cli_in_process import Program, program_of
from small_runs import offered, reset_accelerate

from reasonrl import Problem, Response, Verdict, Verifier
from reasonrl.plugins import BrokenPlugin, installed

TASK = """\
name: mine
dataset:
  data_files: {train: rows.jsonl, eval: rows.jsonl}
prompt:
  template: "{{ question }}"
reference:
  column: answer
verifiers:
- name: arithmetic_steps
  options: {answer: ":"}
sampling: {max_tokens: 8}
"""
RUN = """\
name: mine
task: mine.yaml
model:
  tiny: {characters: "0123456789+=,:", hidden_size: 16, intermediate_size: 32, layers: 1, heads: 2, max_positions: 32}
algorithm: {name: grpo, steps: 1, problems_per_step: 2, group_size: 2}
verification: {workers: 1}
evaluation: {samples: 1}
"""
ROWS: list[dict[str, Any]] = [{"question": f"{n}+1=", "answer": str(n + 1), "level": n} for n in range(4)]

Refusal = Callable[..., str]


@pytest.fixture
def refusal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Refusal:
    """What a command says of a task, rows and a run that are fine but for what is changed in them."""
    monkeypatch.chdir(tmp_path)
    program: Program = program_of(monkeypatch, capsys)
    reset_accelerate()

    def refused(
        *command: str, task: str = TASK, run: str = RUN, rows: list[dict[str, Any]] | None = None, line: str = ""
    ) -> str:
        Path("mine.yaml").write_text(task)
        Path("run.yaml").write_text(run)
        Path("rows.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in (ROWS if rows is None else rows)) + line
        )
        ended = program(*(command or ("train", "run.yaml")))
        assert ended.code == 2, ended
        assert "Traceback" not in ended.err + ended.out
        assert not (tmp_path / "runs").exists(), "a run that could not begin leaves nothing behind"
        return " ".join(ended.err.removeprefix("error: ").split())

    return refused


def changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize("command", [("train", "run.yaml"), ("eval", "mine.yaml", "--model", "nowhere/model")])
def test_a_model_folder_that_is_not_there(refusal: Refusal, command: tuple[str, ...]) -> None:
    run = RUN.replace(RUN[RUN.index("  tiny") : RUN.index("algorithm")], "  path: ./nowhere/model\n")
    message = refusal(*command, run=run)
    assert "nowhere/model" in message
    if command[0] == "train":
        assert message.startswith("model.path: there is no folder ./nowhere/model")


def test_a_hub_out_of_reach(refusal: Refusal, monkeypatch: pytest.MonkeyPatch) -> None:
    task = changed(TASK, "data_files: {train: rows.jsonl, eval: rows.jsonl}", "hub: someone/something")
    message = refusal(task=task)
    assert message.startswith("mine.yaml: the hub cannot be reached, and someone/something has not been loaded")
    assert "`task.data_files.eval=FILE` in a run" in message or "`task.data_files.train=FILE` in a run" in message


def test_a_prompt_longer_than_the_context(refusal: Refusal) -> None:
    message = refusal(rows=[*ROWS, {"question": "1+" * 20 + "1=", "answer": "21"}])
    assert message.startswith("problem train-4: the prompt has 42 tokens, with sampling.max_tokens 8")
    assert "the model's 32 positions" in message
    assert "lower sampling.max_tokens, or leave such problems out of training with task.max_prompt_tokens" in message


def test_an_evaluation_whose_prompt_is_longer_than_the_context(refusal: Refusal, tmp_path: Path) -> None:
    save_tiny_model(tmp_path / "model")
    rows = [*ROWS, {"question": "1+" * 40 + "1=", "answer": "41"}]
    message = refusal("eval", "mine.yaml", "--model", "model", rows=rows)
    assert message.startswith("problem eval-4: the prompt has 82 tokens")


def test_a_verifier_that_is_not_installed(refusal: Refusal) -> None:
    message = refusal(task=changed(TASK, "arithmetic_steps", "arithmetik"))
    assert message.startswith("mine.yaml:9: no verifier is named 'arithmetik'; installed are: arithmetic_steps, ")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("column: answer", "column: anwser", "mine.yaml: row 0: reference.column: no column 'anwser'; the data has: "),
        ("{{ question }}", "{{ qestion }}", "row 0: prompt.template: 'qestion' is undefined (the data has: answer, "),
        ("sampling", "metadata: [tests]\nsampling", "mine.yaml: metadata: no column 'tests'; the data has: answer, "),
        ("sampling", "id: key\nsampling", "mine.yaml: row 0: id: no column 'key'; the data has: answer, level, "),
        ("sampling", "columns: {q: frage}\nsampling", "columns.q: no column 'frage'; the data has: answer, level, "),
    ],
)
def test_a_column_that_is_not_there(refusal: Refusal, old: str, new: str, expected: str) -> None:
    assert expected in refusal(task=changed(TASK, old, new))


def test_a_reference_that_the_verifier_cannot_read(refusal: Refusal) -> None:
    rows = [*ROWS[:2], {"question": "2+1=", "answer": "three"}]
    message = refusal(run=changed(RUN, "problems_per_step: 2", "problems_per_step: 3"), rows=rows)
    assert message.startswith("mine.yaml: row 2: the reference of problem train-2 is unusable: ")
    assert "three" in message
    assert "leave the row out with dataset.where" in message


def test_a_reference_that_is_not_there_at_all(refusal: Refusal) -> None:
    message = refusal(rows=[*ROWS, {"question": "5+1=", "answer": None}])
    assert "mine.yaml: row 4: reference.column: column 'answer' holds None, expected text or a number" in message


@pytest.mark.parametrize("columns", ["reference:\n  column: answer\n"])
def test_a_verifier_without_what_it_reads(refusal: Refusal, columns: str) -> None:
    message = refusal(task=changed(TASK, columns, ""))
    assert "compares with a reference, and problem eval-0 has none; give the task a `reference`" in message


def test_a_group_of_one(refusal: Refusal) -> None:
    message = refusal(run=changed(RUN, "group_size: 2", "group_size: 1"))
    assert message.startswith("run.yaml:5: algorithm.group_size: ")
    assert "at least 2" in message


def test_an_empty_data_set_and_an_empty_filter(refusal: Refusal) -> None:
    assert refusal(rows=[]).startswith("mine.yaml: the eval split has no rows")
    task = changed(TASK, "eval: rows.jsonl}", "eval: rows.jsonl}\n  where: {level: 9}")
    message = refusal(task=task)
    assert message == "mine.yaml: dataset.where keeps none of 4 rows; in them level is 0, 1, 2, 3, …"


def test_a_file_that_is_not_there_or_not_json(refusal: Refusal) -> None:
    message = refusal("train", "run.yaml", "task.data_files.train=none.jsonl")
    assert message.startswith("mine.yaml: data_files.train: there is no file none.jsonl (looked for in ")
    assert "mine.yaml: data_files.eval: rows.jsonl:5: not JSON: " in refusal(line="{nonsense\n")


def test_a_plugin_that_fails_on_import(refusal: Refusal, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = BrokenPlugin("theirs", "their-package", "ImportError: no module named missing")
    monkeypatch.setattr(installed(), "broken", [broken])
    message = refusal(task=changed(TASK, "arithmetic_steps", "theirs"))
    assert "no verifier is named 'theirs'" in message
    assert "plugin theirs (their-package) could not be loaded: ImportError: no module named missing" in message


class Raises(Verifier):
    """Cannot judge anything."""

    name = "raises"
    isolation = "inline"

    def verify(self, problem: Problem, response: Response) -> Verdict:
        raise KeyError("what I need")


def test_a_plugin_that_raises_in_verify(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(installed().verifiers, "raises", offered(Raises)["raises"])
    Path("mine.yaml").write_text(TASK.replace('arithmetic_steps\n  options: {answer: ":"}', "raises"))
    Path("run.yaml").write_text(RUN)
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    reset_accelerate()
    ended = program_of(monkeypatch, capsys)("train", "run.yaml")
    assert ended.code == 2
    message = " ".join(ended.err.split())
    assert "verifier 'raises' gave the reason 'error'" in message
    assert "KeyError: 'what I need'" in message, "the verifier's own error is the evidence"
    assert "Fix the verifier" in message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: mine\n\tprompt: x\n", "mine.yaml:2: not valid YAML: "),
        (TASK + "name: again\n", "mine.yaml:12: the key 'name' stands on line 1 already"),
        (TASK + "license: !!python/name:os.system x\n", "mine.yaml:12: not valid YAML: "),
        (TASK + "licence: MIT\n", "mine.yaml:12: licence: unknown key; did you mean 'license'?"),
        (
            TASK.replace("max_tokens: 8", "max_tokens: none"),
            "mine.yaml:11: sampling.max_tokens: expected a whole number",
        ),
    ],
)
def test_a_task_yaml_at_fault(refusal: Refusal, text: str, expected: str) -> None:
    assert expected in refusal(task=text)


def test_a_template_that_reaches_for_what_it_must_not(refusal: Refusal, tmp_path: Path) -> None:
    reaching = "{{ question.__class__.__mro__[1].__subclasses__() }}"
    message = refusal(task=changed(TASK, "{{ question }}", reaching))
    assert message.startswith("mine.yaml: row 0: prompt.template: ")
    assert "unsafe" in message


def test_what_is_fine_but_for_the_change_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that every test here changes do train as they are."""
    from typer.testing import CliRunner

    from reasonrl.cli.main import app

    monkeypatch.chdir(tmp_path)
    reset_accelerate()
    Path("mine.yaml").write_text(TASK)
    Path("run.yaml").write_text(textwrap.dedent(RUN))
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    result = CliRunner().invoke(app, ["train", "run.yaml"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    reset_accelerate()
