"""vLLM in a process of its own: `python -m reasonrl.rollout.vllm_worker FD PARENT`. The only file that imports vllm.

FD is its end of a socket pair; both ends are ours, and messages are pickles. The parent asks one thing at a time: to
sample, to load weights, to sleep. While it samples, the worker sends each response as it is finished and a sign of
life every second, so that a hang is seen. It dies with its parent.

What is not as one would expect of vLLM 0.32 is said where it is dealt with; all of it was seen by running it.
"""

import mmap
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from reasonrl.processes import die_with
from reasonrl.rollout.engine import Sampling
from reasonrl.rollout.messages import Finished, Group, Load, Sample, Setup, SharedTensor, Sleep, Start

_SIGN_OF_LIFE = 1.0  # seconds


def main() -> None:
    """Serve until the parent closes the channel."""
    descriptor, parent = int(sys.argv[1]), int(sys.argv[2])
    die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)  # vLLM prints; what it prints goes where errors go
    with suppress(EOFError, ConnectionError):  # the parent is gone, or done with us
        _serve(Connection(descriptor))
    os._exit(0)  # threads of vLLM must not keep the process


def _serve(channel: Connection) -> None:
    start: Start = channel.recv()
    sys.path[:] = start.path
    try:
        engine = Worker(start.engine)
        channel.send(("ready", engine.facts()))
        channel.send(("done",))
        while True:
            for reply in engine.answer(channel.recv()):
                channel.send(reply)
    except (EOFError, ConnectionError):
        raise
    except Exception as error:  # noqa: BLE001  whatever it is, the parent shows it
        traceback.print_exc()
        sys.stderr.flush()
        channel.send(("failed", f"{type(error).__name__}: {error}"))


class Worker:
    """A vLLM engine that answers the parent's messages."""

    def __init__(self, setup: Setup) -> None:
        started = time.monotonic()
        from vllm import LLM

        imported = time.monotonic()
        self._llm = LLM(**setup.arguments())
        self._engine = self._llm.llm_engine
        self._warm_up()
        self._seconds = {"import": imported - started, "engine": time.monotonic() - imported}

    def facts(self) -> dict[str, Any]:
        """What the parent should know of the engine: its longest sequence, and how long the parts of its start took."""
        return {"max_model_len": self._llm.model_config.max_model_len, "seconds": self._seconds}

    def _warm_up(self) -> None:
        """One token, thrown away: the first is slow, and on a CPU only then does vLLM refuse a size of heads."""
        for _ in self._sample(Sample((Group((0,), 1, 0),), Sampling(temperature=0, max_tokens=1), ())):
            pass

    def answer(self, message: Any) -> Iterator[tuple[Any, ...]]:
        """The replies to a message; the last one says that it is done."""
        match message:
            case Sample():
                yield from self._sample(message)
            case Load():
                self._llm.wake_up() if message.asleep else None
                self._llm.collective_rpc("load_shared", args=(message.path, message.tensors))
                self._engine.reset_prefix_cache()  # blocks cached before were computed with other weights
            case Sleep():
                self._llm.sleep(level=2)  # the weights come anew with the next load
        yield ("done",)

    def _sample(self, message: Sample) -> Iterator[tuple[Any, ...]]:
        """Each response as it is finished, and signs of life."""
        from vllm.inputs.engine import tokens_input

        running: dict[str, dict[int, tuple[list[int], list[float]]]] = {}
        for number, request in enumerate(message.requests):
            running[str(number)] = {j: ([], []) for j in range(request.samples)}
            parameters = _parameters(message, request.samples, request.seed)
            self._engine.add_request(str(number), tokens_input(list(request.prompt_ids)), parameters)
        last = time.monotonic()
        while self._engine.has_unfinished_requests():
            for output in self._engine.step():
                for part in output.outputs:
                    ids, logprobs = running[output.request_id][part.index]
                    ids += part.token_ids
                    logprobs += part.logprobs.logprobs
                    if part.finish_reason is not None:
                        ended = _cut(ids, logprobs, part)
                        yield ("finished", Finished(int(output.request_id), part.index, *ended))
            if time.monotonic() - last > _SIGN_OF_LIFE:
                last = time.monotonic()
                yield ("alive",)


def _cut(ids: list[int], logprobs: list[float], part: Any) -> tuple[tuple[int, ...], tuple[float, ...], str]:
    if len(ids) != len(logprobs):
        raise RuntimeError(f"vLLM gave {len(logprobs)} log-probabilities for {len(ids)} tokens")
    return tuple(ids), tuple(logprobs), part.finish_reason


def _parameters(message: Sample, samples: int, seed: int) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    sampling = message.sampling
    return SamplingParams(
        n=samples,  # child j draws from seed + j
        seed=seed,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        max_tokens=sampling.max_tokens,
        stop=list(sampling.stop),
        stop_token_ids=list(message.eos_ids),
        detokenize=bool(sampling.stop),  # the parent decodes; vLLM needs texts only to find a stop text in them
        logprobs=0,  # of the sampled token alone
        flat_logprobs=True,
        output_kind=RequestOutputKind.DELTA,  # so that one response of a group does not wait for the others
    )


class SharedWeights:
    """Methods that vLLM adds to its own workers (`worker_extension_cls`), on whatever device they are."""

    model_runner: Any

    def load_shared(self, path: str, tensors: list[SharedTensor]) -> None:
        """Load weights, under the names of the checkpoint, that lie in a file of shared memory."""
        with Path(path).open("r+b") as file, mmap.mmap(file.fileno(), 0) as shared:
            self.model_runner.reload_weights(weights_iterator=_views(shared, tensors))
        _refresh_heads(self.model_runner.get_model())


def _views(shared: mmap.mmap, tensors: list[SharedTensor]) -> Iterator[tuple[str, Any]]:
    import torch

    for one in tensors:
        flat = torch.frombuffer(shared, dtype=getattr(torch, one.dtype), count=one.count, offset=one.offset)
        yield one.name, flat.view(one.shape).clone()  # a view would keep the file mapped


def _refresh_heads(model: Any) -> None:
    """On CPU, vLLM's head multiplies by a packed copy of its weight, which a reload leaves as it was if it is tied."""
    from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead

    for module in model.modules():
        if isinstance(module, ParallelLMHead) and hasattr(module, "cpu_linear"):
            module.quant_method.process_weights_after_loading(module)


if __name__ == "__main__":
    main()
