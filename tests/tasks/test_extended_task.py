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
