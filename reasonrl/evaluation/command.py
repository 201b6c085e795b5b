"""Evaluate a model on a task from their names alone, as `reasonrl eval` does."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch

from reasonrl import store, tasks
from reasonrl.config import EngineConfig, ModelConfig
from reasonrl.errors import ReasonRLError
from reasonrl.evaluation.engines import choose, huggingface_engine, vllm_engine
from reasonrl.evaluation.evaluate import Prompted, evaluate
from reasonrl.evaluation.prepare import sampling_with, with_prompts
from reasonrl.evaluation.report import Report, report, save
from reasonrl.generators import Split
from reasonrl.models.load import Vocabulary, load_policy, load_vocabulary
from reasonrl.rollout.engine import Engine, Sampling
from reasonrl.scoring import Scorer
from reasonrl.scoring.resolve import audit, check_problems, resolve
from reasonrl.tasks import Mixture, Task
from reasonrl.tasks.leftout import LeftOut


def model_engine(config: EngineConfig, model: str, vocabulary: Vocabulary, parameters: int, longest: int) -> Engine:
    """An engine that samples from the weights in a folder or hub id.

    Args:
        config: which one, and its settings.
        model: the folder or hub id.
        vocabulary, parameters: of the model.
        longest: tokens of the longest prompt and response together.
    """
    name, _ = choose(config, parameters)
    settings = ModelConfig(path=model)
    if name == "vllm":
        return vllm_engine(config, vocabulary, settings, longest=longest, own_weights=True)
    policy = load_policy(settings, seed=0)
    policy.model.to("cuda" if torch.cuda.is_available() else "cpu")
    return huggingface_engine(policy, config.max_batch)


@dataclass(frozen=True)
class ModelOnTask:
    """A model to be sampled on a task, by their names.

    Attributes:
        task: by name or path.
        model: a folder or hub id.
        rows: how many problems, the first ones; all if None.
        data: files in place of the task's data, by split (few-shot examples may come from another one).
        temperature, max_tokens: in place of the task's own.
        engine: what samples; by default as `auto` chooses.
    """

    task: str
    model: str
    rows: int | None = None
    data: Mapping[Split, str] | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    engine: EngineConfig = field(default_factory=EngineConfig)


@dataclass(frozen=True)
class Ready:
    """A model ready to be sampled on a task, and its responses to be judged.

    Attributes:
        task: the task.
        prompted: the problems.
        engine, scorer, sampling: how responses are sampled and verified.
        left_out: rows of faulty problems.
    """

    task: Task | Mixture
    prompted: list[Prompted]
    engine: Engine
    scorer: Scorer
    sampling: Sampling
    left_out: tuple[LeftOut, ...]


@contextmanager
def ready(asked: ModelOnTask, *, split: Split, tell: Callable[[str], None] = lambda line: None) -> Iterator[Ready]:
    """Load task, verifiers and model, and check them; closes what it opened.

    Args:
        asked: their names and settings.
        split: of which problems.
        tell: called with a line for each task that leaves rows out.

    Raises:
        ReasonRLError: a fault in task, data or model.
    """
    task = tasks.load(asked.task, asked.data)
    sampling = sampling_with(task.sampling, asked.temperature, asked.max_tokens)
    verifiers, problems = resolve(task), task.problems(split, asked.rows)
    left_out = task.left_out(split)
    for one in left_out:
        tell(one.line())
    check_problems(verifiers, problems)
    with ExitStack() as stack:
        scorer = stack.enter_context(Scorer(verifiers))
        audit(scorer, problems, task.path)
        vocabulary, parameters = load_vocabulary(asked.model)
        prompted = with_prompts(problems, vocabulary, sampling.max_tokens)
        longest = max(len(one.prompt_ids) for one in prompted) + sampling.max_tokens
        sampler = model_engine(asked.engine, asked.model, vocabulary, parameters, longest)
        stack.callback(sampler.close)
        yield Ready(task, prompted, sampler, scorer, sampling, left_out)


def evaluate_model(
    asked: ModelOnTask,
    *,
    samples: int,
    k: tuple[int, ...],
    seed: int = 0,
    runs: Path = Path("runs"),
    progress: Callable[[int, int], None] = lambda done, total: None,
    tell: Callable[[str], None] = lambda line: None,
) -> tuple[Report, Path]:
    """The report, and the new folder that holds it (`report.json`) and every response (`rollouts.parquet`).

    Args:
        asked: which model on which task; its evaluation split is used.
        samples, k: sampled responses per problem, and for which k pass@k is estimated.
        seed: of the samples.
        runs: where the new folder is made.
        progress: called with how many of how many responses have arrived.
        tell: called with a line for each task that leaves rows out.

    Raises:
        ReasonRLError: a fault in task, data, model or options.
    """
    if not all(1 <= one <= samples for one in k):
        raise ReasonRLError(f"pass@k needs 1 <= k <= n; k is {', '.join(map(str, k))} and n is {samples}")
    with ready(asked, split="eval", tell=tell) as given:
        folder = store.new_folder(runs, f"eval-{given.task.name}")  # if it cannot be made, better now than later
        arrived, expected = itertools.count(1), len(given.prompted) * (1 + samples)
        found = evaluate(
            given.prompted,
            given.engine,
            given.scorer,
            given.sampling,
            samples=samples,
            seed=seed,
            on_response=lambda: progress(next(arrived), expected),
        )
    left_out = sum(one.rows for one in given.left_out)
    counted = report(found, task=given.task.name, model=asked.model, seed=seed, k=k, left_out=left_out)
    save(counted, folder / "report.json")
    store.write(folder / "rollouts.parquet", found.records(step=0))
    return counted, folder
