"""Tasks: real GSM8K rows through the bundled YAML, and every way in which a task or its data can be at fault."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reasonrl import ReasonRLError, Response, tasks
from reasonrl.generators import Split
from reasonrl.plugins import installed
from reasonrl.scoring.records import weigh
from reasonrl.scoring.resolve import check_problems, resolve
from reasonrl.tasks import Task
from reasonrl.types import Problem

ROWS = str(Path(__file__).parent / "data" / "gsm8k_rows.jsonl")

TASK = """\
name: mine
dataset: {data_files: {train: FILE, eval: FILE}}
prompt:
  template: "Q: {{ question }}"
reference:
  column: answer
verifiers:
- name: exact
"""
PLAIN = [{"question": "1 + 1?", "answer": "2"}, {"question": "2 + 2?", "answer": "4"}]


@pytest.fixture
def make(tmp_path: Path) -> Any:
    """A task from its YAML text and rows."""

    def task(text: str = TASK, rows: list[dict[str, Any]] = PLAIN) -> Task:
        data = tmp_path / "rows.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        (tmp_path / "mine.yaml").write_text(text.replace("FILE", str(data)))
        return single(str(tmp_path / "mine.yaml"))

    return task


def single(name: str, data_files: Mapping[Split, str] | None = None) -> Task:
    """A task that is no mixture."""
    task = tasks.load(name, data_files)
    assert isinstance(task, Task)
    return task


def refusal(call: Any, *arguments: Any) -> str:
    with pytest.raises(ReasonRLError) as caught:
        call(*arguments)
    return str(caught.value)


def reward_of(task: Task, problem: Problem, text: str) -> tuple[float | None, bool | None]:
    verifiers = resolve(task)
    verdicts = [v.verifier(v.options).verify(problem, Response(text)) for v in verifiers]
    scored = weigh(verifiers, verdicts)
    return scored.reward, scored.correct


# GSM8K as it is


def test_gsm8k_reads_the_references_of_real_rows() -> None:
    problems = single("gsm8k", {"train": ROWS}).problems("train")
    assert [p.reference for p in problems] == ["72", "10", "1,080", "-7", "400", "1,000,000"]
    assert [p.id for p in problems] == [f"train-{index}" for index in range(6)]
    prompt = problems[0].prompt
    assert isinstance(prompt, tuple)
    system, user = prompt
    assert (system["role"], user["role"]) == ("system", "user")
    assert '"#### N"' in system["content"]
    assert user["content"].startswith("Natalia sold clips to 48 of her friends")


def test_every_reference_solution_of_gsm8k_gets_the_full_reward_however_it_writes_the_number() -> None:
    task = single("gsm8k", {"train": ROWS})
    demonstrations = task.demonstrations()
    assert len(demonstrations) == 6
    for problem, solution in demonstrations:
        before, _, number = solution.rpartition("#### ")
        for text in (solution, f"{before}#### {number.replace(',', '')}"):
            assert reward_of(task, problem, text) == (1.1, True)


def test_gsm8k_pays_little_for_the_form_and_only_the_answer_makes_it_right() -> None:
    task = single("gsm8k", {"train": ROWS})
    problem = task.problems("train")[2]  # 1,080
    assert reward_of(task, problem, "So he earns 1080 dollars") == (1.0, True)
    assert reward_of(task, problem, "So he earns $1,080.00") == (1.0, True)
    assert reward_of(task, problem, "#### 108") == (0.1, False)
    assert reward_of(task, problem, "1080 it is not.\n#### 1") == (0.1, False)
    assert reward_of(task, problem, "no idea") == (0.0, False)


def test_data_files_replace_only_the_split_they_name(make: Any, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text('{"question": "9?", "answer": "9"}\n')
    make()
    task = single(str(tmp_path / "mine.yaml"), {"eval": str(other)})
    assert [p.reference for p in task.problems("train")] == ["2", "4"]
    assert [p.reference for p in task.problems("eval")] == ["9"]


def test_a_generated_task_takes_no_data_files() -> None:
    assert "makes its own rows; it takes no data files" in refusal(tasks.load, "arithmetic", {"eval": "x.json"})


# Problems


def test_a_plain_prompt_is_text_and_metadata_is_kept(make: Any) -> None:
    rows = [{"question": "1?", "answer": 7, "level": 3, "tests": ["a"], "key": "k1"}]
    task = make(TASK + "metadata: [level, tests]\nid: key\ncolumns: {question: question}\n", rows)
    assert task.problems("train") == [Problem("k1", "Q: 1?", "7", {"level": 3, "tests": ["a"]})]


def test_columns_are_renamed(make: Any) -> None:
    task = make(TASK + "columns: {question: Frage, answer: Antwort}\n", [{"Frage": "1?", "Antwort": "1"}])
    assert task.problems("train") == [Problem("train-0", "Q: 1?", "1")]
    task = make(TASK + "columns: {question: Frage}\n")
    assert "row 0: columns.question: no column 'Frage'; the data has: answer" in refusal(task.problems, "train")


def test_a_chat_without_system_is_one_message(make: Any) -> None:
    task = make(TASK.replace("prompt:\n", "prompt:\n  chat: true\n"))
    assert task.problems("train")[0].prompt == ({"role": "user", "content": "Q: 1 + 1?"},)


def test_the_reference_is_the_group_of_the_regex(make: Any) -> None:
    task = make(TASK + "".join(["sampling: {max_tokens: 7}\n"]), PLAIN)
    assert task.sampling.max_tokens == 7
    with_regex = TASK.replace("column: answer", "column: answer\n  regex: 'is (\\d+)|nothing'")
    assert make(with_regex, [{"question": "q", "answer": "it is 12."}]).problems("train")[0].reference == "12"
    for answer in ("it is twelve", "nothing"):
        rows = [{"question": "q", "answer": "it is 12"}, {"question": "q", "answer": answer}]
        assert f"row 1: reference.regex: finds nothing in '{answer}'" in refusal(
            make(with_regex, rows).problems, "eval"
        )


@pytest.mark.parametrize("value", [None, "", "  ", ["2"], {"a": "2"}])
def test_a_row_without_a_usable_reference_is_named(make: Any, value: Any) -> None:
    task = make(rows=[{"question": "q", "answer": value}])
    message = refusal(task.problems, "train")
    assert "row 0: reference.column: column 'answer' holds" in message
    assert "expected text or a number" in message


def test_a_missing_column_is_named_with_those_there_are(make: Any) -> None:
    rows = [{"question": "q", "solution": "1"}]
    assert "reference.column: no column 'answer'; the data has: question, solution" in refusal(
        make(rows=rows).problems, "train"
    )
    rows = [{"q": "q", "answer": "1"}]
    assert "row 0: prompt.template: 'question' is undefined (the data has: answer, q)" in refusal(
        make(rows=rows).problems, "train"
    )
    assert "metadata: no column 'level'" in refusal(make(TASK + "metadata: [level]\n").problems, "train")
    assert "id: no column 'key'" in refusal(make(TASK + "id: key\n").problems, "train")


def test_ids_must_differ_and_be_there(make: Any) -> None:
    rows = [{"question": "q", "answer": "1", "key": key} for key in ("a", "b", "a")]
    assert "row 2: has the id 'a' of row 0; choose another `id` column" in refusal(
        make(TASK + "id: key\n", rows).problems, "train"
    )
    rows[1]["key"] = None  # type: ignore[assignment]
    assert "row 1: id: column 'key' holds None" in refusal(make(TASK + "id: key\n", rows).problems, "train")


# Templates


@pytest.mark.parametrize(
    "expression",
    [
        "question.__class__",
        "question.__class__.__mro__[1].__subclasses__()",
        "''.format.__globals__",
        "'{0.__class__}'.format(question)",
        "cycler.__init__.__globals__",
        "self.__init__.__globals__",
        "tags.append(1)",
    ],
)
def test_a_template_cannot_reach_for_what_is_not_its_own(make: Any, expression: str) -> None:
    rows = [{"question": "q", "answer": "1", "tags": ["a"]}]
    message = refusal(make(TASK.replace("question }}", f"question ~ {expression} }}}}"), rows).problems, "train")
    assert "row 0: prompt.template: " in message
    assert "unsafe" in message or "not safely callable" in message or "undefined" in message


@pytest.mark.parametrize("expression", ["1 / 0", "question + 1", "range(10 ** 9) | list", "question.nothing()"])
def test_a_template_that_fails_names_its_row(make: Any, expression: str) -> None:
    assert "row 0: prompt.template: " in refusal(
        make(TASK.replace("{{ question }}", f"{{{{ {expression} }}}}")).problems, "train"
    )


def test_a_template_that_does_not_parse_names_its_line(make: Any) -> None:
    message = refusal(make, TASK.replace("{{ question }}", "{{ question "))
    assert "mine.yaml:4: prompt.template: unexpected end of template" in message
    message = refusal(make, TASK + "demonstration: '{{ answer | nofilter }}'\n")
    assert "mine.yaml:9: demonstration: No filter named 'nofilter'" in message


def test_a_value_that_is_not_there_renders_as_nothing(make: Any) -> None:
    rows = [{"question": "q", "hint": None, "answer": "1"}, {"question": None, "hint": None, "answer": "1"}]
    text = TASK.replace("Q: {{ question }}", "{{ question }}{{ hint }}")
    assert make(text, rows[:1]).problems("train")[0].prompt == "q"
    assert "row 1: prompt.template: renders to nothing" in refusal(make(text, rows).problems, "train")


def test_rows_without_a_demonstration_are_left_out(make: Any) -> None:
    rows = [{"question": "a", "answer": "1", "worked": "1 = 1"}, {"question": "b", "answer": "2", "worked": None}]
    demonstrations = make(TASK + 'demonstration: "{{ worked }}"\n', rows).demonstrations()
    assert [(problem.id, text) for problem, text in demonstrations] == [("train-0", "1 = 1")]
    assert "no row of the training split has a demonstration" in refusal(
        make(TASK + 'demonstration: "{{ worked }}"\n', [rows[1]]).demonstrations
    )
    assert "needs the key `demonstration`" in refusal(make().demonstrations)


def test_the_generated_task_has_demonstrations_for_some_rows_only() -> None:
    task = single("arithmetic")
    assert len(task.demonstrations()) == 1000
    assert len(task.problems("train")) == 9000
    assert len(task.problems("eval")) == 1000


# Data


def test_loading_a_task_reads_no_data(make: Any, tmp_path: Path) -> None:
    make()
    (tmp_path / "rows.jsonl").unlink()
    task = single(str(tmp_path / "mine.yaml"))
    assert "data_files.train: there is no file" in refusal(task.problems, "train")


def test_no_rows_are_an_error(make: Any) -> None:
    assert "the train split has no rows" in refusal(make(rows=[]).problems, "train")


# The YAML


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("name: exact", "name: exat", "mine.yaml:8: no verifier is named 'exat'; installed are: arithmetic_steps, "),
        ("exact", "exact\n  options: {anser: x}", "mine.yaml:9: verifiers.0.options.anser: unknown key; did you mean"),
        ("exact", "exact\n  options: {ignore_case: 7}", "mine.yaml:9: verifiers.0.options.ignore_case: expected true"),
        ("verifiers:\n- name: exact", "verifiers: []", "mine.yaml:7: verifiers: expected"),
        ("- name: exact", "- {name: exact, weight: .nan}", "verifiers.0.weight: expected a finite number, not nan"),
        ("column: answer", "column: answer\n  regex: '('", "mine.yaml:7: reference.regex: not a regular expression"),
        ("column: answer", "column: answer\n  regex: 'a'", "needs exactly one group, the reference; it has 0"),
        ("template:", "system: hello\n  template:", "mine.yaml:3: prompt: `system` needs `chat: true`"),
        ("name: mine", "nam: mine", "mine.yaml:1: nam: unknown key; did you mean 'name'?"),
        ("{data_files: {train: FILE, eval: FILE}}", "{}", "mine.yaml:2: dataset: a dataset needs `hub`"),
        ("train: FILE", "test: FILE", "dataset.data_files.test: expected 'train' or 'eval', not 'test'"),
        ("dataset:", "generator: {name: arithmetic}\ndataset:", "a task needs either `dataset` or `generator`"),
    ],
)  # fmt: skip
def test_a_fault_of_the_yaml_is_found_before_any_data_is_read(make: Any, old: str, new: str, expected: str) -> None:
    assert expected in refusal(make, TASK.replace(old, new))


@pytest.mark.parametrize(
    ("generator", "expected"),
    [
        ("{name: arithmetik}", "mine.yaml:2: generator.name: no generator is named 'arithmetik'; there are: "),
        ("{name: arithmetic, options: {digit: 3}}", "generator.options.digit: unknown key; did you mean 'digits'?"),
        ("{name: arithmetic, options: {digits: 9}}", "generator.options.digits: expected at most 6, not 9"),
        ("{name: arithmetic, options: {digits: 1}}", "eval_rows 1000 leaves too few problems to train on"),
    ],
)  # fmt: skip
def test_a_fault_of_a_generators_options_is_found_before_it_runs(make: Any, generator: str, expected: str) -> None:
    text = TASK.replace("dataset: {data_files: {train: FILE, eval: FILE}}", f"generator: {generator}")
    message = refusal(make, text)
    assert "mine.yaml:2: generator" in message
    assert expected in message


def test_an_unknown_task_lists_those_there_are() -> None:
    assert "no task is named 'gsm8'; did you mean 'gsm8k'? there are: aime24, aime25, amc23, arithmetic, " in refusal(
        tasks.load, "gsm8"
    )
    assert "none.yaml: cannot be read: No such file" in refusal(tasks.load, "none.yaml")


def test_a_plugins_tasks_are_found_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, make: Any) -> None:
    make()
    monkeypatch.setattr(installed(), "task_folders", [tmp_path])
    assert tasks.load("mine").config.name == "mine"


# Verifiers and problems


def test_problems_that_lack_what_a_verifier_reads_are_named_before_a_model_is_loaded(make: Any) -> None:
    task = make(TASK.replace("reference:\n  column: answer\n", ""))
    message = refusal(check_problems, resolve(task), task.problems("train"))
    assert message.startswith("verifier 'exact' compares with a reference, and problem train-0 has none")


def test_a_metadata_column_that_a_verifier_reads_must_be_there() -> None:
    verifiers = resolve(tasks.load("arithmetic"))
    reader = type("Reader", (verifiers[0].verifier,), {"requires": ("tests",), "name": "reader"})
    needing = [type(verifiers[0])(reader, verifiers[0].options, 1.0, "1")]
    message = refusal(check_problems, needing, [Problem("p3", "q", "1")])
    assert "verifier 'reader' reads the column 'tests', which problem p3 does not have" in message
    check_problems(needing, [Problem("p3", "q", "1", {"tests": []})])
