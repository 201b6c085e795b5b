"""`reasonrl verifiers compare` as a user runs it: two verifiers over one file, where they differ, what hangs."""

import json
from pathlib import Path

import pytest
from cli_calls import call
from cli_in_process import Program, program_of

TASK = """
name: {name}
dataset: {{data_files: {{eval: problems.jsonl}}}}
prompt: {{template: "{{{{ q }}}}"}}
reference: {{column: a}}
verifiers: [{{name: math, options: {{answer: {answer}}}}}]
"""
BOMB = r"\dfrac{7^{\left(7^{\left(7^{7}\right)} - 3\right)} - 7}{48}"
REFERENCES = ["5", r"\frac{1}{3}", "12", r"\frac{1}{"]
RESPONSES = [
    [r"\boxed{5}", r"\boxed{6}", "so 5"],  # both right; both wrong; a last number, which both take
    [r"\boxed{0.333333}"],  # right for math-verify, which rounds to six decimals
    [rf"\boxed{{{BOMB}}}"],  # refused by magnitude, and a hang in math-verify
    [r"\boxed{5}"],  # a reference that neither can read
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("last_number", "boxed"):
        Path(f"{name}.yaml").write_text(TASK.format(name=name, answer=name))
    Path("problems.jsonl").write_text("".join(json.dumps({"q": "?", "a": a}) + "\n" for a in REFERENCES))
    rows = ({"problem_id": f"eval-{n}", "responses": texts} for n, texts in enumerate(RESPONSES))
    Path("r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


@pytest.fixture
def program(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    for name, value in {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    return program_of(monkeypatch, capsys)


def test_math_beside_the_library_with_a_hang(folder: Path) -> None:
    command = ("verifiers", "compare", "last_number.yaml", "r.jsonl", "math", "math_verify", "--workers", "1")
    ended = call(*command, "--deadline", "4", "--json", "out.json", cwd=folder)
    assert ended.returncode == 0, ended.stderr
    shown = " ".join(ended.stdout.split())
    for words in (
        "last_number, 6 responses",
        "│ right │ right │ 2 │",
        "│ wrong │ wrong │ 1 │",
        "│ right │ wrong │ 0 │",
        "│ wrong │ right │ 1 │",
        "│ wrong │ unjudged │ 1 │",
        "│ unjudged │ unjudged │ 1 │",
        r"eval-1, row 1, sample 0 reference \frac{1}{3} math wrong: answer '0.333333'",
        "math_verify right (correct): answer '0.333333', parsed '0.333333000000000', library 'math-verify 0.",
        "math_verify unjudged (timeout): deadline 4.0",
    ):
        assert words in shown
    written = json.loads((folder / "out.json").read_text())
    assert sum(one["responses"] for one in written["counts"]) == written["responses"] == 6
    assert [(one["problem_id"], one["row"]) for one in written["differences"]] == [("eval-1", 1), ("eval-2", 2)]
    assert written["differences"][1]["tail"] == RESPONSES[2][0]
    reasons = [{"correct": 2, "wrong": 2, "too_large": 1, "error": 1}]
    assert written["reasons"] == [*reasons, {"correct": 3, "wrong": 1, "timeout": 1, "error": 1}]


def test_options_of_the_task_and_of_the_command(program: Program) -> None:
    command = ("verifiers", "compare", "boxed.yaml", "r.jsonl", "math", "math:answer=last_number,percent=bare")
    ended = program(*command, "--limit", "0", "--json", "-")
    assert ended.code == 0
    (found,) = json.loads(ended.out)["differences"]
    assert (found["reference"], found["sample"], found["tail"]) == ("5", 2, "so 5")
    assert [one["reason"] for one in found["opinions"]] == ["no_answer", "correct"]
    assert "and 1 more differences" in ended.err


def test_each_task_of_a_mixture_has_its_own_options(program: Program) -> None:
    Path("mix.yaml").write_text("name: mix\nmixture: [{task: boxed.yaml}, {task: last_number.yaml}]\n")
    row = {"responses": ["so 5"]}
    ids = [f"{task}/eval-0" for task in ("boxed", "last_number")]
    Path("both.jsonl").write_text("".join(json.dumps({"problem_id": one, **row}) + "\n" for one in ids))
    ended = program("verifiers", "compare", "mix.yaml", "both.jsonl", "math", "math:answer=last_number", "--json", "-")
    assert [one["problem_id"] for one in json.loads(ended.out)["differences"]] == ["boxed/eval-0"]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("math", "nope", "error: no verifier is named 'nope'; installed are: arithmetic_steps, choice,"),
        ("math", "math", "error: math is compared with itself; give two verifiers, or one with other options: NAME:"),
        ("math", "math:answer", "error: math:answer: 'answer' is no option; write NAME:key=value,key=value"),
        ("math", "math:anwser=boxed", "error: options of verifier 'math': anwser: Extra inputs are not permitted (its"),
        ("math", "math:answer={", "error: math:answer={: '{' is no YAML value"),
    ],
)
def test_a_mistake_is_told(program: Program, first: str, second: str, expected: str) -> None:
    ended = program("verifiers", "compare", "boxed.yaml", "r.jsonl", first, second)
    assert ended.code == 2
    assert expected in " ".join(ended.err.split())
