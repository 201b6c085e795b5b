"""Models that are to score: a causal language model with a new head, or one that scores already and learns on."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoModelForTokenClassification

from reasonrl.config import ModelConfig
from reasonrl.errors import ReasonRLError
from reasonrl.models.load import DTYPES, load_tokenizer, loading, switch_dropout_off
from reasonrl.models.lora import adapted_layers, add_adapters, merged_state
from reasonrl.models.reward import context_of, pad_id_of, padded, without_report
from reasonrl.models.tiny import character_tokenizer, tiny_llama

_KEY = "model.path"
_HEAD = "score"  # what the heads of all decoders of transformers are called
# By the number of logits: what a text, or each of its tokens, is scored by.
_KINDS = {1: AutoModelForSequenceClassification, 2: AutoModelForTokenClassification}


@dataclass(frozen=True)
class TrainableScorer:
    """A decoder with a linear head.

    Attributes:
        model, tokenizer: of transformers.
        context: tokens of the longest text it takes; None if nothing says.
        pad_id: fills short rows.
    """

    model: Any
    tokenizer: Any
    context: int | None
    pad_id: int

    def logits(self, rows: list[tuple[int, ...]], places: list[tuple[int, int]]) -> Tensor:
        """The head's logits, (N, labels) in float32, at N places, (row, token), of rows of token ids."""
        ids, mask = padded(rows, self.pad_id, self.model.device)
        hidden = self.model.base_model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
        at, tokens = torch.tensor(places, device=ids.device).T
        head = self.model.score
        # Not in mixed precision: differences of scores are what is learnt.
        with torch.autocast(ids.device.type, enabled=False):
            bias = None if head.bias is None else head.bias.float()
            return nn.functional.linear(hidden[at, tokens].float(), head.weight.float(), bias)

    def save(self, folder: Path) -> None:
        """Write model, LoRA merged, and tokenizer: the verifiers load both, as does `from_pretrained`."""
        self.model.save_pretrained(folder, state_dict=merged_state(self.model) if adapted_layers(self.model) else None)
        self.tokenizer.save_pretrained(folder)


def load_scorer(config: ModelConfig, labels: int, seed: int) -> TrainableScorer:
    """A scorer to be trained, with dropout off.

    A new head is drawn from N(0, 1/(H + 1)), as of arXiv 2009.01325, its bias 0; under LoRA it is trained with the
    adapters.

    Args:
        config: the language model, or a scorer of the same kind, which keeps its head.
        labels: 1, a number for a text (sequence classification); 2, for a token (token classification).
        seed: draws a new head, a tiny model, and adapters.

    Raises:
        ReasonRLError: it cannot be loaded, is no causal language model, or lacks weights.
    """
    model, tokenizer, fresh = _tiny(config, labels, seed) if config.path is None else _pretrained(config, labels)
    switch_dropout_off(model)
    if not isinstance(getattr(model, _HEAD, None), nn.Linear):
        raise ReasonRLError(f"{_KEY}: {type(model).__name__} has no linear head called {_HEAD}, which would be trained")
    if fresh:
        _draw_head(model.score, seed)
    if model.config.get_text_config().pad_token_id is None:
        model.config.get_text_config().pad_token_id = pad_id_of(model.config, tokenizer)
    if config.lora is not None:
        add_adapters(model, config.lora, seed)
        model.score.requires_grad_(True)
    if config.gradient_checkpointing:
        model.gradient_checkpointing_enable()
    model.eval()
    context = context_of(model.config, tokenizer, None, _KEY)
    return TrainableScorer(model, tokenizer, context, pad_id_of(model.config, tokenizer))


def _tiny(config: ModelConfig, labels: int, seed: int) -> tuple[Any, Any, bool]:
    assert config.tiny is not None
    tokenizer = character_tokenizer(config.tiny.characters)
    policy = tiny_llama(
        tokenizer, seed=seed, attention=config.attention, **config.tiny.model_dump(exclude={"characters"})
    )
    policy.config.num_labels = labels
    with torch.random.fork_rng(devices=[]):
        model = _KINDS[labels].from_config(policy.config)
    model.base_model.load_state_dict(policy.base_model.state_dict())
    return model.to(DTYPES[config.dtype]), tokenizer, True


def _pretrained(config: ModelConfig, labels: int) -> tuple[Any, Any, bool]:
    assert config.path is not None
    with loading(config.path, _KEY) as source, without_report():
        found = AutoConfig.from_pretrained(source, revision=config.revision)
        architecture = (found.architectures or ["a model of no known kind"])[0]
        ending = "ForSequenceClassification" if labels == 1 else "ForTokenClassification"
        if architecture.endswith(ending) and found.num_labels != labels:
            raise ReasonRLError(f"{_KEY}: {config.path} has {found.num_labels} labels; this algorithm needs {labels}")
        if not architecture.endswith((ending, "ForCausalLM", "LMHeadModel")):
            raise ReasonRLError(
                f"{_KEY}: {config.path} is {architecture}; start from a causal language model, or from one {ending}"
            )
        found.num_labels = labels
        with torch.random.fork_rng(devices=[]):  # transformers draws what is missing
            model, info = _KINDS[labels].from_pretrained(
                source,
                revision=config.revision,
                config=found,
                dtype=DTYPES[config.dtype],
                attn_implementation=config.attention,
                output_loading_info=True,
            )
    missing = sorted(info["missing_keys"])
    if others := [name for name in missing if not name.startswith(f"{_HEAD}.")]:
        raise ReasonRLError(f"{_KEY}: {config.path} lacks {', '.join(others[:3])}")
    return model, load_tokenizer(config.path, config.revision, _KEY), bool(missing)


@torch.no_grad()
def _draw_head(head: nn.Linear, seed: int) -> None:
    """The same on every process and device."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(head.weight.shape, generator=generator) / (head.in_features + 1) ** 0.5
    head.weight.copy_(drawn)
    if head.bias is not None:
        head.bias.zero_()
