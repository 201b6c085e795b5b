"""Worked examples before the problem: given in place or drawn from the data, as turns of a chat or as text."""

import json
from pathlib import Path
from typing import Any

import pytest

from reasonrl import ReasonRLError
from reasonrl.tasks import Task, TaskConfig

ROWS = [{"q": f"{n}+{n}?", "a": str(2 * n)} for n in range(6)]
SHOWN = [{"q": "1+1?", "a": "2"}, {"q": "2+3?", "a": "5"}]


def task_of(tmp_path: Path, few_shot: dict[str, Any], chat: bool = True, **config: Any) -> Task:
    for split, rows in (("train", ROWS), ("eval", ROWS[:2])):
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = {split: str(tmp_path / f"{split}.jsonl") for split in ("train", "eval")}
    loaded = TaskConfig.model_validate({
        "name": "t",
        "dataset": {"data_files": files},
        "prompt": {"template": "Q: {{ q }}", "chat": chat, "few_shot": few_shot} | ({"system": "Add."} if chat else {}),
        "reference": {"column": "a"},
        "verifiers": [{"name": "exact"}],
    } | config)  # fmt: skip
    return Task(loaded, Path("task.yaml"))


def test_in_a_chat_an_example_is_a_turn_of_user_and_assistant(tmp_path: Path) -> None:
    task = task_of(tmp_path, {"examples": SHOWN, "response": "A: {{ a }}"})
    assert task.problems("eval")[1].prompt == (
        {"role": "system", "content": "Add."},
        {"role": "user", "content": "Q: 1+1?"},
        {"role": "assistant", "content": "A: 2"},
        {"role": "user", "content": "Q: 2+3?"},
        {"role": "assistant", "content": "A: 5"},
        {"role": "user", "content": "Q: 1+1?"},
    )


def test_without_a_chat_examples_are_text(tmp_path: Path) -> None:
    few_shot = {"examples": SHOWN, "response": " A: {{ a }}", "separator": "\n"}
    assert task_of(tmp_path, few_shot, chat=False).problems("eval")[1].prompt == ("Q: 1+1? A: 2\nQ: 2+3? A: 5\nQ: 1+1?")


def test_the_response_is_the_demonstration_if_nothing_else_is_said(tmp_path: Path) -> None:
    prompt = task_of(tmp_path, {"examples": SHOWN[:1]}, demonstration="it is {{ a }}").problems("eval")[0].prompt
    assert prompt[2] == {"role": "assistant", "content": "it is 2"}
    with pytest.raises(ValueError, match=r"prompt.few_shot needs `response`, a template"):
        task_of(tmp_path, {"examples": SHOWN})


def test_rows_that_serve_as_examples_are_no_problems_of_their_split(tmp_path: Path) -> None:
    task = task_of(tmp_path, {"rows": 2, "seed": 3, "response": "{{ a }}"})
    train, held_out = task.problems("train"), task.problems("eval")
    assert len(train) == 4
    assert len(held_out) == 2, "drawn from the training split alone"
    shown = {message["content"] for message in train[0].prompt if isinstance(message, dict)}
    asked = {problem.prompt[-1]["content"] for problem in train}  # type: ignore[index]
    assert len(shown & {f"Q: {row['q']}" for row in ROWS}) == 3, "two examples and the problem"
    assert len(asked) == 4
    examples = [message["content"] for message in train[0].prompt[1:5:2]]  # type: ignore[index]
    assert not asked & set(examples)
    assert [message["content"] for message in held_out[0].prompt[1:5:2]] == examples  # type: ignore[index]
    other = task_of(tmp_path, {"rows": 2, "seed": 4, "response": "{{ a }}"}).problems("train")
    assert {problem.id for problem in other} != {problem.id for problem in train}


@pytest.mark.parametrize(
    ("few_shot", "fault"),
    [
        ({"response": "x"}, "either given as `examples`, or so many `rows`"),
        ({"response": "x", "rows": 1, "examples": SHOWN}, "either given as `examples`, or so many `rows`"),
        ({"response": "{{ a", "rows": 1}, "unexpected end of template"),
    ],
)
def test_examples_come_from_one_place(tmp_path: Path, few_shot: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        task_of(tmp_path, few_shot)


def test_a_stream_draws_no_examples(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a data set that streams cannot draw prompt\.few_shot\.rows"):
        task_of(tmp_path, {"rows": 1, "response": "x"}, dataset={"data_files": {"train": "a.jsonl"}, "streaming": True})


@pytest.mark.parametrize(
    ("few_shot", "fault"),
    [
        ({"examples": [{"q": "1"}], "response": "{{ a }}"}, "few_shot.examples.0: response: 'a' is undefined"),
        ({"examples": [{"a": "1"}], "response": "x"}, "few_shot.examples.0: prompt.template: 'q' is undefined"),
        ({"examples": SHOWN, "response": " "}, "few_shot.examples.0: the example's prompt or response renders to noth"),
        ({"rows": 6, "response": "x"}, "few_shot.rows: asks for 6 of 6 rows; give fewer"),
    ],
)
def test_an_example_that_cannot_be_made_is_named(tmp_path: Path, few_shot: dict[str, Any], fault: str) -> None:
    with pytest.raises(ReasonRLError) as caught:
        task_of(tmp_path, few_shot).problems("eval")
    assert fault in str(caught.value)
