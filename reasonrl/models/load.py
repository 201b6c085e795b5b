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

from reasonrl.config import ModelConfig
from reasonrl.errors import ReasonRLError
from reasonrl.models.heads import check_head
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
        seed: draws the weights of a tiny model.

    Raises:
        ReasonRLError: the model or tokenizer cannot be loaded, has no end-of-sequence token, or a head unknown to us.
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
    _switch_dropout_off(model)
    model.eval()  # some families also add noise of other kinds in training mode (routers of experts)
    if config.gradient_checkpointing:
        model.gradient_checkpointing_enable()
    check_head(model)
    vocabulary = _vocabulary(tokenizer, model.generation_config, model.config)
    return Policy(**vars(vocabulary), model=model)


def reference_of(model: Any) -> Any:
    """A frozen copy of a model as it is now."""
    reference = copy.deepcopy(model)
    reference.requires_grad_(False)
    return reference.eval()


def save_policy(policy: Policy, folder: Path) -> None:
    """Write model and tokenizer so that `from_pretrained` of transformers loads both."""
    policy.model.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)


def load_tokenizer(path: str, revision: str | None = None) -> Any:
    """The tokenizer of a model, from a folder or the hub; no weights are read.

    Raises:
        ReasonRLError: it cannot be loaded.
    """
    with _loading(path) as source:
        return AutoTokenizer.from_pretrained(source, revision=revision)


def load_max_positions(path: str, revision: str | None = None) -> int | None:
    """The longest sequence a model takes, by its config; None if it sets no limit. No weights are read.

    Raises:
        ReasonRLError: the config cannot be loaded.
    """
    with _loading(path) as source:
        return _max_positions(AutoConfig.from_pretrained(source, revision=revision))


def load_vocabulary(path: str, revision: str | None = None) -> tuple[Vocabulary, int]:
    """The vocabulary of a model, and how many parameters it has. No weights are read.

    Raises:
        ReasonRLError: config or tokenizer cannot be loaded, or there is no end-of-sequence token.
    """
    with _loading(path) as source:
        config = AutoConfig.from_pretrained(source, revision=revision)
        try:
            generation = GenerationConfig.from_pretrained(source, revision=revision)
        except OSError:  # a folder without one
            generation = GenerationConfig.from_model_config(config)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    return _vocabulary(load_tokenizer(path, revision), generation, config), count_parameters(model)


def count_parameters(model: nn.Module) -> int:
    """How many numbers a model has; tied ones count once."""
    return sum(parameter.numel() for parameter in model.parameters())


def checkpoint_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """All weights under the names a checkpoint has, which for some models are not those of the parameters."""
    yield from revert_weight_conversion(model, dict(model.named_parameters())).items()


def _from_pretrained(path: str, revision: str | None, dtype: str, attention: str) -> tuple[Any, Any]:
    with _loading(path) as source:
        config = AutoConfig.from_pretrained(source, revision=revision)
        tokenizer = load_tokenizer(path, revision)
        model = AutoModelForCausalLM.from_pretrained(
            source, revision=revision, config=config, dtype=DTYPES[dtype], attn_implementation=attention
        )
        return model, tokenizer


@contextmanager
def _loading(path: str) -> Iterator[str]:
    """What `from_pretrained` takes for a path; what it raises becomes an error in words."""
    looks_local = path.startswith((".", "/", "~")) or path.count("/") != 1
    if looks_local and not Path(path).expanduser().is_dir():
        raise ReasonRLError(f"model.path: there is no folder {path}")
    try:
        yield str(Path(path).expanduser()) if Path(path).expanduser().is_dir() else path
    except (OSError, ValueError, ImportError) as error:
        raise ReasonRLError(f"model.path: cannot load {path}: {error}") from None


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


def _switch_dropout_off(model: nn.Module) -> None:
    """With dropout on, the ratio of an untouched policy to itself would not be 1."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name, value in vars(module).items():
            if "dropout" in name and isinstance(value, float):
                setattr(module, name, 0.0)
