"""A run of a reward model, or a process reward model, that is ended and resumed is what it is uninterrupted."""

import io
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_in_process import program_of
from resumed_runs import Killed, assert_same, folder_of, killed_at, steps_of, train
from resumed_scorers import FILES, STEPS, config_of, write
from rich.console import Console
from small_runs import reset_accelerate

from reasonrl import ReasonRLError
from reasonrl.tracking import Metrics, Tracker
from reasonrl.trainers import run


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    yield
    reset_accelerate()


@pytest.mark.parametrize("lora", [[], ["model.lora={rank: 2}"]], ids=["all", "lora"])
@pytest.mark.parametrize("algorithm", FILES)
def test_it_goes_on_as_if_nothing_had_been(tmp_path: Path, algorithm: str, lora: list[str]) -> None:
    """Ended in step 4, after the checkpoint of step 2: step 3 and its evaluation are done again."""
    expected = train(config_of(tmp_path, algorithm, "whole", *lora))
    wanted = config_of(tmp_path, algorithm, "cut", *lora)
    with killed_at(STEPS), pytest.raises(Killed):
        train(wanted)
    cut = folder_of(wanted)
    assert [step for _, step in steps_of(cut)] == [1, 2, 3]
    assert (cut / "eval" / "step-000003.json").is_file()
    assert_same(train(wanted, cut), expected)
    assert [step for _, step in steps_of(expected)] == [1, 2, 3, 4]
    names = {path.name for path in (expected / "checkpoints" / f"{algorithm}-000004").iterdir()}
    assert {"scorer.safetensors", "scorer-optimizer.safetensors"} <= names


def test_without_a_checkpoint_it_begins_anew(tmp_path: Path) -> None:
    wanted = config_of(tmp_path, "reward_model", "cut")
    with killed_at(2), pytest.raises(Killed):
        train(wanted)
    assert_same(train(wanted, folder_of(wanted)), train(config_of(tmp_path, "reward_model", "whole")))


def test_more_steps(tmp_path: Path) -> None:
    flat = "algorithm.optimizer.schedule=constant"
    first = train(config_of(tmp_path, "reward_model", "cut", flat, "algorithm.steps=2"))
    resumed = train(config_of(tmp_path, "reward_model", "cut", flat), first)
    expected = train(config_of(tmp_path, "reward_model", "whole", flat))
    assert (resumed / "final" / "model.safetensors").read_bytes() == (
        expected / "final" / "model.safetensors"
    ).read_bytes()


@pytest.mark.parametrize(("algorithm", "side"), [("reward_model", "training"), ("process_reward_model", "held-out")])
def test_other_examples_are_refused(tmp_path: Path, algorithm: str, side: str) -> None:
    held_out = tmp_path / "held-out.jsonl"
    held_out.write_text(write(tmp_path, algorithm, FILES[algorithm][1][:2]).read_text())
    write(tmp_path, algorithm)
    own = f"algorithm.held_out_files=[{held_out}]"
    made = train(config_of(tmp_path, algorithm, "runs", own))
    if side == "training":
        write(tmp_path, algorithm, FILES[algorithm][1][:-1])
    else:
        held_out.write_text(held_out.read_text().splitlines()[0] + "\n")
    with pytest.raises(ReasonRLError, match=f"cannot be resumed: the {side} examples are not those it began with"):
        train(config_of(tmp_path, algorithm, "runs", own), made)


def test_another_config_is_refused(tmp_path: Path) -> None:
    made = train(config_of(tmp_path, "reward_model", "runs"))
    with pytest.raises(ReasonRLError, match=r"algorithm\.batch_size was 4, is 2"):
        train(config_of(tmp_path, "reward_model", "runs", "algorithm.batch_size=2"), made)


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_after_the_step_with_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], sent: signal.Signals, code: int
) -> None:
    log = Tracker.log

    def send(self: Tracker, step: int, metrics: Metrics) -> None:
        log(self, step, metrics)
        if step == 3:
            os.kill(os.getpid(), sent)

    expected = train(config_of(tmp_path, "process_reward_model", "whole"))
    config_of(tmp_path, "process_reward_model", "cut")
    given = str(tmp_path / "process_reward_model.yaml"), "threads=1"
    reset_accelerate()
    program = program_of(monkeypatch, capsys)
    with monkeypatch.context() as patched:
        patched.setattr(Tracker, "log", send)
        ended = program("train", *given)
    assert ended.code == code
    assert "stopped after step 3 of process_reward_model; it goes on with: reasonrl train" in ended.err
    reset_accelerate()
    ended = program("train", *given, "--resume")
    assert (ended.code, ended.err) == (0, "")
    cut = tmp_path / "cut" / "scorer"
    assert f"resume    {cut} from step 3 of process_reward_model" in ended.out
    for name in ("final/model.safetensors", "eval/before.json", "eval/step-000003.json", "eval/after.json"):
        assert (cut / name).read_bytes() == (expected / name).read_bytes()


def test_after_a_fault_it_is_said_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Tracker, step: int, metrics: Metrics) -> None:
        if step == 3:
            raise ReasonRLError("the disk is full")

    monkeypatch.setattr(Tracker, "log", full)
    out = io.StringIO()
    with pytest.raises(ReasonRLError, match="full"):
        run.train(config_of(tmp_path, "reward_model", "runs"), Console(file=out, width=400))
    assert "once that is mended, the run goes on from reward_model-000002 with: reasonrl train" in out.getvalue()


def test_the_best_checkpoint_is_kept(tmp_path: Path) -> None:
    best = "checkpoint={every: 1, keep: 1, best: loss, best_is: lowest}"
    made = train(config_of(tmp_path, "reward_model", "runs", best))
    losses = [json.loads(line)["loss"] for line in (made / "metrics.jsonl").read_text().splitlines()]
    kept = {int(path.name[-6:]) for path in (made / "checkpoints").iterdir()}
    assert kept == {STEPS, 1 + losses.index(min(losses))}
