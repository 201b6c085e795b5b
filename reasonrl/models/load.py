"""Load a policy and its tokenizer, from a folder, the hub, or made on the spot; copy a policy into a reference."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.core_model_loading import revert_weight_conversion

from reasonrl import files
from reasonrl.config import ModelConfig
from reasonrl.errors import ReasonRLError
from reasonrl.models.heads import check_head
from reasonrl.models.lora import (
    adapted_layers,
    add_adapters,
    merged_state,
    merged_weight,
    save_adapter,
    without_adapters,
)
from reasonrl.models.tiny import character_tokenizer, tiny_llama

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Vocabulary:
    """All of a model but its weights: how text becomes token ids, and how long a sequence may be.

    Attributes:
        tokenizer: of transformers.
        eos_ids: the ids that end a response (a model may have several).
        pad_id: fills what masks hide; the end-of-sequence id where the tokenizer has no padding.
        max_positions: longest sequence the model takes, None if it sets no limit.
    """

    tokenizer: Any
    eos_ids: tuple[int, ...]
    pad_id: int
    max_positions: int | None


@dataclass(frozen=True)
class Policy(Vocabulary):
    """A causal language model of transformers, and its vocabulary."""

    model: Any


def load_policy(config: ModelConfig, seed: int) -> Policy:
    """The policy a run starts from. Dropout is off: the policy that samples is the policy that is trained.

    Args:
        config: where it comes from.
        seed: draws the weights of a tiny model, and of adapters.

    Raises:
        ReasonRLError: the model or tokenizer cannot be loaded, has no end-of-sequence token, a head unknown to us, or
            no layer that `lora` asks for.
    """
    if config.tiny is not None:
        tiny = config.tiny
        tokenizer = character_tokenizer(tiny.characters)
        model = tiny_llama(
            tokenizer, seed=seed, attention=config.attention, **tiny.model_dump(exclude={"characters"})
        ).to(DTYPES[config.dtype])
    else:
        assert config.path is not None
        model, tokenizer = _from_pretrained(config.path, config.revision, config.dtype, config.attention)
    switch_dropout_off(model)
    if config.lora is not None:
        add_adapters(model, config.lora, seed)
    model.eval()  # some families also add noise of other kinds in training mode (routers of experts)
    if config.gradient_checkpointing:
        model.gradient_checkpointing_enable()
    check_head(model)
    vocabulary = _vocabulary(tokenizer, model.generation_config, model.config)
    return Policy(**vars(vocabulary), model=model)


def policy_without_weights(config: ModelConfig) -> Policy:
    """The same on torch's meta device: all shapes, no numbers, and no weights are read.

    Raises:
        ReasonRLError: as of `load_policy`, but for weights that are missing and a head unknown to us.
    """
    if config.tiny is not None:
        tokenizer = character_tokenizer(config.tiny.characters)
        sizes = config.tiny.model_dump(exclude={"characters"})
        with torch.device("meta"):
            model: Any = tiny_llama(tokenizer, seed=0, attention=config.attention, **sizes).to(DTYPES[config.dtype])
        vocabulary = _vocabulary(tokenizer, model.generation_config, model.config)
    else:
        assert config.path is not None
        vocabulary, _ = load_vocabulary(config.path, config.revision)
        with loading(config.path) as source, torch.device("meta"):
            model = AutoModelForCausalLM.from_config(
                AutoConfig.from_pretrained(source, revision=config.revision),
                dtype=DTYPES[config.dtype],
                attn_implementation=config.attention,
            )
    switch_dropout_off(model)
    if config.lora is not None:
        with torch.device("meta"):
            add_adapters(model, config.lora, seed=0)
    if config.gradient_checkpointing:
        model.gradient_checkpointing_enable()
    return Policy(**vars(vocabulary), model=model.eval())


def copy_of(model: Any) -> Any:
    """A copy of a model as it is now, or of a part of it. What is frozen, as under LoRA, both share."""
    return copy.deepcopy(model, {id(p): p for p in model.parameters() if not p.requires_grad})


def reference_of(model: Any) -> Any:
    """A frozen copy of a model as it is now. What is frozen in the model already, as under LoRA, both share."""
    reference = copy_of(model)
    reference.requires_grad_(False)
    return reference.eval()


def save_policy(policy: Policy, folder: Path) -> None:
    """Write model and tokenizer so that `from_pretrained` of transformers loads both.

    A model with LoRA is written merged; the adapter alone is beside it in `adapter/`, in peft's format.

    Raises:
        ReasonRLError: the disk is full, or may not be written to.
    """
    with files.writing(folder):
        if adapted_layers(policy.model):
            policy.model.save_pretrained(folder, state_dict=merged_state(policy.model))
            save_adapter(policy.model, folder / "adapter")
        else:
            policy.model.save_pretrained(folder)
        policy.tokenizer.save_pretrained(folder)


def load_tokenizer(path: str, revision: str | None = None, key: str = "model.path") -> Any:
    """The tokenizer of a model, from a folder or the hub, given at a key; no weights are read.

    Raises:
        ReasonRLError: it cannot be loaded.
    """
    with loading(path, key) as source:
        return AutoTokenizer.from_pretrained(source, revision=revision)


def load_max_positions(path: str, revision: str | None = None) -> int | None:
    """The longest sequence a model takes, by its config; None if it sets no limit. No weights are read.

    Raises:
        ReasonRLError: the config cannot be loaded.
    """
    with loading(path) as source:
        return _max_positions(AutoConfig.from_pretrained(source, revision=revision))


def load_vocabulary(path: str, revision: str | None = None) -> tuple[Vocabulary, int]:
    """The vocabulary of a model, and how many parameters it has. No weights are read.

    Raises:
        ReasonRLError: config or tokenizer cannot be loaded, or there is no end-of-sequence token.
    """
    with loading(path) as source:
        config = AutoConfig.from_pretrained(source, revision=revision)
        try:
            generation = GenerationConfig.from_pretrained(source, revision=revision)
        except OSError:  # a folder without one
            generation = GenerationConfig.from_model_config(config)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    return _vocabulary(load_tokenizer(path, revision), generation, config), count_parameters(model)


def count_parameters(model: nn.Module, *, trained: bool = False) -> int:
    """How many numbers a model has, or how many of them are trained; tied ones count once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad or not trained)


def checkpoint_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """All weights under the names a checkpoint has, which for some models are not those of the parameters.

    LoRA comes merged, one matrix after the other, so that no more than one need be held. The model is not changed.
    """
    own = without_adapters(model, dict(model.named_parameters()))
    layers = {f"{name}.weight": layer for name, layer in adapted_layers(model).items()}
    weights = revert_weight_conversion(model, own)
    kept = {id(weight) for weight in weights.values()}
    if cut := {name: merged_weight(layer) for name, layer in layers.items() if id(own[name]) not in kept}:
        # A checkpoint of this family has them in other pieces, which can only be cut from what is merged.
        weights = revert_weight_conversion(model, own | cut)
    adapters = {id(own[name]): layer for name, layer in layers.items()}
    for name, weight in weights.items():
        yield name, merged_weight(adapters[id(weight)]) if id(weight) in adapters else weight


def _from_pretrained(path: str, revision: str | None, dtype: str, attention: str) -> tuple[Any, Any]:
    with loading(path) as source:
        config = AutoConfig.from_pretrained(source, revision=revision)
        tokenizer = load_tokenizer(path, revision)
        model = AutoModelForCausalLM.from_pretrained(
            source,
            revision=revision,
            config=config,
            dtype=DTYPES[dtype],
            attn_implementation=attention,
            use_safetensors=True,  # the other format is a pickle
        )
        return model, tokenizer


@contextmanager
def loading(path: str, key: str = "model.path") -> Iterator[str]:
    """What `from_pretrained` takes for a path, given at a key; what it raises becomes an error in words."""
    looks_local = path.startswith((".", "/", "~")) or path.count("/") != 1
    if looks_local and not Path(path).expanduser().is_dir():
        raise ReasonRLError(f"{key}: there is no folder {path}")
    try:
        yield str(Path(path).expanduser()) if Path(path).expanduser().is_dir() else path
    except (OSError, ValueError, ImportError) as error:
        raise ReasonRLError(f"{key}: cannot load {path}: {error}") from None


def _max_positions(config: Any) -> int | None:
    found: int | None = getattr(config.get_text_config(), "max_position_embeddings", None)
    return found


def _vocabulary(tokenizer: Any, generation: Any, config: Any) -> Vocabulary:
    eos = generation.eos_token_id if generation is not None else None
    ids = [eos] if isinstance(eos, int) else list(eos or [])
    if tokenizer.eos_token_id is not None and tokenizer.eos_token_id not in ids:
        ids.append(tokenizer.eos_token_id)
    if not ids:
        raise ReasonRLError("the tokenizer has no end-of-sequence token, so no response would ever end; set eos_token")
    pad = tokenizer.pad_token_id
    return Vocabulary(
        tokenizer=tokenizer,
        eos_ids=tuple(ids),
        pad_id=ids[0] if pad is None else pad,
        max_positions=_max_positions(config),
    )


def switch_dropout_off(model: nn.Module) -> None:
    """With dropout on, the ratio of an untouched policy to itself would not be 1."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name, value in vars(module).items():
            if "dropout" in name and isinstance(value, float):
                setattr(module, name, 0.0)
