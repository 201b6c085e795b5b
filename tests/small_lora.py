"""What tests of LoRA share: small models of several families with adapters, far from their base."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from small_models import CHARACTERS, model_of, policy_of
from torch import Tensor

from reasonrl.config import LoRAConfig, ModelConfig, TinyModelConfig
from reasonrl.models.load import Policy, load_policy, save_policy

# Tied and not, biases, grouped heads, capped logits, weights kept as (inputs, outputs).
FAMILIES = ["llama", "qwen2", "gpt2", "gemma2"]
IDS = torch.tensor([[3, 4, 5, 6, 7, 8, 9, 3]])
TINY = TinyModelConfig(characters=CHARACTERS, hidden_size=16, intermediate_size=24, layers=1, heads=2, max_positions=32)


def lora_policy(family: str, folder: Path, *, seed: int = 0, **model: Any) -> Policy:
    """The family's random model with adapters on every linear layer, loaded as a run loads it."""
    base = folder / "base"
    if not base.exists():
        save_policy(policy_of(family), base)
    return load_policy(ModelConfig(**({"path": str(base), "lora": LoRAConfig(rank=3, alpha=5)} | model)), seed)


def stir(model: Any, seed: int = 1, scale: float = 0.3) -> None:
    """Draw every adapter anew: logits then are far from those of the base."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(scale * torch.randn(parameter.shape, generator=generator))


def logprobs(model: Any) -> Tensor:
    scores: Tensor = model(input_ids=IDS).logits
    return scores.log_softmax(-1)


def loaded(family: str, weights: Mapping[str, Tensor]) -> Any:
    """A plain model with these weights; its own were others."""
    model = model_of(family, seed=7).to(next(iter(weights.values())).dtype)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected
    assert set(missing) <= ({"lm_head.weight"} if model.config.tie_word_embeddings else set())
    return model
