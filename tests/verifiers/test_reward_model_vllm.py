"""reward_model with a real vLLM server, which gives the scores that the same model has here."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from reward_models import saved
from vllm_engines import LONGEST, needs_vllm

from reasonrl import Message, Problem, Response
from reasonrl_reward_model import RemoteOptions, RewardModelOptions, RewardModelVerifier

STARTS_WITHIN = 240.0  # seconds; 30 on an idle machine
SIZES: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2}
CHAT, TEXT = Problem("chat", (Message(role="user", content="1+1"),)), Problem("text", "1+1=")
PAIRS = [(CHAT, Response("2")), (TEXT, Response("3")), (CHAT, Response("4, or five"))]

pytestmark = [needs_vllm, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama with heads of 32 numbers, the smallest vLLM takes."""
    folder = tmp_path_factory.mktemp("served")
    saved(folder, max_position_embeddings=LONGEST, **SIZES)
    return folder


@pytest.fixture(scope="module")
def server(model: Path) -> Iterator[str]:
    """The address of vLLM's server with the model, once it answers."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    # The program `vllm serve` of the wheel for CPUs looks for a package named vllm, and ends.
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    command += ["--served-model-name", "rm", "--runner", "pooling", "--dtype", "float32", "--enforce-eager"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    settings = {"OMP_NUM_THREADS": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    log = model / "server.log"
    with log.open("wb") as out:
        # In a group of its own: the server's engine is a process besides.
        process = subprocess.Popen(
            command, env=os.environ | settings, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        wait(f"http://127.0.0.1:{port}", process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):  # it ended by itself
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            urllib.request.urlopen(f"{url}/health", timeout=5).close()
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.5)
        else:
            return
    pytest.fail(f"no answer within {STARTS_WITHIN:.0f} s: {log.read_text()[-3000:]}")


@pytest.mark.parametrize("api", ["vllm_classify", "vllm_pooling"])
def test_the_server_scores_as_the_model_does_here(server: str, model: Path, api: str) -> None:
    here = RewardModelVerifier(RewardModelOptions(model=str(model))).verify_batch(PAIRS)
    remote = RemoteOptions(url=server, api=api, model="rm", timeout=60)
    there = RewardModelVerifier(RewardModelOptions(remote=remote)).verify_batch(PAIRS)
    expected = [one.reward for one in here]
    assert [one.reward for one in there] == pytest.approx(expected, abs=1e-4)
    assert len({round(reward, 2) for reward in expected if reward is not None}) == len(PAIRS)


@pytest.mark.parametrize("api", ["vllm_classify", "vllm_pooling"])
def test_what_the_server_refuses_is_unjudged(server: str, api: str) -> None:
    pairs = [(TEXT, Response("1" * LONGEST)), (TEXT, Response("2"))]
    remote = RemoteOptions(url=server, api=api, model="rm", timeout=60, retries=0)
    too_long, fits = RewardModelVerifier(RewardModelOptions(remote=remote)).verify_batch(pairs)
    assert (too_long.reward, too_long.reason) == (None, "remote")
    assert "400" in too_long.evidence["error"]
    assert fits.reward is not None
