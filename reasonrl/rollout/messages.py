"""What the vLLM engine and its worker process say to each other."""

from dataclasses import dataclass
from typing import Any

from reasonrl.rollout.engine import Sampling


@dataclass(frozen=True)
class Setup:
    """How vLLM is set up.

    Attributes:
        model: a folder or hub id.
        revision: of the hub id.
        own_weights: sample from the weights that lie there; else they come with the first `Load`.
        dtype: of weights and KV cache.
        max_model_len: most tokens of prompt and response together.
        max_num_seqs: most responses decoded at once.
        tensor_parallel_size, gpu_memory_utilization, sleep: of GPUs.
        cpu: is it the CPU build?
    """

    model: str
    revision: str | None
    own_weights: bool
    dtype: str
    max_model_len: int | None
    max_num_seqs: int
    tensor_parallel_size: int
    gpu_memory_utilization: float
    sleep: bool
    cpu: bool

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of `vllm.LLM`."""
        of_device = (
            # A seed per request together with chunked prefill crashes vLLM on CPU; blocks of 32 rather than 128 tokens
            # let short prompts share their KV cache; compiling takes longer than it saves.
            {"enforce_eager": True, "enable_chunked_prefill": False, "block_size": 32}
            if self.cpu
            else {"gpu_memory_utilization": self.gpu_memory_utilization, "enable_sleep_mode": self.sleep}
        )
        return of_device | {
            "model": self.model,
            "revision": self.revision,
            "dtype": self.dtype,
            "max_model_len": self.max_model_len,
            "max_num_seqs": self.max_num_seqs,
            "tensor_parallel_size": self.tensor_parallel_size,
            # Made-up weights until a `Load`: a sync that does not arrive is seen at once.
            "load_format": "auto" if self.own_weights else "dummy",
            "logprobs_mode": "processed_logprobs",  # of the distribution that was sampled from, temperature and all
            "worker_extension_cls": "reasonrl.rollout.vllm_worker.SharedWeights",
            "disable_log_stats": True,
            "enable_prefix_caching": True,
            "seed": 0,
        }


@dataclass(frozen=True)
class Start:
    """The first message: `sys.path` of the parent, and the engine."""

    path: list[str]
    engine: Setup


@dataclass(frozen=True)
class Group:
    """`samples` responses to one prompt, with the seeds seed, seed + 1, …"""

    prompt_ids: tuple[int, ...]
    samples: int
    seed: int


@dataclass(frozen=True)
class Sample:
    """Sample these groups. Answered by a `Finished` per response."""

    requests: tuple[Group, ...]
    sampling: Sampling
    eos_ids: tuple[int, ...]


@dataclass(frozen=True)
class Finished:
    """A response: the number of its group, its place there, its ids with their logprobs, and vLLM's finish reason."""

    request: int
    sample: int
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: str


@dataclass(frozen=True)
class SharedTensor:
    """Where a weight lies in the shared file: `count` numbers from byte `offset` on."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    count: int
    offset: int


@dataclass(frozen=True)
class Load:
    """Load the weights that lie in the shared file."""

    path: str
    tensors: list[SharedTensor]
    asleep: bool


@dataclass(frozen=True)
class Sleep:
    """Give the memory of weights and KV cache back until the next `Load`."""
