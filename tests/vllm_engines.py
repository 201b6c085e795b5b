"""What tests of the vLLM engine share: small models that vLLM takes, engines around them, and their processes."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from scoring_processes import alive
from small_models import CHARACTERS, COMMON, EOS, PAD, tokenizer
from transformers import AutoModelForCausalLM, LlamaConfig

from reasonrl.config import EngineConfig, ModelConfig, TinyModelConfig
from reasonrl.evaluation.engines import vllm_engine
from reasonrl.models.load import Policy, checkpoint_weights
from reasonrl.rollout.engine import Engine
from reasonrl.rollout.vllm import VLLMEngine

needs_vllm = pytest.mark.skipif(find_spec("vllm") is None or sys.platform != "linux", reason="needs vLLM, and /proc")
LONGEST = 1024  # tokens of prompt and response together
SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2}
ANY_TINY = ModelConfig(tiny=TinyModelConfig(characters=CHARACTERS))  # says: the policy is in no folder yet


def policy_of(*, tied: bool = True, seed: int = 0, **changed: Any) -> Policy:
    """A random Llama with heads of 32 numbers, the smallest vLLM takes, and distributions far from flat."""
    common = COMMON | {"initializer_range": 0.25}
    config = LlamaConfig(
        **(SIZES | common | {"max_position_embeddings": LONGEST, "tie_word_embeddings": tied} | changed)
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config).eval()
    return Policy(tokenizer(), (EOS,), PAD, config.max_position_embeddings, model)


def vllm_of(policy: Policy, *, longest: int | None = LONGEST, own_weights: bool = False, **settings: Any) -> VLLMEngine:
    """A vLLM engine with the policy's config, which starts meanwhile."""
    config = EngineConfig(**({"name": "vllm", "kv_cache_gib": 1, "start_deadline": 170, "deadline": 60} | settings))
    engine = vllm_engine(config, policy, ANY_TINY, longest=longest, own_weights=own_weights)
    assert isinstance(engine, VLLMEngine)
    return engine


def sync(engine: Engine, policy: Policy, version: int = 1) -> None:
    """Bring the policy's weights as they are now, without the probe of a run."""
    weights = checkpoint_weights(policy.model) if engine.keeps_copy else policy.model.named_parameters()
    engine.sync(iter(weights), version)


def perturb(policy: Policy, seed: int, scale: float = 0.05) -> None:
    """Add noise to every weight."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter += scale * torch.randn(parameter.shape, generator=generator)


def workers_of(parent: int) -> set[int]:
    """The process ids of vLLM workers that a process started."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it ended meanwhile
            continue
        if b"reasonrl.rollout.vllm_worker" in arguments and str(parent).encode() in arguments:
            found.add(int(process.name))
    return {pid for pid in found if alive(pid)}
