"""A run YAML as typed records: every number one may change between runs, with what it means and its limits."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from reasonrl import resources, yamlfile
from reasonrl.tasks import SamplingConfig
from reasonrl.yamlfile import Record


def _divisors(number: int) -> str:
    return ", ".join(str(divisor) for divisor in range(1, number + 1) if number % divisor == 0)


class TaskRef(Record):
    """Which task, and what of it.

    Attributes:
        name: a bundled one by name, any by the path of its YAML.
        data_files: by split, files in place of its data set, where no hub is reachable.
        max_prompt_tokens: training problems with a longer prompt are left out and counted; if null, and a prompt and
            its longest response do not fit the model, the run does not begin.
    """

    name: str
    data_files: dict[Literal["train", "eval"], str | tuple[str, ...]] = Field({})
    max_prompt_tokens: int | None = Field(None, ge=1)


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
                f"heads that work: {_divisors(self.hidden_size // 2)}"
            )
        return self

    @field_validator("characters")
    @classmethod
    def _distinct(cls, characters: str) -> str:
        if len(set(characters)) != len(characters):
            raise ValueError("a character stands twice")
        return characters


class ModelConfig(Record):
    """The policy to start from: `path` (a folder or hub id) or `tiny` (made on the spot).

    Attributes:
        dtype: of the trained weights.
        attention: transformers' attention implementation.
        gradient_checkpointing: recompute activations in the backward pass; prompts are then not shared.
        share_prompt: compute a group's prompt once in training. Switched off by itself where the model cannot.
        logits_chunk: most float32 logits (tokens × vocabulary) that exist at once.
    """

    path: str | None = None
    revision: str | None = None
    tiny: TinyModelConfig | None = None
    dtype: Literal["float32", "bfloat16"] = "float32"
    attention: Literal["sdpa", "eager", "flash_attention_2"] = "sdpa"
    gradient_checkpointing: bool = False
    share_prompt: bool = True
    logits_chunk: int = Field(2**26, ge=1)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.path is None) == (self.tiny is None):
            raise ValueError("a model needs either `path` (a folder or hub id) or `tiny`; set the other one to null")
        return self


class OptimizerConfig(Record):
    """AdamW (Loshchilov and Hutter 2019) with warm-up and a schedule.

    Attributes:
        warmup_steps: steps over which the rate rises linearly from 0.
        schedule: how it falls afterwards, to `final_ratio` of its peak.
        max_grad_norm: gradients are scaled down to this global L2 norm.
        max_nonfinite: so many steps in a row with a non-finite loss or gradient (each skipped) stop the run.
    """

    learning_rate: float = Field(1e-6, gt=0)
    betas: tuple[float, float] = (0.9, 0.99)
    epsilon: float = Field(1e-8, gt=0)
    weight_decay: float = Field(0.0, ge=0)
    warmup_steps: int = Field(0, ge=0)
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    final_ratio: float = Field(0.0, ge=0, le=1)
    max_grad_norm: float = Field(1.0, gt=0)
    max_nonfinite: int = Field(5, ge=1)

    @field_validator("betas")
    @classmethod
    def _decay(cls, betas: tuple[float, float]) -> tuple[float, float]:
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"both must lie in [0, 1), not {list(betas)}")
        return betas


class SFTConfig(Record):
    """Supervised fine-tuning on the task's demonstrations (cross-entropy on response tokens only).

    Attributes:
        steps: optimiser steps.
        batch_size: demonstrations per step, over all processes.
        micro_batch_tokens: most tokens, padding included, in one forward pass.
    """

    name: Literal["sft"] = "sft"
    steps: int = Field(ge=1)
    batch_size: int = Field(ge=1)
    micro_batch_tokens: int = Field(16384, ge=1)
    optimizer: OptimizerConfig = OptimizerConfig()


class KLConfig(Record):
    """The pull toward the reference model (the policy as training began).

    Attributes:
        coefficient: β; 0 means that no reference model is loaded.
        estimator: k1 = d, k2 = d²/2, k3 = e^(−d) + d − 1, with d = log π_θ − log π_ref.
        place: "loss" adds β·KL to the loss; "reward" subtracts β·Σ_t KL_t from each response's reward.
    """

    coefficient: float = Field(0.0, ge=0)
    estimator: Literal["k1", "k2", "k3"] = "k3"
    place: Literal["loss", "reward"] = "loss"


class GRPOConfig(Record):
    """GRPO (Shao et al. 2024, arXiv 2402.03300) with outcome supervision.

    Attributes:
        steps: sampling steps; each samples, verifies and updates.
        problems_per_step, group_size: P and G; a step samples P·G responses over all processes.
        epochs, minibatches: K passes over the batch, each cut into this many updates by problem.
        std: what the group's mean-centred rewards are divided by ("none": Dr. GRPO).
        std_epsilon: added to that standard deviation.
        clip_low, clip_high: the ratio is clipped to [1 − clip_low, 1 + clip_high].
        aggregation: "sequence_mean" (GRPO), "token_mean" (DAPO), "constant" (Dr. GRPO).
        mask_truncated: leave responses cut at the token limit out of the loss.
        micro_batch_tokens: most tokens, padding included, in one forward pass.
        entropy: also measure the policy's entropy.
    """

    name: Literal["grpo"] = "grpo"
    steps: int = Field(ge=1)
    problems_per_step: int = Field(ge=1)
    group_size: int = Field(8, json_schema_extra={"minimum": 2})
    epochs: int = Field(1, ge=1)
    minibatches: int = Field(1, ge=1)
    std: Literal["population", "sample", "none"] = "population"
    std_epsilon: float = Field(1e-6, ge=0)
    clip_low: float = Field(0.2, gt=0, lt=1)
    clip_high: float = Field(0.2, gt=0)
    aggregation: Literal["sequence_mean", "token_mean", "constant"] = "sequence_mean"
    kl: KLConfig = KLConfig()
    mask_truncated: bool = False
    micro_batch_tokens: int = Field(16384, ge=1)
    entropy: bool = True
    optimizer: OptimizerConfig = OptimizerConfig()

    @field_validator("group_size")
    @classmethod
    def _compares(cls, group_size: int) -> int:
        if group_size < 2:
            raise ValueError(
                f"expected at least 2, not {group_size}: a response's advantage is relative to the mean of its group; "
                "one response alone is its own mean, so that every advantage would be 0 and nothing would be learnt"
            )
        return group_size

    @model_validator(mode="after")
    def _minibatches_divide(self) -> Self:
        if self.problems_per_step % self.minibatches:
            raise ValueError(
                f"problems_per_step {self.problems_per_step} does not divide by minibatches {self.minibatches}; "
                f"minibatches that work: {_divisors(self.problems_per_step)}"
            )
        return self


class EngineConfig(Record):
    """What samples responses.

    Attributes:
        name: "huggingface", the trained model itself.
        max_batch: most responses decoded at once.
    """

    name: Literal["huggingface"] = "huggingface"
    max_batch: int = Field(256, ge=1)


class VerificationConfig(Record):
    """How responses are verified.

    Attributes:
        workers: killable worker processes.
        deadline: seconds one check may take; then it is killed and the response counts as unjudged.
        max_unjudged: share of a step's responses that may be unjudged; more stops the run.
    """

    workers: int = Field(2, ge=1)
    deadline: float = Field(10.0, gt=0)
    max_unjudged: float = Field(0.1, ge=0, le=1)


class EvaluationConfig(Record):
    """pass@k on the held-out split, before and after training.

    Attributes:
        rows: how many held-out problems (all if null).
        samples: n, sampled responses per problem, beside one greedy response.
        k: for which k; each at most n.
        every: also evaluate every so many steps (0: only before and after).
    """

    rows: int | None = Field(None, ge=1)
    samples: int = Field(4, ge=1)
    k: tuple[int, ...] = Field((1,), min_length=1)
    every: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _k_fits(self) -> Self:
        if not all(1 <= k <= self.samples for k in self.k):
            raise ValueError(
                f"every k must lie between 1 and samples={self.samples}, not {list(self.k)}: pass@k needs at least k "
                "samples; raise evaluation.samples or leave the larger k out"
            )
        return self


class RunConfig(Record):
    """One run: `warm_start` (supervised, if given), then `algorithm`, with evaluations around them.

    Attributes:
        name: of its folder, runs/NAME (runs/NAME-2, … where earlier ones lie).
        seed: of everything random, data aside.
        runs: the folder of all runs.
        sampling: what is different from the task's own sampling.
        precision: "bf16" computes in bfloat16 where that is safe; the weights keep their type.
        threads: of torch on the CPU; its own choice if null.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    seed: int = Field(0, ge=0)
    runs: str = "runs"
    task: TaskRef
    model: ModelConfig
    warm_start: SFTConfig | None = None
    algorithm: Annotated[GRPOConfig | SFTConfig, Field(discriminator="name")]
    sampling: SamplingConfig | None = None
    engine: EngineConfig = EngineConfig()
    verification: VerificationConfig = VerificationConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    precision: Literal["no", "bf16"] = "no"
    threads: int | None = Field(None, ge=1)

    @field_validator("task", mode="before", json_schema_input_type=str | TaskRef)
    @classmethod
    def _name_alone(cls, task: Any) -> Any:
        return {"name": task} if isinstance(task, str) else task


def load(name: str, overrides: Sequence[str] = ()) -> RunConfig:
    """A run by path, or by the bare name of a bundled config, with `dotted.key=value` overrides.

    Raises:
        ReasonRLError: no such file, or a fault in it, one it extends or an override: where, and the nearest key.
    """
    folders = [resources.bundled("configs")]
    document = yamlfile.read_extended(yamlfile.find(name, "run", folders), "run", folders)
    for override in overrides:
        if isinstance(document.data.get("task"), str):  # `task: gsm8k` is short for a mapping
            document.data["task"] = {"name": document.data["task"]}
        document = document.override(override)
    return yamlfile.validate(RunConfig, document)


def to_yaml(config: RunConfig) -> str:
    """The resolved run, every key of it, as the text of a run YAML; `load` reads the same run back."""
    data = config.model_dump(mode="json")
    if config.sampling is not None:  # what it leaves out is the task's to say
        data["sampling"] = config.sampling.model_dump(mode="json", exclude_unset=True)
    return yamlfile.dump(data)


def save(config: RunConfig, path: Path) -> None:
    """Write the resolved run; `load` reads the same run back."""
    path.write_text(to_yaml(config), encoding="utf-8")
