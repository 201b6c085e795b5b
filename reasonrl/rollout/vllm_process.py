"""The process vLLM runs in, seen from ours: started, asked, watched, killed."""

import socket
import struct
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from multiprocessing.connection import Connection
from typing import Any

from reasonrl import processes
from reasonrl.errors import ReasonRLError
from reasonrl.rollout.messages import Setup, Start

_DIED = "its process died"
_SHOWN_LINES = 12  # of what the process wrote to standard error

# What vLLM says as it fails to start, and what to do about it.
_CURES = (
    (
        "Unsupported CPU attention configuration: head_dim",
        "vLLM on a CPU takes heads of 32, 64, 80, 96, 112, 128, 160, 192, 224, 256 or 512 numbers; set "
        "engine.name=huggingface",
    ),
    ("Invalid repository ID or local directory", "model.path must be a hub id or a folder with a config.json"),
    ("KV cache", "raise engine.kv_cache_gib (GPUs: engine.gpu_memory_utilization), or lower engine.max_model_len"),
    ("Available KV cache memory", "raise engine.kv_cache_gib (GPUs: engine.gpu_memory_utilization)"),
    ("No available memory for the cache blocks", "raise engine.kv_cache_gib (GPUs: engine.gpu_memory_utilization)"),
    ("out of memory", "lower engine.gpu_memory_utilization: the trainer needs its part of the GPU"),
    ("max_model_len", "lower engine.max_model_len"),
    ("tensor_parallel_size", "set engine.tensor_parallel_size to what the GPUs and the model's heads allow"),
)


def require_vllm() -> None:
    """Raise a ReasonRLError if vLLM is not installed."""
    if find_spec("vllm") is None:
        raise ReasonRLError(
            "engine.name is vllm, which is not installed: pip install 'reasonrl[vllm]' (on a CPU: "
            "docs/guides/vllm.md), or set engine.name=huggingface"
        )


class EngineLost(Exception):
    """The process died, hung or broke.

    Args:
        what: which of these, or what vLLM said.
        wrote: the last lines it wrote to standard error.
    """

    def __init__(self, what: str, wrote: Sequence[str] = ()) -> None:
        shown = ["; the end of what it wrote:", *wrote] if wrote else []
        super().__init__(f"vLLM: {what}" + "\n  ".join(shown))
        self.what = what


class VLLMProcess:
    """A running vLLM.

    Args:
        setup: of vLLM.
        environment: variables of the process, beside ours.
        start_deadline: seconds until it must be ready.

    It starts meanwhile: `wait` waits for it.

    Raises:
        ReasonRLError: vLLM is not installed.
    """

    def __init__(self, setup: Setup, environment: Mapping[str, str], start_deadline: float) -> None:
        require_vllm()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed in `kill`
        self._process, ours = processes.start("reasonrl.rollout.vllm_worker", environment, self._errors)
        self._channel = Connection(ours.detach())
        self._start_deadline = start_deadline
        self._max_model_len: int | None = None
        self.start_seconds: dict[str, float] = {}
        self.alive, self.busy = True, False
        _set_deadline(self._channel, start_deadline)
        self._channel.send(Start(processes.importable(), setup))

    def wait(self) -> int:
        """Wait until it is ready; its longest sequence in tokens.

        Raises:
            ReasonRLError: it does not start; with a cure where one is known.
        """
        if self._max_model_len is None:
            try:
                (facts,) = self._replies(self._start_deadline)
            except EngineLost as lost:
                raise ReasonRLError(f"vLLM does not start: {_with_cure(lost)}") from None
            self._max_model_len = facts["max_model_len"]
            self.start_seconds = facts["seconds"]
        return self._max_model_len

    def ask(self, message: Any, deadline: float) -> Iterator[Any]:
        """Send a message and yield what is answered, until the worker is done.

        Args:
            message: see `messages`.
            deadline: seconds without a sign of life after which the process is killed.

        Raises:
            EngineLost: it died, hung, or failed. It has been killed then.
        """
        self.wait()
        _set_deadline(self._channel, deadline)  # for a message that is sent or received in part
        self.busy = True
        try:
            self._channel.send(message)
        except OSError:  # BlockingIOError, too: the deadline of a send
            raise self._lost("its process takes no messages") from None
        yield from self._replies(deadline)
        self.busy = False

    def _replies(self, deadline: float) -> Iterator[Any]:
        try:
            while True:
                if not self._channel.poll(deadline):
                    raise TimeoutError
                kind, *rest = self._channel.recv()
                if kind == "done":
                    return
                if kind == "failed":
                    raise self._lost(rest[0].strip())
                if rest:
                    yield rest[0]
        except (TimeoutError, BlockingIOError):
            raise self._lost(f"no sign of life for {deadline:g} s") from None
        except (EOFError, OSError):
            raise self._lost(_DIED) from None

    def kill(self) -> None:
        """Kill the process and all that it started. Safe to call twice."""
        if self.alive:
            self.alive = False
            processes.kill(self._process)
            self._channel.close()
            self._errors.close()

    def _lost(self, what: str) -> EngineLost:
        if not self.alive:
            return EngineLost("its process has been killed")
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()[-_SHOWN_LINES:]
        self.kill()
        if what == _DIED and self._process.returncode is not None:  # else it is we who ended it
            what += f" (exit code {self._process.returncode})"
        return EngineLost(what, lines)


def _with_cure(lost: EngineLost) -> str:
    """What vLLM said and what to do about it; where that is not known, all that it wrote last."""
    for text in (lost.what, str(lost)):
        for sign, cure in _CURES:
            if sign.lower() in text.lower():
                return f"{lost.what}\n{cure}"
    return str(lost)


def _set_deadline(channel: Connection, seconds: float) -> None:
    timeval = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
    with socket.socket(fileno=channel.fileno()) as view:
        view.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeval)
        view.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval)
        view.detach()
