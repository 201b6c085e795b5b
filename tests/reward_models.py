"""Tiny reward models, saved with their tokenizers as anybody's are, for tests of what loads and trains against them."""

from pathlib import Path
from typing import Any

import torch
from small_models import EOS, MAX_POSITIONS, SIZES
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    BertConfig,
    GPT2Config,
    LlamaConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
)

from reasonrl.models.tiny import character_tokenizer

CHARACTERS = "0123456789+=,:\n abcdefghijklmnopqrstuvwxyzки-<>/"
# What chat templates write, in the tokens there are; the last one is the end of sequence.
TEMPLATE = "{% for m in messages %}{{ m['role'] + ':' + m['content'] + '<eos>' }}{% endfor %}"
TEMPLATE += "{% if add_generation_prompt %}assistant:{% endif %}"

_COMMON = {"bos_token_id": None, "eos_token_id": EOS, "initializer_range": 0.4}


def tokenizer(*, chat: bool = True, pad: bool = True, special: tuple[str, ...] = ()) -> PreTrainedTokenizerFast:
    """One token per character; with a chat template that closes each turn with the end of sequence."""
    made = character_tokenizer(CHARACTERS)
    made.add_special_tokens({"additional_special_tokens": list(special)})
    made.model_max_length = MAX_POSITIONS
    if chat:
        made.chat_template = TEMPLATE
    if not pad:
        made.pad_token = None
    return made


def config_of(family: str, vocabulary: int, **changed: Any) -> Any:
    """The config of a small model of one of four families."""
    sizes = SIZES | {"vocab_size": vocabulary, "max_position_embeddings": MAX_POSITIONS}
    match family:
        case "gpt2":
            sizes = {"n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": MAX_POSITIONS, "vocab_size": vocabulary}
            return GPT2Config(**sizes | _COMMON | changed)
        case "bert":
            return BertConfig(**sizes | {"initializer_range": 0.4, "pad_token_id": 0} | changed)
        case "qwen2":
            return Qwen2Config(**sizes | _COMMON | {"num_key_value_heads": 2} | changed)
    return LlamaConfig(**sizes | _COMMON | changed)


def saved(
    folder: Path,
    family: str = "llama",
    *,
    auto: Any = AutoModelForSequenceClassification,
    seed: int = 0,
    words: Any = None,
    **changed: Any,
) -> Any:
    """A random model, saved with a tokenizer that has padding unless the config has none; the model.

    Args:
        words: the tokenizer, if it is to be another.
        changed: keys of the config, by default one label and padding with id 0.
    """
    changed = {"num_labels": 1, "pad_token_id": 0} | changed
    if words is None:
        words = tokenizer(pad=changed["pad_token_id"] is not None)
    if auto is AutoModelForCausalLM:
        del changed["num_labels"]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = auto.from_config(config_of(family, len(words), **changed)).eval()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return model
