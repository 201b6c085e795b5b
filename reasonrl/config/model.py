"""The model part of a run: a pretrained one, or a tiny one made on the spot."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from reasonrl.config.divisors import divisors
from reasonrl.yamlfile import Excluding, Record, one_of


class TinyModelConfig(Record):
    """A Llama made on the spot with a character-level tokenizer, for learning runs on a laptop.

    Attributes:
        characters: the vocabulary, beside padding, end-of-sequence and unknown.
        max_positions: longest sequence in tokens.
    """

    characters: str = Field(min_length=2)
    hidden_size: int = Field(192, ge=8, multiple_of=2)
    intermediate_size: int = Field(384, ge=8)
    layers: int = Field(3, ge=1)
    heads: int = Field(6, ge=1)
    max_positions: int = Field(128, ge=8)

    @model_validator(mode="after")
    def _divides(self) -> Self:
        if self.hidden_size % (2 * self.heads):  # rotary positions turn pairs of a head's dimensions
            raise ValueError(
                f"hidden_size {self.hidden_size} does not divide by heads {self.heads} into heads of an even size; "
                f"heads that work: {divisors(self.hidden_size // 2)}"
            )
        return self

    @field_validator("characters")
    @classmethod
    def _distinct(cls, characters: str) -> str:
        if len(set(characters)) != len(characters):
            raise ValueError("a character stands twice")
        return characters


class LoRAConfig(Record):
    """Adapters of low rank, trained in place of the model's weights: W + (alpha / rank)·B·A.

    Attributes:
        rank: of B·A.
        alpha: alpha / rank scales B·A.
        targets: `all-linear` is every linear layer but the head; or names of layers, such as [q_proj, v_proj].
    """

    rank: int = Field(16, ge=1)
    alpha: float = Field(32.0, gt=0)
    targets: Literal["all-linear"] | Annotated[tuple[str, ...], Field(min_length=1)] = "all-linear"

    @field_validator("targets", mode="before")
    @classmethod
    def _names_are_listed(cls, targets: object) -> object:
        if targets != "all-linear" and not (isinstance(targets, list | tuple) and targets):
            raise ValueError("either all-linear, or a list of names of layers, such as [q_proj, v_proj]")
        return targets


class ModelConfig(Record):
    """The policy to start from: `path` (a folder or hub id) or `tiny` (made on the spot).

    Attributes:
        dtype: of the weights; adapters are float32.
        lora: train adapters, and leave the weights as they are; all weights are trained where it is left out.
        attention: transformers' attention implementation.
        gradient_checkpointing: recompute activations in the backward pass; prompts are then not shared.
        share_prompt: compute a group's prompt once in training. Switched off by itself where the model cannot.
        logits_chunk: most float32 logits (tokens × vocabulary) that exist at once.
    """

    model_config = ConfigDict(json_schema_extra=one_of("path", "tiny"))

    path: str | None = None
    revision: str | None = None
    tiny: TinyModelConfig | None = None
    dtype: Literal["float32", "bfloat16"] = "float32"
    lora: LoRAConfig | None = None
    attention: Literal["sdpa", "eager", "flash_attention_2"] = "sdpa"
    gradient_checkpointing: bool = False
    share_prompt: bool = True
    logits_chunk: int = Field(2**26, ge=1)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        text = "a model needs either `path` (a folder or hub id) or `tiny`"
        if self.path is None and self.tiny is None:
            raise ValueError(text)
        if self.path is not None and self.tiny is not None:
            raise Excluding(text, "path", "tiny")
        return self
