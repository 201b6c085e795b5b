"""The names under which an engine gets weights are those of a checkpoint, also where parameters are named otherwise."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaConfig, MixtralConfig, Qwen3MoeConfig

from reasonrl.models.load import checkpoint_weights

SIZES = {
    "vocab_size": 17, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 2,
}  # fmt: skip
EXPERTS = {"num_experts_per_tok": 1, "num_local_experts": 3}


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    ("config", "renamed"),
    [
        (LlamaConfig(**SIZES), False),
        (MixtralConfig(**SIZES, **EXPERTS), True),
        (Qwen3MoeConfig(**SIZES, num_experts=3, num_experts_per_tok=1, moe_intermediate_size=8), True),
    ],
    ids=["llama", "mixtral", "qwen3_moe"],
)
def test_weights_come_under_the_names_that_are_saved(config: Any, renamed: bool, tied: bool, tmp_path: Path) -> None:
    config.tie_word_embeddings = tied
    model = AutoModelForCausalLM.from_config(config)
    model.save_pretrained(tmp_path)
    saved, given = load_file(tmp_path / "model.safetensors"), dict(checkpoint_weights(model))
    assert given.keys() == saved.keys()
    assert ("lm_head.weight" in given) != tied
    assert (given.keys() != dict(model.named_parameters()).keys()) == renamed
    assert all(torch.equal(given[name], saved[name]) for name in saved)
