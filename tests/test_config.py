"""Run YAMLs: the shipped ones are valid, overrides reach them, limits hold, and what is saved is read back."""

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from reasonrl import ReasonRLError, config, tasks, yamlfile
from reasonrl.config import (
    GRPOConfig,
    ModelConfig,
    OptimizerConfig,
    RunConfig,
    ScorerConfig,
    SFTConfig,
    TaskRef,
    TinyModelConfig,
)
from reasonrl.evaluation.prepare import to_sampling
from reasonrl.plugins import installed
from reasonrl.schema import json_schema
from reasonrl.scoring.resolve import resolve

ROOT = Path(__file__).parents[1]
RUNS = sorted((ROOT / "configs").rglob("*.yaml"))
TASKS = sorted((ROOT / "tasks").rglob("*.yaml"))

RUN = """\
name: mine
task: gsm8k
model:
  path: some/model
algorithm:
  name: grpo
  steps: 10
  problems_per_step: 12
  group_size: 4
sampling:
  temperature: 0.7
"""


@pytest.fixture
def run(tmp_path: Path) -> str:
    (tmp_path / "mine.yaml").write_text(RUN)
    return str(tmp_path / "mine.yaml")


@pytest.mark.parametrize("path", RUNS + TASKS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_shipped_yaml_is_valid(path: Path) -> None:
    schema = Draft202012Validator(json_schema("task" if path in TASKS else "run"))
    assert [fault.message for fault in schema.iter_errors(yamlfile.read(path).data)] == []
    if path in TASKS:
        task = tasks.read(str(path))
        assert all("no verifier is named 'code'" in message for message in task.missing), "it has an issue of its own"
        assert task.config.name == path.stem
        assert task.config.license
    else:
        loaded = config.load(str(path))
        if loaded.task is None:
            assert isinstance(loaded.algorithm, ScorerConfig)
            return
        task = tasks.load(loaded.task.name)
    if not task.missing:
        resolve(task)


def test_a_bundled_run_is_found_by_its_name() -> None:
    assert config.load("quickstart") == config.load(str(ROOT / "configs" / "quickstart.yaml"))
    assert config.load("debug/grpo").task == TaskRef(name="debug")


def test_an_unknown_run_lists_those_there_are() -> None:
    with pytest.raises(ReasonRLError, match=r"no run is named 'quickstat'; did you mean 'quickstart'.*debug/grpo, "):
        config.load("quickstat")


def test_overrides_change_the_run(run: str) -> None:
    loaded = config.load(
        run,
        [
            "seed=2",
            "algorithm.group_size=16",
            "algorithm.entropy=false",
            "evaluation.rows=null",
            "model.path=null",
            "model.tiny.characters=ab",
            "algorithm.optimizer.learning_rate=1e-4",
        ],
    )
    assert isinstance(loaded.algorithm, GRPOConfig)
    assert (loaded.seed, loaded.algorithm.group_size, loaded.algorithm.entropy) == (2, 16, False)
    assert loaded.algorithm.optimizer.learning_rate == 1e-4
    assert loaded.evaluation.rows is None
    assert loaded.model == ModelConfig(tiny=TinyModelConfig(characters="ab"))


def test_the_short_form_of_a_task_takes_data_files(run: str) -> None:
    loaded = config.load(run, ["task.data_files.train=a.jsonl", "task.data_files.eval=b.jsonl"])
    files: Any = {"train": "a.jsonl", "eval": "b.jsonl"}
    assert loaded.task == TaskRef(name="gsm8k", data_files=files)
    # also where the task itself comes from the command line
    given: Any = {"train": "a"}
    assert config.load(run, ["task=other", "task.data_files.train=a"]).task == TaskRef(name="other", data_files=given)
    assert config.load(run, ["task.data_files.train=a", "task=other"]).task == TaskRef(name="other")


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("algorithm.group_size=1", "algorithm.group_size: expected at least 2, not 1: a response's advantage"),
        ("algorithm.minibatches=5", "12 does not divide by minibatches 5; minibatches that work: 1, 2, 3, 4, 6, 12"),
        ("algorithm.clip_low=1", "algorithm.clip_low: expected less than 1"),
        ("algorithm.std=sampel", "did you mean 'sample'?"),
        ("algorithm.optimizer.betas=[0.9,1]", "algorithm.optimizer.betas: both must lie in [0, 1), not [0.9, 1.0]"),
        ("algorithm.optimizer.learning_rate=0", "expected more than 0"),
        ("algorithm.optimizer.learning_rate=.inf", "expected a finite number"),
        ("evaluation.k=[1,8]", "every k must lie between 1 and samples=4, not [1, 8]: pass@k needs"),
        ("evaluation.samples=0", "evaluation.samples: expected at least 1"),
        ("evaluation={k: []}", "evaluation.k: "),
        ("model.tiny={characters: ab}", "either `path` (a folder or hub id) or `tiny`; set the other one to null"),
        ("model.tiny={characters: ab}", "model.tiny: a model needs either `path` (a folder or hub id) or"),
        ("seed='1'", "seed: expected a whole number, not '1'"),
        ("algorithm.entropy=yes", "algorithm.entropy: expected true or false, not 'yes'"),
        ("algorithm.optimizer.learning_rate='1e-3'", "learning_rate: expected a number, not '1e-3'"),
        ("model={}", "either `path` (a folder or hub id) or `tiny`"),
        ("model={tiny: {characters: aba}}", "model.tiny.characters: a character stands twice"),
        ("model={tiny: {characters: ab, heads: 5}}", "into heads of an even size; heads that work: 1, 2, 3"),
        ("model={tiny: {characters: ab, hidden_size: 12, heads: 4}}", "heads that work: 1, 2, 3, 6"),
        ("model={tiny: {characters: ab, hidden_size: 9}}", "hidden_size: expected a multiple of 2, not 9"),
        ("name=a/b", "name: expected letters, digits, '.', '_' and '-', a letter or digit first (a folder"),
        ("seed=true", "seed: expected a whole number"),
        ("sampling.stop=['']", "sampling.stop: an empty text would end every response at once"),
        ("sampling.temperature=-1", "sampling.temperature: expected at least 0"),
        ("task={data_files: {test: a}}", "task.data_files.test: expected 'train' or 'eval', not 'test'"),
        ("algorithm=grpo", "algorithm: expected keys and values, not 'grpo'"),
        ("algorithm.name=foo", "algorithm.name: expected 'grpo', 'dr_grpo', 'rloo',"),
    ],
)  # fmt: skip
def test_an_impossible_value_is_refused(run: str, override: str, expected: str) -> None:
    with pytest.raises(ReasonRLError) as caught:
        config.load(run, [override])
    assert expected in str(caught.value)
    assert override in str(caught.value)
    assert "from the command line" in str(caught.value)


def test_precision_no_needs_no_quotes(run: str) -> None:
    assert config.load(run, ["precision=no"]).precision == "no"


def test_a_run_that_was_saved_is_the_same_run(run: str, tmp_path: Path) -> None:
    overrides: list[list[str]] = [[], ["name=1e5", "sampling=null"], ["algorithm={name: sft, steps: 3, batch_size: 2}"]]
    for number, some in enumerate(overrides):
        loaded = config.load(run, some)
        saved = tmp_path / f"saved-{number}.yaml"
        config.save(loaded, saved)
        again = config.load(str(saved))
        assert again == loaded
        assert to_sampling(tasks.load("gsm8k").sampling, again.sampling) == to_sampling(
            tasks.load("gsm8k").sampling, loaded.sampling
        )


@pytest.mark.parametrize("path", RUNS, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_shipped_run_survives_saving(path: Path, tmp_path: Path) -> None:
    loaded = config.load(str(path))
    config.save(loaded, tmp_path / "config.yaml")
    assert config.load(str(tmp_path / "config.yaml")) == loaded


def test_what_a_run_says_of_sampling_leaves_the_rest_to_the_task(run: str) -> None:
    task = tasks.load("gsm8k").sampling
    sampling = to_sampling(task, config.load(run).sampling)
    assert (sampling.temperature, sampling.max_tokens) == (0.7, task.max_tokens)
    assert to_sampling(task).temperature == task.temperature


def test_records_cannot_be_changed_and_have_sound_defaults() -> None:
    sft = {"name": "sft", "steps": 1, "batch_size": 1}
    small: dict[str, Any] = {"name": "x", "task": "t", "model": {"path": "m"}, "algorithm": sft}
    loaded = RunConfig.model_validate(small)
    assert isinstance(loaded.algorithm, SFTConfig)
    assert loaded.algorithm.optimizer == OptimizerConfig()
    with pytest.raises(ValueError, match="frozen"):
        loaded.seed = 3  # type: ignore[misc]


def test_verifiers_of_every_shipped_task_are_installed() -> None:
    assert installed().broken == []
