"""`extends`: what a file changes of another, and that every fault still names the file and line it stands on."""

from pathlib import Path
from typing import Any

import pytest

from reasonrl import ReasonRLError, config, yamlfile
from reasonrl.config import GRPOConfig, SFTConfig
from reasonrl.yamlfile import Document

BASE = """\
name: base
seed: 1
task: {name: gsm8k, data_files: {train: a.jsonl}}
model:
  path: some/model
warm_start: {steps: 2, batch_size: 2}
algorithm:
  name: grpo
  steps: 10
  problems_per_step: 12
  kl: {coefficient: 0.1, estimator: k1}
evaluation: {k: [1, 4]}
"""


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    write("base.yaml", BASE)
    return write


def read(path: str, folder: Path = Path("nowhere")) -> Document:
    return yamlfile.read_extended(Path(path), "run", [folder])


def refusal(path: str, *overrides: str) -> str:
    with pytest.raises(ReasonRLError) as caught:
        config.load(path, overrides)
    return str(caught.value).replace(f"{Path(path).parent}/", "")


def test_mappings_merge_and_values_and_lists_replace(write: Any) -> None:
    path = write("a.yaml", "extends: base.yaml\nname: a\nalgorithm: {kl: {estimator: k3}}\nevaluation: {k: [2]}\n")
    run = config.load(path, ["algorithm.steps=3"])
    assert isinstance(run.algorithm, GRPOConfig)
    assert (run.name, run.seed, run.algorithm.steps, run.evaluation.k) == ("a", 1, 3, (2,))
    assert (run.algorithm.kl.coefficient, run.algorithm.kl.estimator) == (0.1, "k3")


def test_null_takes_a_value_away(write: Any) -> None:
    path = write("a.yaml", "extends: base.yaml\nwarm_start: null\nseed: ~\nalgorithm: {kl: {estimator: null}}\n")
    run = config.load(path)
    assert isinstance(run.algorithm, GRPOConfig)
    assert (run.warm_start, run.seed) == (None, 0)
    assert (run.algorithm.kl.coefficient, run.algorithm.kl.estimator) == (0.1, "k3")
    gone = write("b.yaml", "extends: base.yaml\nalgorithm:\n  steps: null\n")
    assert refusal(gone) == "b.yaml:3: algorithm.steps: the key is missing"
    # of a misspelt key it takes nothing away: the key is not lost, but unknown
    assert refusal(write("c.yaml", "extends: base.yaml\nwarmstart: null\n")).startswith(
        "c.yaml:2: warmstart: unknown key; did you mean 'warm_start'?"
    )


def test_another_name_replaces_the_whole_and_the_same_name_merges(write: Any) -> None:
    other = config.load(write("a.yaml", "extends: base.yaml\nalgorithm: {name: sft, steps: 3, batch_size: 4}\n"))
    assert other.algorithm == SFTConfig(steps=3, batch_size=4)
    same = config.load(write("b.yaml", "extends: base.yaml\nalgorithm: {name: grpo, steps: 3}\n"))
    assert isinstance(same.algorithm, GRPOConfig)
    assert same.algorithm.problems_per_step == 12
    # a key of the base means nothing there, nor does its line
    assert refusal(write("c.yaml", "extends: base.yaml\nalgorithm:\n  name: sft\n  steps: 3\n")) == (
        "c.yaml:2: algorithm.batch_size: the key is missing"
    )


def test_the_short_form_of_a_task_is_its_name(write: Any) -> None:
    def task_of(base: str, own: str) -> dict[str, Any]:
        write("base.yaml", BASE.replace("{name: gsm8k, data_files: {train: a.jsonl}}", base))
        task = config.load(write("a.yaml", f"extends: base.yaml\ntask: {own}\n")).task
        assert task is not None
        return task.model_dump(exclude_unset=True)

    mapping = "{name: gsm8k, data_files: {train: a}}"
    assert task_of(mapping, "other") == {"name": "other"}
    assert task_of(mapping, "{name: other}") == {"name": "other"}
    assert task_of(mapping, "{data_files: {eval: b}}") == {"name": "gsm8k", "data_files": {"train": "a", "eval": "b"}}
    assert task_of("gsm8k", "{data_files: {eval: b}}") == {"name": "gsm8k", "data_files": {"eval": "b"}}
    assert task_of("gsm8k", "{name: other}") == {"name": "other"}


def test_a_chain_of_files_in_folders(write: Any) -> None:
    write("middle/b.yaml", "extends: ../base.yaml\nseed: 2\nthreads: 2\n")
    path = write("a.yaml", "extends: middle/b.yaml\nthreads: 3\n")
    run = config.load(path)
    assert (run.name, run.seed, run.threads) == ("base", 2, 3)
    document = read(path)
    files = {key: place.path.name for (key, *rest), place in document.lines.items() if not rest}
    assert (files["name"], files["seed"], files["threads"]) == ("base.yaml", "b.yaml", "a.yaml")
    assert "extends" not in document.data
    assert ("extends",) not in document.lines


def test_a_bundled_one_is_extended_by_its_name(write: Any, tmp_path: Path) -> None:
    run = config.load(write("a.yaml", "extends: debug/grpo\nname: mine\n"))
    assert run == config.load("debug/grpo").model_copy(update={"name": "mine"})
    inner = write("inner/x.yaml", "extends: base\nseed: 5\n")
    assert read(inner, tmp_path).data["name"] == "base"


def test_a_fault_names_the_file_and_line_it_stands_on(write: Any) -> None:
    write("base.yaml", BASE.replace("seed: 1", "seed: x").replace("estimator: k1", "estimatr: k1"))
    path = write("a.yaml", "# mine\nextends: base.yaml\nalgorithm:\n  steps: 0\n  kl: {coefficient: -1}\n")
    assert [line.split(": ")[:2] for line in refusal(path).splitlines()] == [
        ["base.yaml:2", "seed"],
        ["a.yaml:4", "algorithm.steps"],
        ["a.yaml:5", "algorithm.kl.coefficient"],
        ["base.yaml:11", "algorithm.kl.estimatr"],
    ]
    assert "from the command line, seed=y: seed: " in refusal(path, "seed=y")
    # what is wrong with a whole is told where the outermost file changes it
    clash = write("b.yaml", "extends: c.yaml\nseed: 1\nmodel: {tiny: {characters: ab}}\n")
    write("c.yaml", BASE)
    assert refusal(clash).startswith("b.yaml:3: model.tiny: a model needs either `path`")


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("none.yaml", "a.yaml:2: extends: there is no file none.yaml; a path is relative to the file it stands in"),
        ("quickstat", "a.yaml:2: extends: no run is named 'quickstat'; did you mean 'quickstart'"),
        ("[base.yaml]", "a.yaml:2: extends: expected the path of a YAML, or the name of a bundled run"),
        ("null", "a.yaml:2: extends: expected the path of a YAML"),
        (".", "a.yaml:2: extends: no run is named '.'"),
    ],
)
def test_a_base_that_is_not_there_is_told_with_its_line(write: Any, base: str, expected: str) -> None:
    assert refusal(write("a.yaml", f"name: a\nextends: {base}\n")).startswith(expected)


def test_a_fault_of_the_base_s_text_is_told_of_the_base(write: Any) -> None:
    write("base.yaml", "name: a\nname: b\n")
    assert refusal(write("a.yaml", "extends: base.yaml\n")) == "base.yaml:2: the key 'name' stands on line 1 already"


def test_a_circle_is_shown(write: Any) -> None:
    path = write("a.yaml", "extends: b.yaml\n")
    write("b.yaml", "name: b\nextends: sub/../c.yaml\n")
    write("sub/x.yaml", "")
    write("c.yaml", "extends: a.yaml\n")
    message = refusal(path)
    assert message.startswith("sub/../c.yaml:1: extends: the files go in a circle: a.yaml → b.yaml → sub/../c.yaml → ")
    assert message.endswith("a.yaml")
    assert "a circle: d.yaml → d.yaml" in refusal(write("d.yaml", "extends: d.yaml\n"))


def test_extends_belongs_to_the_top_of_a_file(write: Any) -> None:
    path = write("a.yaml", "extends: base.yaml\nmodel: {extends: other}\n")
    assert refusal(path).startswith("a.yaml:2: model.extends: unknown key")
    assert "from the command line, extends=x: `extends` stands in a file" in refusal(path, "extends=x")


def test_the_control_of_the_quickstart_differs_in_its_algorithm_alone() -> None:
    quickstart, control = config.load("quickstart"), config.load("quickstart_control")
    assert isinstance(control.algorithm, SFTConfig)
    assert quickstart.warm_start is not None
    assert control.algorithm.optimizer == quickstart.warm_start.optimizer
    changed = {"name": control.name, "warm_start": None, "algorithm": control.algorithm}
    assert control == quickstart.model_copy(update=changed)
