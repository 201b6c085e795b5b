"""The bundled tasks on data sets: each YAML over a few rows in its data set's fields (tests/data/tasks)."""

from pathlib import Path

import pytest

from reasonrl import Response, Verifier, tasks
from reasonrl.scoring.resolve import check_problems, resolve
from reasonrl.tasks import Task
from reasonrl.types import Message, Problem

DATA = Path(__file__).parent / "data"

# What the rows of the fixture have as references, read by hand; None where a task has none.
REFERENCES: dict[str, list[str | None]] = {
    "aime24": ["929", "16", "0"],
    "aime25": ["168", "324", "13"],
    "amc23": ["27", "-1", "2.5"],
    "code_contests": [None] * 3,
    "countdown": ["98", "24", "36", "7"],
    "dapo_math": ["170", "41", "-3", "142"],
    "deepmath": ["3", "No", "1", r"\dfrac{\pi^2}{6}"],
    "deepscaler": ["10", r"\frac{1}{4}", r"7\sqrt{2}", "[-1,3]"],
    "gsm8k": ["72", "10", "1,080", "-7", "400", "1,000,000"],
    "humaneval": [None] * 4,
    "humaneval_plus": [None] * 3,
    "livecodebench": [None] * 3,
    "math500": [r"\frac{2}{3}", r"\left( 2, \frac{\pi}{2} \right)", "(-3,3)", r"\text{even}"],
    "math_train": ["2x+1", "10", r"\frac{1}{\sqrt{5}}", "3i, -3i"],
    "mbpp": [None] * 4,
    "mbpp_plus": [None] * 3,
    "mbpp_sanitized": [None] * 4,
    "mmlu_pro": ["C", "C", "G", "J", "C", "A"],
    "olympiadbench": [
        r"$4 \sqrt{5}$",
        r"$\frac{58}{3}$",
        "(2,32), (8,18)",
        "$-1,-9$",
        r"$(4, \log _{10} 2)$",
        "45",
    ],
    "svamp": ["19", "26", "70", "1201565"],
}
# What the last message of a prompt must say, of the first row.
ASKED = {
    "countdown": "Using the numbers 44, 19, 35, make an expression that equals 98.",
    "humaneval": '```python\n\n\ndef truncate_number(number: float) -> float:\n    """ Given a positive',
    "mbpp": '```python\nassert remove_Occ("hello","l") == "heo"\nassert remove_Occ("abcda","a") == "bcd"\nassert',
    "mbpp_plus": '```python\nassert count_long("a long text", 3) == 2\n```',
    "mbpp_sanitized": "ascending order according to the sum of its rows.\n\nThe function must pass these tests:\n\n```",
    "livecodebench": "2N\n\nRead standard input and write standard output.",
    "mmlu_pro": "Which gas makes up most of the air?\n\nA. Oxygen\nB. Argon\nC. Nitrogen\n",
    "svamp": "How much did Marco's strawberries weigh?",
}
# Whose judge needs a sandbox: tests/verifiers/test_code_tasks.py.
CODE = ["code_contests", "humaneval", "humaneval_plus", "livecodebench", "mbpp", "mbpp_plus", "mbpp_sanitized"]


@pytest.fixture
def task(name: str) -> Task:
    """The bundled task over the rows of its fixture, all of them and in their order."""
    bundled = tasks.read(name)
    assert isinstance(bundled, Task)
    assert bundled.config.dataset is not None
    file = str(DATA / ("gsm8k_rows.jsonl" if name == "gsm8k" else f"tasks/{name}.jsonl"))
    files = dict.fromkeys(bundled.config.dataset.splits, file)
    dataset = bundled.config.dataset.model_copy(update={"data_files": files, "shuffle": None, "hold_out": 0})
    return Task(bundled.config.model_copy(update={"dataset": dataset}), bundled.path)


def problems(task: Task) -> list[Problem]:
    """Those of its evaluation split, or of its training split if it has only that."""
    return task.problems(task.splits()[-1])


def test_every_bundled_task_on_a_data_set_is_tested_here() -> None:
    on_data = [name for name in tasks.names() if any(part.config.dataset for part, _ in tasks.read(name).parts)]
    assert on_data == sorted(REFERENCES)
    assert sorted(path.stem for path in (DATA / "tasks").glob("*.jsonl")) == sorted({*REFERENCES} - {"gsm8k"})
    assert [name for name in on_data if tasks.read(name).missing] == []
    judges = {name: tasks.read(name).parts[0][0].verifiers[0].name for name in on_data}
    assert [name for name in on_data if judges[name] == "code"] == CODE


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_a_bundled_task_reads_rows_in_its_data_set_s_fields(name: str, task: Task) -> None:
    config = task.config
    assert config.name == name
    assert config.description
    assert config.license
    assert config.caveats
    assert config.citation
    found = problems(task)
    assert [problem.reference for problem in found] == REFERENCES[name]
    for split in task.splits():
        assert all(message["content"].strip() for problem in task.problems(split) for message in chat(problem))
    assert ASKED.get(name, "") in chat(found[0])[-1]["content"]


@pytest.mark.parametrize("name", sorted({*REFERENCES} - {*CODE}))
def test_the_judge_of_a_bundled_task_tells_a_right_response_from_a_wrong_one(name: str, task: Task) -> None:
    check_problems(resolve(task), problems(task))
    judge = judge_of(task)
    for problem in problems(task):
        assert judge.audit(problem) is None
        right, wrong = judge.right_response(problem), judge.wrong_response(problem)
        assert right is not None
        assert wrong is not None
        assert judge.verify(problem, Response(right)).reason == "correct"
        assert judge.verify(problem, Response(wrong)).reward == 0


@pytest.mark.parametrize(("name", "rows"), [("gsm8k", 6), ("math_train", 4), ("deepscaler", 2), ("deepmath", 4)])
def test_the_judge_of_a_bundled_task_finds_its_demonstrations_right(name: str, rows: int, task: Task) -> None:
    demonstrations = task.demonstrations()
    assert len(demonstrations) == rows
    for problem, text in demonstrations:
        assert judge_of(task).verify(problem, Response(text)).reason == "correct"


@pytest.mark.parametrize("name", ["mmlu_pro"])
def test_mmlu_pro_shows_five_worked_examples_that_its_judge_finds_right(name: str, task: Task) -> None:
    (problem,) = task.problems("train")  # the sixth row
    by_question = {chat(row)[-1]["content"]: row for row in problems(task)}
    turns = chat(problem)[1:-1]  # between the system message and the question
    assert len(turns) == 2 * 5
    for question, answer in zip(turns[::2], turns[1::2], strict=True):
        assert (question["role"], answer["role"]) == ("user", "assistant")
        assert answer["content"].startswith("Let's think step by step.")
        row = by_question[question["content"]]
        assert row.id != problem.id
        assert judge_of(task).verify(row, Response(answer["content"])).reason == "correct"


@pytest.mark.parametrize("name", ["olympiadbench"])
def test_olympiadbench_names_the_unit_asked_for(name: str, task: Task) -> None:
    found = {problem.id: chat(problem)[-1]["content"] for problem in problems(task)}
    assert found["2253"].endswith("from $A$ to $B$ ?\n\nGive the answer in the unit minute.")
    assert found["2897"].endswith("Compute $A L$.")


def chat(problem: Problem) -> tuple[Message, ...]:
    assert not isinstance(problem.prompt, str)
    return problem.prompt


def judge_of(task: Task) -> Verifier:
    judge = resolve(task)[0]
    return judge.verifier(judge.options)
