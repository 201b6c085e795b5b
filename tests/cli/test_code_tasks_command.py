"""Code tasks on the command line: `tasks check` with the cheats, `eval` on local files, both with the real sandbox."""

import json
import string
from pathlib import Path

import pytest
from cli_in_process import Program, program_of
from sandboxes import needs_sandbox

from reasonrl import store
from reasonrl.config import ModelConfig, TinyModelConfig
from reasonrl.models.load import load_policy, save_policy

pytestmark = needs_sandbox
DATA = Path(__file__).parents[1] / "data" / "tasks"
SOLVING = "def f(x):\\n    return {2: 4, 3: 9}[x]\\n"
TASK = f"""
name: mine
dataset: {{data_files: {{eval: rows.jsonl}}}}
prompt: {{template: "{{{{ q }}}}"}}
metadata: [tests, solution]
verifiers:
  - name: code
    options: {{adapter: tests, cheats: ["{SOLVING}"]}}
"""


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Program:
    monkeypatch.chdir(tmp_path)
    return program_of(monkeypatch, capsys)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model that can read and write any program in ASCII."""
    tiny = TinyModelConfig(
        characters=string.printable, hidden_size=16, intermediate_size=32, layers=1, heads=2, max_positions=2048
    )
    folder = tmp_path_factory.mktemp("model") / "tiny"
    policy = load_policy(ModelConfig(tiny=tiny), seed=0)
    policy.tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
    save_policy(policy, folder)
    return folder


def test_the_cheats_of_a_code_task_are_tried_and_get_nothing(program: Program) -> None:
    ended = program("tasks", "check", "tiny_code", "--split", "eval", "--rows", "1", "--json", "report.json")
    assert ended.code == 0, ended.out
    (split,) = json.loads(Path("report.json").read_text())["splits"]
    assert split["cheats"]["tried"] >= 12
    assert split["cheats"]["as_expected"] == split["cheats"]["tried"]
    assert (split["right"]["as_expected"], split["wrong"]["as_expected"]) == (1, 1)


def test_a_cheat_that_the_tests_let_pass_is_a_fault(program: Program) -> None:
    """A table of the tests' inputs passes: only more tests could tell."""
    tests = [{"type": "call", "fn": "f", "args": [x], "expected": x * x} for x in (2, 3)]
    row = {"q": "square", "tests": json.dumps(tests), "solution": "def f(x):\n    return x * x\n"}
    Path("rows.jsonl").write_text(json.dumps(row) + "\n")
    Path("mine.yaml").write_text(TASK)
    ended = program("tasks", "check", "mine.yaml", "--json", "report.json")
    assert ended.code == 1, ended.out
    report = json.loads(Path("report.json").read_text())
    assert [fault["kind"] for fault in report["faults"]] == ["cheat"]
    cheats = report["splits"][0]["cheats"]
    assert cheats["tried"] - cheats["as_expected"] == 1


@pytest.mark.parametrize("task", ["humaneval", "mbpp"])
def test_a_code_task_is_evaluated_on_a_local_file(program: Program, model: Path, task: str) -> None:
    file = str(DATA / f"{task}.jsonl")
    given = ("--data", file, "--rows", "2", "-n", "2", "-k", "1,2", "--max-tokens", "8", "--engine", "huggingface")
    ended = program("eval", task, "--model", str(model), *given, "--json", "report.json")
    assert ended.code == 0, ended.err
    report = json.loads(Path("report.json").read_text())
    assert (report["greedy"]["judged"], report["sampled"]["judged"], report["sampled"]["unjudged"]) == (2, 4, 0)
    assert [one["k"] for one in report["sampled"]["pass_at_k"]] == [1, 2]
    rows = store.read(Path("runs") / f"eval-{task}" / "rollouts.parquet")
    assert len(rows) == 6
    assert {row["reward"] for row in rows} == {0.0}
