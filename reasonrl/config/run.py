"""A run YAML as typed records: every number one may change between runs, with what it means and its limits."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from reasonrl import files, resources, yamlfile
from reasonrl.config.critic_free import (
    CISPOConfig,
    DAPOConfig,
    DrGRPOConfig,
    GRPOConfig,
    GSPOConfig,
    ReinforcePPBaselineConfig,
    ReinforcePPConfig,
    RLOOConfig,
)
from reasonrl.config.model import ModelConfig
from reasonrl.config.optimizer import SFTConfig
from reasonrl.config.policy import RolloutConfig
from reasonrl.config.ppo import PPOConfig
from reasonrl.config.preference import DPOConfig, OnlineDPOConfig
from reasonrl.config.scorers import ProcessRewardModelConfig, RewardModelConfig, ScorerConfig
from reasonrl.config.trpo import TRPOConfig
from reasonrl.errors import ReasonRLError
from reasonrl.tasks import SamplingConfig
from reasonrl.yamlfile import Name, Record

Algorithm = (
    GRPOConfig
    | DrGRPOConfig
    | RLOOConfig
    | ReinforcePPConfig
    | ReinforcePPBaselineConfig
    | DAPOConfig
    | GSPOConfig
    | CISPOConfig
    | PPOConfig
    | TRPOConfig
    | DPOConfig
    | OnlineDPOConfig
    | RewardModelConfig
    | ProcessRewardModelConfig
    | SFTConfig
)
_Text = Annotated[str, Field(json_schema_extra={"type": "string"})]  # for the JSON schema: no number, as elsewhere


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


class EngineConfig(Record):
    """What samples responses.

    Attributes:
        name: "huggingface", the trained model itself; "vllm", in a process of its own; "auto", vLLM where it is
            installed and the model is more than a toy.
        max_batch: most responses decoded at once.
        dtype: vLLM's weights and KV cache; "auto" as the trained weights.
        max_model_len: vLLM: most tokens of prompt and response together; as many as the run needs if null.
        kv_cache_gib: vLLM on a CPU: memory of the KV cache.
        threads: vLLM on a CPU: its OpenMP threads.
        tensor_parallel_size: vLLM: GPUs a model is split over.
        gpu_memory_utilization: vLLM: its share of the GPU, weights and KV cache.
        sleep: vLLM on a GPU: give that memory back while the model is updated.
        start_deadline: seconds until vLLM must be ready.
        deadline: seconds without a sign of life after which vLLM is killed, and started once more.
        probe_every: after the first and every so many syncs, compare vLLM's log-probabilities with the trainer's.
        probe_tolerance: most they may differ in the mean, in nats; 0.001 in float32, else 0.15, if null.
    """

    name: Literal["auto", "huggingface", "vllm"] = "auto"
    max_batch: int = Field(256, ge=1)
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    max_model_len: int | None = Field(None, ge=2)
    kv_cache_gib: int = Field(2, ge=1)
    threads: int = Field(1, ge=1)
    tensor_parallel_size: int = Field(1, ge=1)
    gpu_memory_utilization: float = Field(0.4, gt=0, lt=1)
    sleep: bool = True
    start_deadline: float = Field(600.0, gt=0)
    deadline: float = Field(120.0, gt=0)
    probe_every: int = Field(50, ge=1)
    probe_tolerance: float | None = Field(None, gt=0)


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
        rows: how many held-out problems (all if null); a mixture's tasks share them evenly.
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


class CheckpointConfig(Record):
    """What a run can be resumed from, beside the end of each phase and of the step that a signal stops it after.

    Attributes:
        every: steps between two checkpoints; 0 for none between.
        keep: so many of the last are kept.
        best: a metric of metrics.jsonl, as reward, or one of a reward model's evaluations, as eval/accuracy; the
            checkpoint where it was best is kept, too.
        best_is: is the best the highest or the lowest?
    """

    every: int = Field(50, ge=0)
    keep: int = Field(2, ge=1)
    best: str | None = None
    best_is: Literal["highest", "lowest"] = "highest"

    @property
    def best_is_evaluated(self) -> bool:
        """Does an evaluation say which checkpoint is the best, and not the step itself?"""
        return self.best is not None and self.best.startswith("eval/")


class GuardConfig(Record):
    """A verifier that is no part of the reward watches over it.

    Attributes:
        verifier: its name in the task, where it has weight 0.
        drop: how far its score may fall from its best while the reward rises; both are means over
        window: so many steps.
        action: "warn" says so, "stop" ends the run after that step, its policy saved and evaluated.
    """

    verifier: str
    drop: float = Field(0.2, gt=0)
    window: int = Field(10, ge=1)
    action: Literal["warn", "stop"] = "warn"


class RunConfig(Record):
    """One run: `warm_start` (supervised, if given), then `algorithm`, with evaluations around them.

    Attributes:
        name: of its folder, runs/NAME (runs/NAME-2, … where earlier ones lie).
        seed: of everything random, data aside.
        runs: the folder of all runs.
        task: what is learnt; a reward model's run has none, and none of the parts that concern one.
        sampling: what is different from the task's own sampling.
        precision: "bf16" computes in bfloat16 where that is safe; the weights keep their type.
        threads: of torch on the CPU; its own choice if null.
        stall_minutes: a run in which nothing progresses for so long writes all stacks to its folder and stops; never
            if null.
    """

    name: Name
    seed: int = Field(0, ge=0)
    runs: str = "runs"
    task: TaskRef | None = None
    model: ModelConfig
    warm_start: SFTConfig | None = None
    algorithm: Annotated[Algorithm, Field(discriminator="name")]
    sampling: SamplingConfig | None = None
    engine: EngineConfig = EngineConfig()
    verification: VerificationConfig = VerificationConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    guard: GuardConfig | None = None
    precision: Literal["no", "bf16"] = "no"
    threads: int | None = Field(None, ge=1)
    stall_minutes: float | None = Field(30.0, gt=0)

    @field_validator("task", mode="before", json_schema_input_type=_Text | TaskRef | None)
    @classmethod
    def _task_by_name(cls, task: Any) -> Any:
        return {"name": task} if isinstance(task, str) else task

    @field_validator("engine", mode="before", json_schema_input_type=_Text | EngineConfig)
    @classmethod
    def _engine_by_name(cls, engine: Any) -> Any:
        return {"name": engine} if isinstance(engine, str) else engine

    @property
    def task_ref(self) -> TaskRef:
        """The task.

        Raises:
            ReasonRLError: there is none, as in the run of a reward model.
        """
        if self.task is None:
            raise ReasonRLError(f"a run of {self.algorithm.name} has no task, which this needs")
        return self.task

    @model_validator(mode="after")
    def _has_a_task(self) -> Self:
        if not isinstance(self.algorithm, ScorerConfig):
            if self.task is None:
                raise ValueError(f"algorithm {self.algorithm.name} needs a task; name one, such as `task: gsm8k`")
            if self.guard is not None and not isinstance(self.algorithm, RolloutConfig):
                raise ValueError(f"guard: algorithm {self.algorithm.name} samples nothing that could be watched")
            if self.checkpoint.best_is_evaluated:
                raise ValueError(
                    f"checkpoint.best: only a reward model's run has {self.checkpoint.best}; name a metric of a step, "
                    "as reward"
                )
            return self
        for key in ("task", "warm_start", "sampling", "engine", "verification", "evaluation", "guard"):
            if getattr(self, key) != type(self).model_fields[key].get_default():
                raise ValueError(
                    f"algorithm {self.algorithm.name} learns from files alone and does not read {key!r}; leave it out"
                )
        self._check_best(self.algorithm.evaluate_every)
        return self

    def _check_best(self, evaluate_every: int) -> None:
        every = self.checkpoint.every
        if self.checkpoint.best_is_evaluated and (not evaluate_every or not every or every % evaluate_every):
            raise ValueError(
                f"checkpoint.best: {self.checkpoint.best} is not measured where checkpoints are taken: let "
                f"checkpoint.every ({every}) be a multiple of algorithm.evaluate_every ({evaluate_every})"
            )


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
    files.write_text(path, to_yaml(config))
