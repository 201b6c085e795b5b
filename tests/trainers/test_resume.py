"""A run that is ended and resumed leaves, bit for bit, what an uninterrupted one leaves."""

import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_in_process import Program, program_of
from resumed_runs import (
    ALGORITHMS,
    STEPS,
    Killed,
    assert_same,
    config_of,
    contents,
    folder_of,
    killed_at,
    noisy_offered,
    steps_of,
    task,
    train,
)
from rich.console import Console
from small_runs import reset_accelerate

from reasonrl import ReasonRLError, config
from reasonrl.checkpoint.lock import locked
from reasonrl.trainers import run
from reasonrl.trainers.checkpoints import newest


@pytest.fixture(autouse=True)
def _noisy() -> Iterator[None]:
    with noisy_offered():
        yield
    reset_accelerate()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_goes_on_as_if_nothing_had_been(tmp_path: Path, algorithm: str) -> None:
    """Ended in step 4, after the checkpoint of step 2, which ends an epoch: step 3 is taken again."""
    expected = train(config_of(tmp_path, algorithm, "whole"))
    wanted = config_of(tmp_path, algorithm, "cut")
    with killed_at(STEPS), pytest.raises(Killed):
        train(wanted)
    assert steps_of(folder_of(wanted))[-1][1] == STEPS - 1
    assert_same(train(wanted, folder_of(wanted)), expected)
    assert [step for _, step in steps_of(expected)] == list(range(1, STEPS + 1))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data of a run, and with the run itself, in `whole`; it keeps three checkpoints."""
    folder = tmp_path_factory.mktemp("data")
    with noisy_offered():
        train(config_of(folder, "grpo", "whole", *KEPT))
    reset_accelerate()
    return folder


# With a schedule that does not depend on how many steps there are, more of them begin with the same ones.
KEPT = ("checkpoint.every=1", "checkpoint.keep=3", "algorithm.optimizer.schedule=constant", "evaluation.every=3")


@pytest.fixture
def copied(data: Path, tmp_path: Path) -> Path:
    """A copy of the run, as it stood after its last step."""
    return Path(shutil.copytree(data / "whole" / "debug-grpo", tmp_path / "run"))


def wanted_of(data: Path, *overrides: str) -> config.RunConfig:
    return config_of(data, "grpo", "whole", *KEPT, *overrides)


def test_a_checkpoint_holds_all_of_a_run_and_no_pickle(copied: Path) -> None:
    place = copied / "checkpoints" / "grpo-000003"
    assert {path.name for path in place.iterdir()} == {
        "policy.safetensors", "policy-optimizer.safetensors", "random.safetensors", "state.json", "checksums.json",
    }  # fmt: skip
    state = json.loads((place / "state.json").read_text())
    assert (state["phase"], state["step"]) == ("grpo", 3)
    assert state["sessions"]["policy"] == {"done": 6, "skipped": 0, "skipped_in_a_row": 0}
    lines = [json.loads(line) for line in (copied / "metrics.jsonl").read_text().splitlines()]
    assert state["coefficients"]["kl"] == lines[3]["kl_coefficient"] != 0.05, "as adapted after step 3"
    assert state["config"]["algorithm"]["kl"]["target"] == 0.01
    assert set(state["fingerprints"]) == {
        "training problems", "held-out problems", "weights of the model", "verifiers", "sampling",
    }  # fmt: skip
    assert len(state["random"]) == 1


def damage_of(kind: str, place: Path) -> None:
    weights = place / "policy.safetensors"
    if kind == "a flipped bit":
        data = bytearray(weights.read_bytes())
        data[-1] ^= 1
        weights.write_bytes(data)
    elif kind == "cut":
        weights.write_bytes(weights.read_bytes()[:-7])
    elif kind == "a missing file":
        weights.unlink()
    elif kind == "no checksums":
        (place / "checksums.json").write_text("{")
    elif kind == "another state":
        text = (place / "state.json").read_text()
        (place / "state.json").write_text(text.replace('"done": 8', '"done": 7'))


@pytest.mark.parametrize("kind", ["a flipped bit", "cut", "a missing file", "no checksums", "another state"])
def test_a_checkpoint_damaged_in_any_way_is_passed_over_aloud(copied: Path, data: Path, kind: str) -> None:
    said: list[str] = []
    damage_of(kind, copied / "checkpoints" / "grpo-000004")
    found = newest(copied, wanted_of(data), said.append)
    assert found is not None
    assert found.step == 3
    assert len(said) == 1
    assert "a damaged checkpoint is passed over" in said[0]
    assert "grpo-000004" in said[0]


def test_a_run_goes_on_from_the_checkpoint_before_a_damaged_one(copied: Path, data: Path) -> None:
    wanted, said = wanted_of(data), io.StringIO()
    damage_of("a flipped bit", copied / "checkpoints" / "grpo-000004")
    reset_accelerate()
    run.train(wanted, Console(file=said, width=300), copied)
    assert "a damaged checkpoint is passed over" in said.getvalue()
    assert "from step 3 of grpo" in said.getvalue()
    assert_same(copied, data / "whole" / "debug-grpo")


def test_where_all_are_damaged_nothing_is_touched(copied: Path, data: Path) -> None:
    for place in (copied / "checkpoints").iterdir():
        damage_of("cut", place)
    before = contents(copied)
    with pytest.raises(ReasonRLError, match="all 3 checkpoints are damaged"):
        train(wanted_of(data), copied)
    assert contents(copied) == before


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("algorithm.optimizer.learning_rate=0.5", r"algorithm.optimizer.learning_rate was 0\.001, is 0\.5"),
        ("seed=1", "seed was 0, is 1"),
        ("warm_start={steps: 1, batch_size: 1}", "warm_start"),
        ("algorithm.steps=3", "beyond the 3 steps of grpo; raise algorithm.steps"),
        ("sampling.temperature=0.5", r"sampling.temperature was .*, is 0\.5"),
    ],
)
def test_another_config_is_refused_by_the_key(copied: Path, data: Path, override: str, message: str) -> None:
    with pytest.raises(ReasonRLError, match=message):
        train(wanted_of(data, override), copied)


@pytest.mark.parametrize(
    ("split", "named"), [("train", "the training problems are not those"), ("eval", "the held-out problems")]
)
def test_other_data_is_refused(copied: Path, tmp_path: Path, data: Path, split: str, named: str) -> None:
    changed = tmp_path / f"{split}.jsonl"
    lines = (data / f"task-{split}.jsonl").read_text().splitlines(keepends=True)
    changed.write_text("".join([lines[0].replace("=", "=="), *lines[1:]]))
    before = contents(copied)
    with pytest.raises(ReasonRLError, match=named):
        train(wanted_of(data, f"task.data_files.{split}={changed}"), copied)
    assert contents(copied) == before


def test_data_that_has_only_moved_is_fine_and_so_are_more_steps(copied: Path, tmp_path: Path, data: Path) -> None:
    moved = shutil.copy(data / "task-train.jsonl", tmp_path / "moved.jsonl")
    folder = train(wanted_of(data, f"task.data_files.train={moved}", "algorithm.steps=5"), copied)
    assert [step for _, step in steps_of(folder)] == [1, 2, 3, 4, 5]
    assert_same(folder, train(config_of(data, "grpo", str(tmp_path / "five"), *KEPT, "algorithm.steps=5")))
    assert config.load(str(folder / "config.yaml")).algorithm.steps == 5


def test_the_verifiers_must_be_those_it_began_with(copied: Path, tmp_path: Path, data: Path) -> None:
    changed = tmp_path / "other.yaml"
    changed.write_text((data / "task.yaml").read_text().replace("- name: noisy", "- {name: noisy, weight: 2.0}"))
    wanted = wanted_of(data).model_copy(update={"task": config.TaskRef(name=str(changed))})
    saved = copied / "checkpoints" / "grpo-000004" / "state.json"
    assert "1 × noisy" in saved.read_text()
    with pytest.raises(ReasonRLError, match=r"task.name was"):
        train(wanted, copied)
    (data / "task.yaml").rename(tmp_path / "kept.yaml")
    try:
        shutil.copy(changed, data / "task.yaml")
        with pytest.raises(ReasonRLError, match=r"the verifiers are not .*were 1 × noisy .*are 2 × noisy"):
            train(wanted_of(data), copied)
    finally:
        (tmp_path / "kept.yaml").rename(data / "task.yaml")


def test_a_run_killed_before_its_first_checkpoint_begins_anew_in_its_folder(tmp_path: Path) -> None:
    wanted = config_of(tmp_path, "grpo", "cut", warm=True)
    with killed_at(2, "warm start"), pytest.raises(Killed):
        train(wanted)
    folder = train(wanted, folder_of(wanted))
    assert folder == folder_of(wanted)
    assert steps_of(folder) == [("warm start", s) for s in (1, 2, 3)] + [("grpo", s) for s in (1, 2, 3, 4)]


def test_the_last_and_the_best_are_kept(tmp_path: Path, data: Path) -> None:
    rewards = [line["reward"] for line in contents(data / "whole" / "debug-grpo")["metrics.jsonl"]]
    settings = ["checkpoint={every: 1, keep: 1, best: reward, best_is: lowest}"]
    folder = train(config_of(data, "grpo", str(tmp_path / "best"), *settings))
    worst = 1 + rewards.index(min(rewards))
    kept = sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert kept == sorted({f"grpo-{worst:06d}", "grpo-000004"})
    with pytest.raises(ReasonRLError, match=r"no metric 'rewards'; there are: .*reward"):
        train(config_of(data, "grpo", str(tmp_path / "none"), "checkpoint={every: 1, best: rewards}"))


def test_one_process_at_a_time(copied: Path, data: Path) -> None:
    with locked(copied), pytest.raises(ReasonRLError, match="another process is at this run"):
        train(wanted_of(data), copied)


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    return program_of(monkeypatch, capsys)


def test_the_command_takes_the_last_run_of_a_name_or_a_folder(
    program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(run, "train", lambda wanted, console, resume: asked.append((wanted.seed, resume)))
    (tmp_path / "run.yaml").write_text(f"extends: debug/grpo\nname: a\nruns: {tmp_path}\ntask: {task(tmp_path)}\n")
    given = ["train", str(tmp_path / "run.yaml")]
    assert "no run a in" in program(*given, "--resume").out
    for name in ("a", "a-2", "a-10", "a-x", "b"):
        (tmp_path / name).mkdir()
    program(*given, "--resume", "seed=3")
    program(*given)
    config.save(config.load(given[1]), tmp_path / "a-2" / "config.yaml")
    (tmp_path / "a-2" / "metrics.jsonl").touch()
    program("train", str(tmp_path / "a-2"), "--resume")
    program("train", str(tmp_path / "a-2" / "config.yaml"), "--resume")
    assert asked == [(0, None), (3, tmp_path / "a-10"), (0, None), (0, tmp_path / "a-2"), (0, tmp_path / "a-2")]
