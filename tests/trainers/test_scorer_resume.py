"""A reward model's training that is ended and resumed leaves, bit for bit, what an uninterrupted one leaves."""

import io
import itertools
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_in_process import program_of
from resumed_runs import Killed, assert_same, contents, folder_of, killed_at, steps_of, train
from resumed_scorers import SCORERS, STEPS, files_of, scorer_config_of
from rich.console import Console
from small_runs import reset_accelerate

from reasonrl import ReasonRLError, config
from reasonrl.checkpoint.lock import locked
from reasonrl.errors import Interrupted
from reasonrl.models.trainable_scorer import TrainableScorer
from reasonrl.tracking import Metrics, Tracker
from reasonrl.trainers import run

KINDS = pytest.mark.parametrize("kind", SCORERS)


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    yield
    reset_accelerate()


def at_forward(call: int | None, act: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Act before the n-th forward pass, from 1, or before each."""
    logits, count = TrainableScorer.logits, itertools.count(1)

    def acting(self: TrainableScorer, rows: Any, places: Any) -> Any:
        if next(count) == call or call is None:
            act()
        return logits(self, rows, places)

    monkeypatch.setattr(TrainableScorer, "logits", acting)


@KINDS
@pytest.mark.parametrize("model", ["whole", "lora"])
def test_it_goes_on_as_if_nothing_had_been(tmp_path: Path, kind: str, model: str) -> None:
    """Ended in step 4, after the checkpoint of step 2: step 3 and its evaluation are taken back, and done again."""
    settings = ["model.lora={rank: 2}"] if model == "lora" else []
    expected = train(scorer_config_of(tmp_path, kind, "whole", *settings))
    wanted = scorer_config_of(tmp_path, kind, "cut", *settings)
    with killed_at(STEPS), pytest.raises(Killed):
        train(wanted)
    folder = folder_of(wanted)
    assert (folder / "eval" / "step-000003.json").exists()
    assert_same(train(wanted, folder), expected)
    assert [step for _, step in steps_of(expected)] == list(range(1, STEPS + 1))
    names = {path.name for path in (expected / "checkpoints" / f"{kind}-000004").iterdir()}
    assert names == {
        "scorer.safetensors", "scorer-optimizer.safetensors", "random.safetensors", "state.json", "checksums.json",
    }  # fmt: skip


def test_more_steps_are_as_if_they_had_been_from_the_start(tmp_path: Path) -> None:
    constant = ["algorithm.optimizer.schedule=constant", "checkpoint.every=1"]
    longer = [*constant, "algorithm.steps=6"]
    expected = train(scorer_config_of(tmp_path, "reward_model", "whole", *longer))
    folder = train(scorer_config_of(tmp_path, "reward_model", "cut", *constant))
    train(scorer_config_of(tmp_path, "reward_model", "cut", *longer), folder)
    added = folder / "eval" / "step-000004.json"  # after the last step there is none but `after`
    assert not added.exists()
    found, wanted = contents(folder), contents(expected)
    del wanted["eval/step-000004.json"]
    assert found == wanted


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data of a run, and with the run itself, in `whole`."""
    folder = tmp_path_factory.mktemp("data")
    train(scorer_config_of(folder, "reward_model", "whole"))
    reset_accelerate()
    return folder


@pytest.fixture
def copied(data: Path, tmp_path: Path) -> Path:
    """A copy of the run, as it stood after its last step."""
    return Path(shutil.copytree(data / "whole" / "reward-model", tmp_path / "run"))


def test_what_it_wrote_of_before_is_read(copied: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []
    at_forward(None, lambda: measured.append(1), monkeypatch)
    reset_accelerate()
    said = io.StringIO()
    report = json.loads((copied / "eval" / "before.json").read_text())
    (copied / "eval" / "before.json").write_text(json.dumps(report | {"accuracy": 0.123, "margin": None}))
    wanted = scorer_config_of(data, "reward_model", "whole", "algorithm.evaluate_every=3")  # which may change
    run.train(wanted, Console(file=said, width=100), copied)
    assert len(measured) == 1, "the evaluation after, and no other"
    assert "0.123" in said.getvalue()
    assert "nan" in said.getvalue()


@pytest.mark.parametrize("name", ["pairs", "held_out_files"])
def test_other_examples_are_refused(copied: Path, data: Path, name: str) -> None:
    wanted = scorer_config_of(data, "reward_model", "whole")
    path = data / f"reward_model-{name}.jsonl"
    kept = path.read_text()
    path.write_text(kept.replace('"chosen": "1', '"chosen": "7'))
    before = contents(copied)
    named = {"pairs": "the training examples are not those", "held_out_files": "the held-out examples are not those"}
    try:
        with pytest.raises(ReasonRLError, match=named[name]):
            train(wanted, copied)
    finally:
        path.write_text(kept)
    assert contents(copied) == before


def test_other_labels_are_refused(tmp_path: Path) -> None:
    wanted = scorer_config_of(tmp_path, "process_reward_model", "runs")
    folder = train(wanted)
    files_of(tmp_path, "process_reward_model", changed=True)
    with pytest.raises(ReasonRLError, match="the training examples are not those it began with"):
        train(wanted, folder)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("algorithm.center=0.5", r"algorithm.center was 0\.0, is 0\.5"),
        ("model.tiny.layers=2", "model.tiny.layers was 1, is 2"),
        ("algorithm.steps=3", "beyond the 3 steps of reward_model; raise algorithm.steps"),
    ],
)
def test_another_config_is_refused(copied: Path, data: Path, override: str, message: str) -> None:
    with pytest.raises(ReasonRLError, match=message):
        train(scorer_config_of(data, "reward_model", "whole", override), copied)


def test_other_weights_are_refused(copied: Path, data: Path, tmp_path: Path) -> None:
    """A folder of the same name with another model in it."""
    source = tmp_path / "model"
    for seed in (1, 2):
        made = train(scorer_config_of(data, "reward_model", str(tmp_path / "made"), f"seed={seed}"))
        shutil.rmtree(source, ignore_errors=True)
        shutil.copytree(made / "final", source)
        wanted = scorer_config_of(data, "reward_model", str(tmp_path / "on"))
        document = wanted.model_dump(mode="json") | {"model": {"path": str(source)}}
        wanted = config.RunConfig.model_validate(document)
        if seed == 1:
            train(wanted)
    with pytest.raises(ReasonRLError, match="the weights of the model are not those it began with"):
        train(wanted, folder_of(wanted))


def test_a_damaged_checkpoint_is_passed_over(copied: Path, data: Path) -> None:
    weights = copied / "checkpoints" / "reward_model-000004" / "scorer.safetensors"
    weights.write_bytes(weights.read_bytes()[:-7])
    said = io.StringIO()
    reset_accelerate()
    run.train(scorer_config_of(data, "reward_model", "whole"), Console(file=said, width=300), copied)
    assert "a damaged checkpoint is passed over" in said.getvalue()
    assert "from step 2 of reward_model" in said.getvalue()
    assert_same(copied, data / "whole" / "reward-model")


def test_one_process_at_a_time(copied: Path, data: Path) -> None:
    with locked(copied), pytest.raises(ReasonRLError, match="another process is at this run"):
        train(scorer_config_of(data, "reward_model", "whole"), copied)


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_asked_to_stop_it_finishes_the_step_and_goes_on_from_there(
    data: Path, tmp_path: Path, sent: signal.Signals, code: int,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    log = Tracker.log

    def asked(self: Tracker, step: int, metrics: Metrics) -> None:
        log(self, step, metrics)
        if step == 1:
            os.kill(os.getpid(), sent)

    program = program_of(monkeypatch, capsys)
    wanted = scorer_config_of(data, "reward_model", str(tmp_path / "runs"))
    config.save(wanted, tmp_path / "run.yaml")
    with monkeypatch.context() as patch:
        patch.setattr(Tracker, "log", asked)
        ended = program("train", str(tmp_path / "run.yaml"))
    folder = folder_of(wanted)
    assert ended.code == code
    assert f"stopped after step 1 of reward_model; it goes on with: reasonrl train {folder} --resume" in ended.err
    assert steps_of(folder) == [("reward_model", 1)]
    assert program("train", str(folder), "--resume").code == 0
    assert_same(folder, data / "whole" / "reward-model")


def test_asked_before_the_first_step_it_stops_before_it(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_forward(1, lambda: os.kill(os.getpid(), signal.SIGTERM), monkeypatch)
    wanted = scorer_config_of(data, "reward_model", str(tmp_path / "runs"))
    with pytest.raises(Interrupted, match="stopped before the first step"):
        train(wanted)
    assert not steps_of(folder_of(wanted))


IN_STEP_4 = 1 + 3 * 2 + 1  # a forward pass for each evaluation, and for each update


def lost() -> None:
    raise ReasonRLError("lost")


def wait_for_ever() -> None:
    threading.Event().wait()


@pytest.mark.parametrize(("act", "fault"), [(lost, "lost"), (wait_for_ever, r"nothing has progressed for 0\.05 min")])
def test_after_a_fault_or_a_hang_it_is_told_how_to_go_on(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Any, fault: str
) -> None:
    said = io.StringIO()
    wanted = scorer_config_of(data, "reward_model", str(tmp_path / "runs"), "stall_minutes=0.05")
    with monkeypatch.context() as patch:
        at_forward(IN_STEP_4, act, patch)
        reset_accelerate()
        with pytest.raises(ReasonRLError, match=fault):
            run.train(wanted, Console(file=said, width=300))
    folder = folder_of(wanted)
    told = f"the run goes on from reward_model-000002 with: reasonrl train {folder} --resume"
    assert told in said.getvalue()
    if act is wait_for_ever:
        assert "in wait_for_ever" in (folder / "stacks-0.txt").read_text()
        (folder / "stacks-0.txt").unlink()
    assert_same(train(wanted, folder), data / "whole" / "reward-model")


def test_the_model_appears_whole_or_not_at_all(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save = TrainableScorer.save

    def killed(self: TrainableScorer, folder: Path) -> None:
        save(self, folder)
        raise Killed

    wanted = scorer_config_of(data, "reward_model", str(tmp_path / "runs"))
    with monkeypatch.context() as patch:
        patch.setattr(TrainableScorer, "save", killed)
        with pytest.raises(Killed):
            train(wanted)
    assert not (folder_of(wanted) / "final").exists()
    assert_same(train(wanted, folder_of(wanted)), data / "whole" / "reward-model")


def test_each_micro_batch_is_a_sign_of_life(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four pairs an evaluation, one a forward pass: together they take longer than nothing may progress."""
    at_forward(None, lambda: time.sleep(0.7), monkeypatch)
    settings = ["algorithm.micro_batch_tokens=1", "algorithm.steps=1", "algorithm.batch_size=1"]
    train(scorer_config_of(data, "reward_model", str(tmp_path / "runs"), *settings, "stall_minutes=0.04"))


@pytest.mark.parametrize(("best", "is_best"), [("eval/loss", "lowest"), ("eval/loss", "highest"), ("loss", "lowest")])
def test_the_best_by_what_is_held_out_is_kept(tmp_path: Path, best: str, is_best: str) -> None:
    settings = [f"checkpoint={{every: 1, keep: 1, best: {best}, best_is: {is_best}}}", "algorithm.steps=5"]
    settings += ["algorithm.optimizer={learning_rate: 0.3, schedule: constant}"]  # so much that it does not only fall
    folder = train(scorer_config_of(tmp_path, "reward_model", "runs", *settings))
    if best == "loss":
        losses = {step: line["loss"] for step, line in enumerate(contents(folder)["metrics.jsonl"], start=1)}
    else:
        losses = {
            step: json.loads((folder / "eval" / f"step-{step:06d}.json").read_text())["loss"] for step in range(1, 5)
        }
    chosen = (min if is_best == "lowest" else max)(losses, key=losses.__getitem__)
    kept = {path.name for path in (folder / "checkpoints").iterdir()}
    assert kept == {f"reward_model-{chosen:06d}", "reward_model-000005"}
    state = json.loads((folder / "checkpoints" / "reward_model-000005" / "state.json").read_text())
    assert state["score"] == (losses[5] if best == "loss" else None)


def test_a_best_that_is_not_measured_is_refused(tmp_path: Path) -> None:
    for setting in ("algorithm.evaluate_every=0", "algorithm.evaluate_every=4", "checkpoint.every=0"):
        with pytest.raises(ReasonRLError, match=r"checkpoint.best: eval/accuracy is not measured where"):
            scorer_config_of(tmp_path, "reward_model", "runs", "checkpoint.best=eval/accuracy", setting)
    wanted = scorer_config_of(tmp_path, "reward_model", "runs", "checkpoint.best=eval/acuracy")
    with pytest.raises(ReasonRLError, match=r"no metric 'eval/acuracy'; there are: eval/accuracy, .*loss"):
        train(wanted)
    with pytest.raises(ReasonRLError, match="only a reward model's run has eval/accuracy"):
        config.load("debug/grpo", ["checkpoint.best=eval/accuracy"])
