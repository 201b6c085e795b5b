"""Small random models of several families, real transformers objects, with distributions far from flat."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GPT2Config,
    LlamaConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)

from reasonrl.models.load import Policy
from reasonrl.models.tiny import character_tokenizer

CHARACTERS = "0123456789+=,:"
PAD, EOS = 0, 1
VOCABULARY = len(CHARACTERS) + 3
MAX_POSITIONS = 64
SIZES = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4}
COMMON = {
    "vocab_size": VOCABULARY,
    "initializer_range": 0.4,
    "pad_token_id": PAD,
    "bos_token_id": None,
    "eos_token_id": EOS,
}
CONFIGS: dict[str, Any] = {
    "llama": LlamaConfig(**SIZES, **COMMON, max_position_embeddings=MAX_POSITIONS, tie_word_embeddings=True),
    # Two query heads share each key head, biases in attention, an output embedding of its own.
    "qwen2": Qwen2Config(
        **SIZES, **COMMON, max_position_embeddings=MAX_POSITIONS, num_key_value_heads=2, tie_word_embeddings=False
    ),
    # Queries and keys are normalised.
    "qwen3": Qwen3Config(**SIZES, **COMMON, max_position_embeddings=MAX_POSITIONS, num_key_value_heads=2, head_dim=6),
    # Absolute positions; its base model is called `transformer`.
    "gpt2": GPT2Config(n_embd=24, n_layer=2, n_head=4, n_positions=MAX_POSITIONS, **COMMON),
    # Capped logits and attention scores; a window of 4 positions in the first layer.
    "gemma2": Gemma2Config(
        **SIZES, **COMMON, num_key_value_heads=2, head_dim=6, sliding_window=4, final_logit_softcapping=5.0
    ),
}


def tokenizer() -> PreTrainedTokenizerFast:
    """One token per character."""
    return character_tokenizer(CHARACTERS)


def model_of(family: str, *, dtype: torch.dtype = torch.float32, attention: str = "sdpa", seed: int = 0) -> Any:
    """A random model. Without dropout, as `load_policy` leaves it."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(CONFIGS[family], attn_implementation=attention)
    return model.to(dtype).eval()


def policy_of(family: str, **settings: Any) -> Policy:
    """A random model with the character tokenizer."""
    return Policy(tokenizer(), (EOS,), PAD, MAX_POSITIONS, model_of(family, **settings))


def full_logits(model: Any, prompt: Sequence[int], response: Sequence[int]) -> Tensor:
    """The logits (T, V) that predict each response token, from one unpadded forward of the model itself."""
    ids = torch.tensor([[*prompt, *response]])
    logits: Tensor = model(input_ids=ids).logits[0, len(prompt) - 1 : -1]
    return logits
