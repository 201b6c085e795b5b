"""vLLM's process killed, stopped, or never started: the step goes on or ends in words, and nothing is left behind."""

import gc
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from scoring_processes import alive, until
from small_engines import by_key, ids_of
from vllm_engines import needs_vllm, policy_of, sync, vllm_of, workers_of

from reasonrl import ReasonRLError
from reasonrl.models.load import checkpoint_weights
from reasonrl.rollout import vllm_process
from reasonrl.rollout.engine import Request, Sampling
from reasonrl.rollout.shared_weights import SharedWeights
from reasonrl.rollout.vllm import VLLMEngine
from reasonrl.types import Rollout

DEADLINE = 6.0  # seconds without a sign of life
SAMPLING = Sampling(max_tokens=400)
REQUESTS = [Request(f"p{i}", (3 + i, 4, 5) * 20, tuple(range(100 * i, 100 * i + 8))) for i in range(3)]


# --- lost and found --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engine() -> Iterator[VLLMEngine]:
    policy = policy_of()
    engine = vllm_of(policy, deadline=DEADLINE)
    try:
        sync(engine, policy)
        yield engine
    finally:
        engine.close()


@dataclass
class Arrivals:
    """The responses of a step, and when the last of them came."""

    rollouts: list[Rollout] = field(default_factory=list)
    last: float = 0.0

    def gather(self, engine: VLLMEngine, *signals: signal.Signals) -> None:
        """Sample; the first worker gets the first signal after its second response, the next one the next, …"""
        signalled: set[int] = set()
        for rollout in engine.sample(REQUESTS, SAMPLING):
            self.rollouts.append(rollout)
            self.last = time.monotonic()
            untouched = workers_of(os.getpid()) - signalled
            if len(self.rollouts) >= 2 and untouched and len(signalled) < len(signals):
                (worker,) = untouched
                os.kill(worker, signals[len(signalled)])
                signalled.add(worker)


@needs_vllm
def test_a_killed_worker_is_started_again_and_the_step_completed(
    engine: VLLMEngine, caplog: pytest.LogCaptureFixture
) -> None:
    undisturbed = ids_of(by_key(engine.sample(REQUESTS, SAMPLING)))
    (worker,) = workers_of(os.getpid())
    arrived = Arrivals()
    with caplog.at_level(logging.WARNING):
        arrived.gather(engine, signal.SIGKILL)
    assert len(arrived.rollouts) == len(undisturbed)  # none twice
    assert ids_of(by_key(iter(arrived.rollouts))) == undisturbed
    assert {rollout.version for rollout in arrived.rollouts} == {1}
    assert "its process died (exit code -9)" in caplog.text
    assert caplog.text.count("starting it once more") == 1
    assert not alive(worker)
    assert len(workers_of(os.getpid())) == 1


@needs_vllm
def test_a_worker_lost_twice_in_a_step_is_an_error(engine: VLLMEngine, caplog: pytest.LogCaptureFixture) -> None:
    """First it hangs, which the deadline finds out, then it is killed, which is seen at once."""
    (hung,) = workers_of(os.getpid())
    arrived, again = Arrivals(), r"lost twice in one step, the second time: vLLM: its process died \(exit code -9\)"
    with caplog.at_level(logging.WARNING), pytest.raises(ReasonRLError, match=again):
        arrived.gather(engine, signal.SIGSTOP, signal.SIGKILL)
    assert time.monotonic() - arrived.last < 5, "the second loss was noticed late"
    assert "no sign of life for 6 s" in caplog.text
    assert caplog.text.count("starting it once more") == 1
    assert not alive(hung)
    assert workers_of(os.getpid()) == set()


# --- never started ---------------------------------------------------------------------------------------------------

# Blocks of 2 GiB for one sequence, where 1 GiB is given.
LONG: dict[str, Any] = {"num_attention_heads": 8, "head_dim": 256, "max_position_embeddings": 65536}


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, VLLMEngine]]:
    """Engines that cannot start, all trying at the same time."""
    engines = {
        "KV cache": vllm_of(policy_of(**LONG), longest=65536),
        "heads": vllm_of(policy_of(num_attention_heads=4)),
    }
    nowhere = replace(engines["heads"].setup, model=str(tmp_path_factory.mktemp("nothing")))
    engines["folder"] = VLLMEngine(nowhere, None, eos_ids=(1,), environment={}, start_deadline=170)
    try:
        yield engines
    finally:
        for engine in engines.values():
            engine.close()


@needs_vllm
@pytest.mark.parametrize(
    ("fault", "said", "cure"),
    [
        ("KV cache", "2.0 GiB KV cache is needed", "raise engine.kv_cache_gib"),
        ("folder", "Invalid repository ID or local directory", "model.path must be a hub id or a folder with a config"),
        ("heads", "head_dim=16", "takes heads of 32, 64,"),
    ],
)
def test_what_keeps_vllm_from_starting_is_said_with_its_cure(
    failing: dict[str, VLLMEngine], fault: str, said: str, cure: str
) -> None:
    with pytest.raises(ReasonRLError, match="vLLM does not start: ") as raised:
        failing[fault].wait()
    message = str(raised.value)
    assert said in message
    assert cure in message.splitlines()[-1]
    assert 'File "' not in message  # no traceback


@needs_vllm
def test_a_start_has_a_deadline() -> None:
    engine, started = vllm_of(policy_of(), start_deadline=0.5), time.monotonic()
    with pytest.raises(ReasonRLError, match=r"vLLM does not start: vLLM: no sign of life for 0\.5 s"):
        engine.wait()
    assert time.monotonic() - started < 5
    assert workers_of(os.getpid()) == set()
    engine.close()


def test_vllm_that_is_not_installed_is_an_error_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_process, "find_spec", lambda name: None)
    with pytest.raises(ReasonRLError, match=r"pip install 'reasonrl\[vllm\]'.* or set engine\.name=huggingface"):
        vllm_of(policy_of())
    gc.collect()  # a temporary folder left behind would say so now


# --- nothing is left, nothing is touched -----------------------------------------------------------------------------


def opened() -> list[str]:
    """What this process has open."""
    return sorted(os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.is_symlink())


@needs_vllm
def test_the_trainer_notices_nothing_of_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its generator nor its threads; and after it no process, no memory, and no file."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    policy = policy_of()
    before, state, threads = len(opened()), torch.get_rng_state(), torch.get_num_threads()
    engine, weights = vllm_of(policy), SharedWeights(torch.float32)
    weights.write(checkpoint_weights(policy.model))
    (worker,) = until(lambda: workers_of(os.getpid()))  # on a busy machine a process takes a while to have its name
    assert list(tmp_path.glob("reasonrl-model-*/config.json"))
    assert any("memfd:reasonrl-weights" in one for one in opened())
    for one in (engine, weights, engine, weights):
        one.close()
    assert len(opened()) == before
    assert not alive(worker)
    assert list(tmp_path.iterdir()) == []
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


# It imports little, so that it is there soon, and needs no model: vLLM itself takes seconds to be imported.
PARENT = """
import signal
import sys
from reasonrl.rollout.messages import Setup
from reasonrl.rollout.vllm import VLLMEngine

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what is in its background with it ignored
setup = Setup("nowhere", None, True, "float32", 64, 8, 1, 0.4, False, True)
engine = VLLMEngine(setup, None, eos_ids=(1,), environment={})
print("begun", flush=True)
if sys.argv[1] == "raise":
    raise RuntimeError("on purpose")
engine.wait()
"""


@needs_vllm
@pytest.mark.parametrize(
    ("end", "sent", "written"),
    [
        ("raise", None, "RuntimeError: on purpose"),
        ("interrupt", signal.SIGINT, "KeyboardInterrupt"),
        ("kill", signal.SIGKILL, ""),
    ],
)
def test_no_worker_outlives_its_parent(end: str, sent: signal.Signals | None, written: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PARENT, end]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "begun\n"
        workers: set[int] = set()
        if sent is not None:
            workers = until(lambda: workers_of(parent.pid))
            assert len(workers) == 1
            parent.send_signal(sent)
        _, errors = parent.communicate(timeout=60)
    assert parent.returncode != 0
    assert written in errors
    # Where the parent ends by itself its worker may be about to start, and ends a moment later.
    until(lambda: not any(alive(worker) for worker in workers) and not workers_of(parent.pid))
