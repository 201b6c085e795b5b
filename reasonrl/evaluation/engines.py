"""Which engine samples, and the engine made ready."""

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from reasonrl.config import EngineConfig, ModelConfig
from reasonrl.models.heads import logits
from reasonrl.models.load import Policy, Vocabulary, save_policy
from reasonrl.rollout.engine import Engine
from reasonrl.rollout.huggingface import HuggingFaceEngine
from reasonrl.rollout.messages import Setup
from reasonrl.rollout.vllm import VLLMEngine
from reasonrl.rollout.vllm_process import require_vllm

TOY = 30_000_000  # parameters; below, the model itself samples as fast as vLLM, and starts 20 seconds earlier
_BLOCK = 32  # tokens


def choose(config: EngineConfig, parameters: int) -> tuple[str, str]:
    """The engine's name, "huggingface" or "vllm", and why."""
    if config.name != "auto":
        return config.name, "as configured"
    if find_spec("vllm") is None:
        return "huggingface", "vLLM is not installed"
    size = f"the model has {parameters / 1e6:,.0f} M parameters"
    if parameters < TOY:
        return "huggingface", f"{size}: a toy, for which vLLM is not worth its start"
    return "vllm", f"vLLM is installed, and {size}"


def huggingface_engine(
    policy: Policy, max_batch: int, autocast: Callable[[], AbstractContextManager[Any]] = nullcontext
) -> Engine:
    """The engine that samples with the policy's own model."""
    return HuggingFaceEngine(
        policy.model,
        policy.tokenizer,
        eos_ids=policy.eos_ids,
        pad_id=policy.pad_id,
        logits=logits,
        max_batch=max_batch,
        autocast=autocast,
    )


def vllm_engine(
    config: EngineConfig, vocabulary: Vocabulary, model: ModelConfig, *, longest: int | None, own_weights: bool
) -> Engine:
    """vLLM in a process of its own, which starts meanwhile.

    Args:
        config: of the engine.
        vocabulary: of the model.
        model: where its config lies; a tiny one is written to a temporary folder.
        longest: tokens of the longest prompt and response together; None if that is not known.
        own_weights: sample from the weights that lie there; else a sync brings them.

    Raises:
        ReasonRLError: vLLM is not installed.
    """
    require_vllm()  # before anything is written
    folder = None
    path = model.path
    if path is None:
        assert isinstance(vocabulary, Policy)
        folder = tempfile.TemporaryDirectory(prefix="reasonrl-model-")
        save_policy(vocabulary, Path(folder.name))
        path = folder.name
    cpu = not torch.cuda.is_available()
    setup = Setup(
        model=str(Path(path).expanduser()) if Path(path).expanduser().is_dir() else path,
        revision=model.revision,
        own_weights=own_weights,
        dtype=model.dtype if config.dtype == "auto" else config.dtype,
        max_model_len=config.max_model_len or _needed(longest, vocabulary.max_positions),
        max_num_seqs=config.max_batch,
        tensor_parallel_size=config.tensor_parallel_size,
        gpu_memory_utilization=config.gpu_memory_utilization,
        sleep=config.sleep and not cpu,
        cpu=cpu,
    )
    return VLLMEngine(
        setup,
        vocabulary.tokenizer,
        eos_ids=vocabulary.eos_ids,
        environment=environment(config, cpu),
        start_deadline=config.start_deadline,
        deadline=config.deadline,
        folder=folder,
    )


def environment(config: EngineConfig, cpu: bool) -> dict[str, str]:
    """Variables of the vLLM process."""
    quiet = {"VLLM_LOGGING_LEVEL": "WARNING", "VLLM_NO_USAGE_STATS": "1"}
    if not cpu:
        return quiet
    return quiet | {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # our process is the one to kill
        "VLLM_CPU_KVCACHE_SPACE": str(config.kv_cache_gib),
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # to certain cores, which several engines would share
        "OMP_NUM_THREADS": str(config.threads),
    }


def _needed(longest: int | None, most: int | None) -> int | None:
    if longest is None:
        return most
    rounded = -(-longest // _BLOCK) * _BLOCK
    return rounded if most is None else min(rounded, most)
