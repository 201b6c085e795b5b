"""The vLLM engine: samples in a process of its own, which can be watched, killed and started again.

A process of its own keeps vLLM from seeding the trainer's generators and freezing its threads, makes every wait one
with a deadline, and leaves no orphan: the process dies with ours. Weights reach it through shared memory.
"""

import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from reasonrl.errors import ReasonRLError
from reasonrl.rollout.engine import Engine, Request, Sampling
from reasonrl.rollout.finished import finished_rollout
from reasonrl.rollout.messages import Finished, Group, Load, Sample, Setup, Sleep
from reasonrl.rollout.shared_weights import SharedWeights
from reasonrl.rollout.vllm_process import EngineLost, VLLMProcess
from reasonrl.types import Rollout

_HOTTEST = 2.0  # temperature that vLLM takes

logger = logging.getLogger(__name__)


class VLLMEngine(Engine):
    """Samples with vLLM.

    Args:
        setup: of vLLM.
        tokenizer: decodes responses.
        eos_ids: ids that end a response.
        environment: variables of its process.
        start_deadline: seconds until vLLM must be ready.
        deadline: seconds without a sign of life after which it is killed; of a sync, in all.
        folder: where the model's config lies, if it is to be removed with the engine.

    It starts while the caller goes on; whoever needs it first waits for it.

    Raises:
        ReasonRLError: vLLM is not installed.
    """

    keeps_copy = True

    def __init__(
        self,
        setup: Setup,
        tokenizer: Any,
        *,
        eos_ids: Sequence[int],
        environment: Mapping[str, str],
        start_deadline: float = 600.0,
        deadline: float = 120.0,
        folder: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        self.setup = setup
        self._tokenizer = tokenizer
        self._eos_ids = tuple(eos_ids)
        self._environment = environment
        self._start_deadline, self._deadline = start_deadline, deadline
        self._folder = folder
        self._version = 0
        self._asleep = False
        self._weights: SharedWeights | None = None
        self._process: VLLMProcess | None = None
        self._start()

    def sample(self, requests: Sequence[Request], sampling: Sampling) -> Iterator[Rollout]:
        """Yield each response as soon as it is finished: one request to vLLM per problem, its prompt computed once.

        Sample j of a request draws from the seed of sample 0 plus j. If the process is lost, it is started once more
        and samples what is missing, with the same seeds.

        Raises:
            ValueError: a prompt is empty, or prompt and response are beyond `max_model_len`.
            ReasonRLError: no weights have been synced, the temperature is above 2, or the process was lost twice.
        """
        self._require_open()
        if self._weights is None and not self.setup.own_weights:
            raise ReasonRLError("the vLLM engine has no weights yet: sync it before sampling")
        if sampling.temperature > _HOTTEST:
            raise ReasonRLError(
                f"vLLM samples at temperatures up to {_HOTTEST:g}: lower sampling.temperature, "
                f"{sampling.temperature:g}, or set engine.name=huggingface"
            )
        for request in requests:
            self._check(request, sampling)
        missing = {at: set(range(len(request.seeds))) for at, request in enumerate(requests)}
        try:
            yield from self._missing(requests, missing, sampling)
        except EngineLost as lost:
            logger.warning("%s; starting it once more", lost)
            self._restart()
            try:
                yield from self._missing(requests, missing, sampling)
            except EngineLost as again:
                raise ReasonRLError(f"the vLLM process was lost twice in one step, the second time: {again}") from None

    def sync(self, weights: Iterator[tuple[str, Tensor]], version: int) -> None:
        """Hand over all weights, under the names of the checkpoint.

        Raises:
            ValueError: names or shapes are not those of the first sync.
            ReasonRLError: the process was lost twice.
        """
        self._require_open()
        if self._weights is None:
            self._weights = SharedWeights(getattr(torch, self.setup.dtype))
        self._weights.write(weights)
        try:
            self._load()
        except EngineLost as lost:
            logger.warning("%s; starting it once more", lost)
            self._restart()
        self._version = version

    def wait(self) -> dict[str, float]:
        """Wait until vLLM is ready; the seconds that the parts of its start took.

        Raises:
            ReasonRLError: it does not start; says why and what to change.
        """
        process = self._running()
        process.wait()
        return process.start_seconds

    def rest(self) -> None:
        """Give the GPU's memory back until the next sync, where `sleep` is on."""
        if self.setup.sleep and not self._asleep:
            with suppress(EngineLost):  # it holds no memory then either, and is started anew when it is needed
                for _ in self._running().ask(Sleep(), self._deadline):
                    pass
                self._asleep = True

    def close(self) -> None:
        """Kill the process and free the shared memory."""
        if self._process is not None:
            self._process.kill()
            self._process = None
        if self._weights is not None:
            self._weights.close()
            self._weights = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _missing(
        self, requests: Sequence[Request], missing: dict[int, set[int]], sampling: Sampling
    ) -> Iterator[Rollout]:
        """Sample what is missing; what has arrived is taken out of `missing`."""
        greedy = sampling.temperature == 0  # all samples are the same: one is computed
        asked = [at for at, samples in missing.items() if samples]
        groups = tuple(
            Group(requests[at].prompt_ids, 1 if greedy else len(requests[at].seeds), requests[at].seeds[0])
            for at in asked
        )
        process, finished = self._running(), False
        replies = process.ask(Sample(groups, sampling, self._eos_ids), self._deadline)
        try:
            for reply in replies:
                at = asked[reply.request]
                for sample in sorted(missing[at]) if greedy else [reply.sample]:
                    if sample in missing[at]:
                        missing[at].remove(sample)
                        yield self._rollout(requests[at], sample, reply, sampling)
            finished = True
        finally:
            if not finished:  # lost, or the reader has gone: what is still coming must not be taken for later replies
                process.kill()

    def _rollout(self, request: Request, sample: int, reply: Finished, sampling: Sampling) -> Rollout:
        return finished_rollout(
            request,
            sample,
            reply.ids,
            reply.logprobs,
            tokenizer=self._tokenizer,
            eos_ids=self._eos_ids,
            stop=sampling.stop,
            version=self._version,
            seed=request.seeds[0] + (0 if sampling.temperature == 0 else sample),
        )

    def _check(self, request: Request, sampling: Sampling) -> None:
        if not request.prompt_ids:
            raise ValueError(f"problem {request.problem_id}: the prompt is empty")
        longest = self._running().wait()
        if len(request.prompt_ids) + sampling.max_tokens > longest:  # vLLM would cut the response without a word
            raise ValueError(
                f"problem {request.problem_id}: {len(request.prompt_ids)} prompt tokens and {sampling.max_tokens} of "
                f"the response are beyond engine.max_model_len {longest}; raise it, or lower sampling.max_tokens"
            )

    def _require_open(self) -> VLLMProcess:
        if self._process is None:
            raise ReasonRLError("the vLLM engine is closed")
        return self._process

    def _running(self) -> VLLMProcess:
        if self._require_open().busy:  # with an iteration that was left but not dropped: see `_missing`
            self._require_open().kill()
        if not self._require_open().alive:
            self._restart()
        return self._require_open()

    def _start(self) -> None:
        self._process = VLLMProcess(self.setup, self._environment, self._start_deadline)

    def _restart(self) -> None:
        """A new process with the weights of the last sync.

        Raises:
            ReasonRLError: it does not start, or is lost again at once.
        """
        assert self._process is not None
        self._process.kill()
        self._start()
        self._asleep = False
        if self._weights is not None:
            try:
                self._load()
            except EngineLost as lost:
                raise ReasonRLError(f"the vLLM process, started once more, was lost again: {lost}") from None

    def _load(self) -> None:
        assert self._weights is not None
        process = self._running()
        load = Load(str(self._weights.path), self._weights.tensors, self._asleep)
        for _ in process.ask(load, self._deadline):
            pass
        self._asleep = False
