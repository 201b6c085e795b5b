"""Faults that come to a run from outside: signals, a full disk, data that changes, an engine that is lost, a hang.

What a verifier or its worker may do is in test_scoring_processes.py and test_scoring.py, an engine's process in
test_vllm_robust.py, gradients that are not finite in test_session.py.
"""

import io
import os
import resource
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_in_process import program_of
from resumed_runs import (
    HOOKS,
    assert_same,
    config_of,
    contents,
    folder_of,
    noisy_offered,
    steps_of,
    task,
    train,
)  # fmt: skip
from small_runs import reset_accelerate

from reasonrl import ReasonRLError, config
from reasonrl.checkpoint import folder as checkpoint
from reasonrl.errors import Interrupted
from reasonrl.rollout.huggingface import HuggingFaceEngine
from reasonrl.tracking import Tracker
from reasonrl.trainers import finish, run


@pytest.fixture(autouse=True)
def _noisy() -> Iterator[None]:
    with noisy_offered():
        yield
    reset_accelerate()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nothing happens to."""
    folder = tmp_path_factory.mktemp("expected")
    with noisy_offered():
        return train(config_of(folder, "grpo", "whole"))


@pytest.fixture
def wanted(expected: Path, tmp_path: Path) -> config.RunConfig:
    """The same run, in a folder of its own."""
    return config_of(expected.parents[1], "grpo", str(tmp_path / "runs"))


def at_call(number: int, act: Callable[[], Any]) -> Callable[[], None]:
    """Acts at the n-th call, from 1."""
    calls = iter(range(1, 10_000))
    return lambda: act() if next(calls) == number else None


def at_response(number: int, act: Callable[[], Any]) -> None:
    HOOKS.append(at_call(number, act))


IN_STEP_1 = 4 + 3  # an evaluation has 2 × 2 responses, a step 8


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_asked_to_stop_it_finishes_the_step_and_the_run_goes_on_from_there(
    wanted: config.RunConfig, expected: Path, sent: signal.Signals, code: int,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path,
) -> None:  # fmt: skip
    """Through the command, with SIGTERM sent twice, as a launcher and a cluster do; the next step is 2."""
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    program = program_of(monkeypatch, capsys)
    path = tmp_path / "run.yaml"
    config.save(wanted, path)
    for _ in range(1 if sent == signal.SIGINT else 2):
        at_response(IN_STEP_1, lambda: os.kill(os.getpid(), sent))
    ended = program("train", str(path))
    assert ended.code == code
    assert f"stopped after step 1 of grpo; it goes on with: reasonrl train {folder_of(wanted)} --resume" in ended.err
    assert "finishing the step" in ended.out
    assert steps_of(folder_of(wanted)) == [("grpo", 1)]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers
    HOOKS.clear()
    assert program("train", str(folder_of(wanted)), "--resume").code == 0
    assert_same_but_the_extra(folder_of(wanted), expected)


def assert_same_but_the_extra(folder: Path, expected: Path) -> None:
    """A stop leaves a checkpoint of its own, which pushes an older one out or not."""
    for name in ("grpo-000001", "grpo-000003"):
        shutil.rmtree(folder / "checkpoints" / name, ignore_errors=True)
    assert_same(folder, expected)


def test_asked_twice_it_stops_at_once_and_nothing_is_corrupt(wanted: config.RunConfig, expected: Path) -> None:
    def twice() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.6)  # a launcher's copy of the first comes sooner
        os.kill(os.getpid(), signal.SIGINT)

    at_response(IN_STEP_1 + 2 * 8, twice)
    with pytest.raises(KeyboardInterrupt):
        train(wanted)
    assert steps_of(folder_of(wanted)) == [("grpo", 1), ("grpo", 2)]
    HOOKS.clear()
    assert_same(train(wanted, folder_of(wanted)), expected)


def test_asked_before_the_first_step_it_stops_before_it(wanted: config.RunConfig) -> None:
    at_response(2, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Interrupted, match="stopped before the first step") as caught:
        train(wanted)
    assert caught.value.exit_code == 143
    assert steps_of(folder_of(wanted)) == []


@contextmanager
def a_file_may_have(size: int) -> Iterator[None]:
    """A quota: what writes more into one file is refused."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize(
    ("owner", "name", "call", "named"),
    [
        (finish, "write_rollouts", 3, "step-000003.parquet"),
        (Tracker, "_write", 3, "metrics.jsonl"),
        (checkpoint, "save_file", 5, "grpo-000004"),
        (run, "save_policy", 1, "final"),
    ],
)
def test_a_full_disk_is_an_error_in_words_and_the_run_goes_on_once_there_is_room(
    wanted: config.RunConfig, expected: Path, monkeypatch: pytest.MonkeyPatch,
    owner: Any, name: str, call: int, named: str,
) -> None:  # fmt: skip
    real, count = getattr(owner, name), iter(range(1, 10_000))

    def limited(*given: Any, **others: Any) -> Any:
        if next(count) != call:
            return real(*given, **others)
        with a_file_may_have(100):
            return real(*given, **others)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, limited)
        with pytest.raises(
            ReasonRLError, match=rf"cannot write .*{named}.*: .*File too large.*; make room on the disk"
        ):
            train(wanted)
    folder = folder_of(wanted)
    assert not [path for path in folder.rglob("*.part") if path.name.startswith(".")]
    assert_same(train(wanted, folder), expected)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, on which not all of a run fits."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=120k", "none", str(folder)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_really_full(expected: Path, small_disk: Path) -> None:
    wanted = config_of(expected.parents[1], "grpo", str(small_disk / "runs"))
    with pytest.raises(ReasonRLError, match=r"cannot write .*: No space left on device"):
        train(wanted)
    subprocess.run(["mount", "-o", "remount,size=10m", str(small_disk)], check=True)
    assert_same(train(wanted, folder_of(wanted)), expected)


def test_the_user_is_told_how_a_run_goes_on_after_a_fault(
    wanted: config.RunConfig, expected: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of an engine whose process is lost twice (test_vllm_robust.py): the last checkpoint is intact."""
    from rich.console import Console

    real, said = HuggingFaceEngine.sample, io.StringIO()
    count = iter(range(1, 100))

    def lost(self: HuggingFaceEngine, *given: Any) -> Any:
        if next(count) == 2 + 3 + 2:  # two evaluations so far, each in two calls; in step 3
            raise ReasonRLError("the vLLM process was lost twice in one step")
        yield from real(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(HuggingFaceEngine, "sample", lost)
        reset_accelerate()
        with pytest.raises(ReasonRLError, match="lost twice"):
            run.train(wanted, Console(file=said, width=300))
    folder = folder_of(wanted)
    assert f"the run goes on from grpo-000002 with: reasonrl train {folder} --resume" in said.getvalue()
    assert_same(train(wanted, folder), expected)


def test_a_file_that_changes_under_a_stream_stops_the_run(tmp_path: Path) -> None:
    """As it is read anew, in the next epoch; brought back, the run goes on."""
    path = task(tmp_path)
    made = yaml.safe_load(path.read_text())
    made["dataset"] |= {"streaming": True, "window": 4}
    path.write_text(yaml.safe_dump(made))
    whole = train(config_of(tmp_path, "grpo", "whole"))
    wanted, file = config_of(tmp_path, "grpo", "cut"), tmp_path / "task-train.jsonl"
    text = file.read_text()
    at_response(IN_STEP_1, lambda: file.write_text(text.replace("=", "==")))
    with pytest.raises(ReasonRLError, match=r"task-train.jsonl has changed since the run began to read it"):
        train(wanted)
    HOOKS.clear()
    with pytest.raises(ReasonRLError, match="the training data up to step 2 of grpo is not what it was"):
        train(wanted, folder_of(wanted))
    file.write_text(text)
    assert_same(train(wanted, folder_of(wanted)), whole)


@pytest.mark.parametrize("what", ["verifier", "engine"])
def test_a_run_that_hangs_stops_with_its_stacks_written(
    wanted: config.RunConfig, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def wait_for_ever() -> None:
        threading.Event().wait()

    if what == "verifier":
        at_response(IN_STEP_1, wait_for_ever)
    else:
        waits = at_call(IN_STEP_1, wait_for_ever)
        real = HuggingFaceEngine._rollout
        monkeypatch.setattr(HuggingFaceEngine, "_rollout", lambda self, *a: (waits(), real(self, *a))[1])
    hanging = wanted.model_copy(update={"stall_minutes": 0.05})
    with pytest.raises(ReasonRLError, match=r"nothing has progressed for 0\.05 minutes"):
        train(hanging)
    stacks = (folder_of(wanted) / "stacks-0.txt").read_text()
    assert "in wait_for_ever" in stacks
    assert "in sample_and_verify" in stacks
    assert not any(thread.name == "watch" for thread in threading.enumerate())


def test_steps_leave_no_file_open_and_no_tensor_behind(
    expected: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is open and alive after step 4 is after step 12, too. Over 200 steps: benchmarks/long_run.py."""
    import gc

    import torch

    seen: dict[int, tuple[int, int, int]] = {}
    real = run.end_step

    def counting(parts: Any, step: int, **given: Any) -> None:
        real(parts, step, **given)
        if step % 4:
            return
        gc.collect()
        tensors = [one for one in gc.get_objects() if issubclass(type(one), torch.Tensor)]
        seen[step] = len(os.listdir("/proc/self/fd")), len(tensors), threading.active_count()

    monkeypatch.setattr(run, "end_step", counting)
    sizes = ["algorithm.steps=12", "evaluation.every=0"]
    train(config_of(expected.parents[1], "grpo", str(tmp_path), *sizes))
    assert seen[4] == seen[8] == seen[12]
    assert contents(tmp_path / "debug-grpo")["metrics.jsonl"][-1]["updates"] == 2
