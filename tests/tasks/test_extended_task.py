"""A task YAML may extend another: a mixture too, whose parts are then still found."""

import json
from pathlib import Path

import pytest

from reasonrl import ReasonRLError, tasks
from reasonrl.tasks import Task

ROWS = str(Path(__file__).parents[1] / "data" / "gsm8k_rows.jsonl")


def test_a_task_that_extends_a_bundled_one_changes_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "strict.yaml").write_text(
        f"extends: gsm8k\nname: strict\ndataset: {{data_files: {{train: {ROWS}}}}}\nsampling: {{max_tokens: 99}}\n"
    )
    strict = tasks.load(str(tmp_path / "strict.yaml"))
    assert isinstance(strict, Task)
    assert (strict.name, strict.sampling.max_tokens, strict.sampling.temperature) == ("strict", 99, 1.0)
    assert [v.name for v in strict.verifiers] == ["math", "pattern"]
    assert strict.problems("train")[0].reference == "72"
    (tmp_path / "strict.yaml").write_text("extends: gsm8k\nsampling: {max_token: 99}\n")
    with pytest.raises(ReasonRLError, match=r"strict.yaml:2: sampling.max_token: unknown key; did you mean"):
        tasks.load(str(tmp_path / "strict.yaml"))


def test_the_parts_of_an_extended_mixture_are_seen_from_where_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "rows.jsonl").write_text(json.dumps({"q": "1", "a": "1"}) + "\n")
    (tmp_path / "inner" / "part.yaml").write_text(
        f"name: part\ndataset: {{data_files: {{train: {tmp_path}/inner/rows.jsonl}}}}\n"
        "prompt: {template: '{{ q }}'}\nreference: {column: a}\nverifiers: [{name: exact}]\n"
    )
    (tmp_path / "inner" / "mix.yaml").write_text("name: mix\nmixture: [{task: part.yaml}]\n")
    (tmp_path / "outer.yaml").write_text("extends: inner/mix.yaml\nname: outer\nsampling: {max_tokens: 5}\n")
    outer = tasks.load(str(tmp_path / "outer.yaml"))
    assert outer.name == "outer"
    assert [p.id for p in outer.problems("train")] == ["part/train-0"]


BASE = "name: base\nprompt: {template: x}\nverifiers: [{name: exact}]\nreference: {column: a}\n"


@pytest.mark.parametrize(
    ("base", "own", "fault"),
    [
        ("dataset: {hub: a/b}", "generator: {name: chains}", "own.yaml:2: generator: a task needs either `dataset` or"),
        ("generator: {name: chains}", "dataset: {hub: a/b}", "own.yaml:2: dataset: a task needs either `dataset` or"),
        ("dataset: {hub: a/b}", "reference: {template: b}", "own.yaml:2: reference.template: a reference needs either"),
        (
            "dataset: {hub: a/b}\nreference: {column: a, regex: (a)}",
            "reference: {last_box: true}",
            "own.yaml:2: reference.last_box: `regex` and `last_box` exclude each other",
        ),
        (
            "dataset: {hub: a/b}\nprompt: {template: x, few_shot: {rows: 2, response: x}}",
            "prompt: {few_shot: {examples: [{a: b}]}}",
            "own.yaml:2: prompt.few_shot.examples: few-shot examples are either given as `examples`, or so many",
        ),
    ],
)
def test_a_choice_that_the_base_made_otherwise_is_told_with_its_cure(
    tmp_path: Path, base: str, own: str, fault: str
) -> None:
    kept = [
        line for line in BASE.splitlines() if line.split(":")[0] not in {one.split(":")[0] for one in base.splitlines()}
    ]
    (tmp_path / "base.yaml").write_text("\n".join([*kept, base]) + "\n")
    (tmp_path / "own.yaml").write_text(f"extends: base.yaml\n{own}\n")
    with pytest.raises(ReasonRLError) as caught:
        tasks.load(str(tmp_path / "own.yaml"))
    assert fault in str(caught.value)
    assert str(caught.value).endswith("; set the other one to null")


def test_neither_of_a_choice_has_no_other_one(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(BASE)
    with pytest.raises(ReasonRLError, match=r"base\.yaml: a task needs either `dataset` or `generator`$"):
        tasks.load(str(tmp_path / "base.yaml"))


@pytest.mark.parametrize("name", ["../../evil/x", "a/b", ".hidden", "..", "'a b'", "''"])
@pytest.mark.parametrize("rest", ["generator: {name: chains}\n", "mixture: [{task: gsm8k}]\n"])
def test_a_name_that_is_no_folders_is_refused(tmp_path: Path, name: str, rest: str) -> None:
    text = rest if "mixture" in rest else BASE.removeprefix("name: base\n") + rest
    (tmp_path / "own.yaml").write_text(f"name: {name}\n{text}")
    with pytest.raises(
        ReasonRLError, match=r"own\.yaml:1: name: expected letters, digits, '\.', '_' and '-', a letter"
    ):
        tasks.load(str(tmp_path / "own.yaml"))
