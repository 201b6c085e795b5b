"""A run from its config: data, model, engine and scorer put together, then warm start, training and evaluation."""

import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object, set_seed
from rich.console import Console

from reasonrl import config as run_config
from reasonrl import store, tasks
from reasonrl.batch import Row
from reasonrl.config import GRPOConfig, RunConfig, SFTConfig
from reasonrl.errors import ReasonRLError
from reasonrl.evaluation import report as reports
from reasonrl.evaluation.evaluate import Prompted, evaluate
from reasonrl.evaluation.prepare import make_engine, to_sampling, with_prompts
from reasonrl.evaluation.report import Report
from reasonrl.models.forward import can_share_prompt
from reasonrl.models.load import Policy, load_policy, reference_of, save_policy
from reasonrl.models.prompt import check_length, prompt_ids, response_ids
from reasonrl.rollout.engine import Engine, Sampling
from reasonrl.scoring import Scorer, WeightedVerifier
from reasonrl.scoring.resolve import check_problems, resolve
from reasonrl.tasks import Task
from reasonrl.tracking import Tracker
from reasonrl.trainers.grpo import GRPO, train_grpo
from reasonrl.trainers.problems import ProblemStream
from reasonrl.trainers.session import Session
from reasonrl.trainers.sft import train_sft
from reasonrl.types import Problem


@dataclass(frozen=True)
class Parts:
    """What a run is made of, once everything is loaded."""

    config: RunConfig
    folder: Path
    task: Task
    train: list[Problem]
    held_out: list[Prompted]
    verifiers: tuple[WeightedVerifier, ...]
    policy: Policy
    accelerator: Accelerator
    engine: Engine
    sampling: Sampling
    scorer: Scorer
    tracker: Tracker


def train(config: RunConfig, console: Console) -> Path:
    """Run a config to its end; the run's folder.

    The folder holds `config.yaml` (resolved), `metrics.jsonl` (a line a step), `rollouts/step-000001.parquet` …,
    `eval/before.json`, `eval/after.json` with their responses beside them, and `final/` (model and tokenizer).

    Raises:
        ReasonRLError: a fault in config, data, model or plugins, found as far as possible before anything costs time.
    """
    started = time.monotonic()
    task, verifiers, sampling = resolve_task(config)
    train_problems, held_out = task.problems("train"), task.problems("eval")[: config.evaluation.rows]
    check_problems(verifiers, [*train_problems, *held_out])
    with ExitStack() as stack:
        accelerator = Accelerator(mixed_precision=config.precision, cpu=not torch.cuda.is_available())
        set_seed(config.seed)
        folder = make_folder(config, accelerator)
        scorer = stack.enter_context(
            Scorer(verifiers, workers=config.verification.workers, deadline=config.verification.deadline)
        )
        tracker = Tracker(folder / "metrics.jsonl" if accelerator.is_main_process else None, console)
        stack.callback(tracker.close)
        policy = load_policy(config.model, config.seed)
        policy.model.to(accelerator.device)
        engine = make_engine(policy, config.engine.max_batch, accelerator.autocast)
        stack.callback(engine.close)
        parts = Parts(
            config=config,
            folder=folder,
            task=task,
            train=train_problems,
            held_out=with_prompts(held_out, policy, sampling.max_tokens),
            verifiers=verifiers,
            policy=policy,
            accelerator=accelerator,
            engine=engine,
            sampling=sampling,
            scorer=scorer,
            tracker=tracker,
        )
        before, after = run_phases(parts)
        if accelerator.is_main_process:
            save_policy(policy, folder / "final")
            show_result(parts, before, after, time.monotonic() - started)
        accelerator.wait_for_everyone()
    if accelerator.num_processes > 1:
        accelerator.end_training()
    return folder


def run_phases(parts: Parts) -> tuple[Report, Report]:
    """Warm start, evaluation, the algorithm, evaluation: the reports before and after."""
    config = parts.config
    if config.warm_start is not None:
        run_sft(parts, config.warm_start, "warm start")
        parts.engine.sync(parts.policy.model.named_parameters(), version=0)
    before = run_evaluation(parts, "before", step=0)
    algorithm = config.algorithm
    if isinstance(algorithm, SFTConfig):
        run_sft(parts, algorithm, "sft")
        parts.engine.sync(parts.policy.model.named_parameters(), version=algorithm.steps)
    else:
        run_grpo(parts, algorithm)
    return before, run_evaluation(parts, "after", step=algorithm.steps)


def resolve_task(config: RunConfig) -> tuple[Task, tuple[WeightedVerifier, ...], Sampling]:
    """The task, its verifiers, and how responses are sampled in training.

    Raises:
        ReasonRLError: no such task, or a sampling that training cannot account for.
    """
    task = tasks.load(config.task.name, config.task.data_files)
    sampling = to_sampling(config.sampling or task.sampling)
    if isinstance(config.algorithm, GRPOConfig):
        if sampling.temperature == 0:
            raise ReasonRLError("sampling.temperature is 0: all responses of a group would be the same; set it to 1")
        if sampling.top_p < 1 or sampling.top_k > 0:
            raise ReasonRLError(
                "training samples from the whole distribution, since log-probabilities of a truncated one do not "
                "match the trained policy's; set sampling.top_p to 1 and sampling.top_k to 0"
            )
    return task, resolve(task.verifiers), sampling


def make_folder(config: RunConfig, accelerator: Accelerator) -> Path:
    """A new folder runs/NAME, or runs/NAME-2, … where earlier runs lie, with the resolved config in it."""
    name = [""]
    if accelerator.is_main_process:
        folder = store.new_folder(Path(config.runs), config.name)
        run_config.save(config, folder / "config.yaml")
        name = [str(folder)]
    if accelerator.num_processes > 1:
        broadcast_object_list(name)
    return Path(name[0])


def run_sft(parts: Parts, config: SFTConfig, phase: str) -> None:
    """Supervised fine-tuning on the task's demonstrations."""
    policy, eos = parts.policy, parts.policy.eos_ids[0]
    rows = [
        Row(prompt_ids(problem.prompt, policy.tokenizer), response_ids(text, policy.tokenizer, eos), group=index)
        for index, (problem, text) in enumerate(parts.task.demonstrations())
    ]
    for row in rows:
        check_length(f"of demonstration {row.group}", len(row.prompt_ids), len(row.response_ids), policy.max_positions)
    session = Session(policy.model, parts.accelerator, config.optimizer, config.steps)
    with parts.tracker.phase(phase, config.steps):
        train_sft(
            config,
            rows,
            policy,
            session,
            parts.tracker,
            logits_chunk=parts.config.model.logits_chunk,
            seed=parts.config.seed,
        )


def run_grpo(parts: Parts, config: GRPOConfig) -> None:
    """GRPO on the task's training problems."""
    accelerator, policy, seed = parts.accelerator, parts.policy, parts.config.seed
    run = GRPO(
        config=config,
        policy=policy,
        reference=reference_of(policy.model) if config.kl.coefficient > 0 else None,
        share_prompt=parts.config.model.share_prompt and can_share_prompt(policy.model),
        logits_chunk=parts.config.model.logits_chunk,
        problems=ProblemStream(
            with_prompts(parts.train, policy, parts.sampling.max_tokens),
            config.problems_per_step,
            seed,
            accelerator.process_index,
            accelerator.num_processes,
        ),
        engine=parts.engine,
        sampling=parts.sampling,
        scorer=parts.scorer,
        verifiers=parts.verifiers,
        max_unjudged=parts.config.verification.max_unjudged,
        session=Session(policy.model, accelerator, config.optimizer, config.steps * config.epochs * config.minibatches),
        tracker=parts.tracker,
        rollouts=parts.folder / "rollouts",
        seed=seed,
        after_step=partial(evaluate_between, parts),
    )
    with parts.tracker.phase("grpo", config.steps):
        train_grpo(run)


def evaluate_between(parts: Parts, step: int) -> None:
    """Evaluate every `evaluation.every` steps; the last step has its evaluation anyway."""
    every = parts.config.evaluation.every
    if every and step % every == 0 and step < parts.config.algorithm.steps:
        run_evaluation(parts, f"step-{step:06d}", step=step)


def run_evaluation(parts: Parts, name: str, *, step: int) -> Report:
    """pass@k on the held-out problems, spread over the processes; written to eval/NAME.json and eval/NAME.parquet."""
    accelerator, settings = parts.accelerator, parts.config.evaluation
    local = parts.held_out[accelerator.process_index :: accelerator.num_processes]
    found = evaluate(
        local, parts.engine, parts.scorer, parts.sampling, samples=settings.samples, seed=parts.config.seed
    )
    if accelerator.num_processes > 1:
        found = replace(found, greedy=gather_object(found.greedy), sampled=gather_object(found.sampled))
    report = reports.report(
        found, task=parts.task.config.name, model=str(parts.folder), seed=parts.config.seed, k=settings.k
    )
    if accelerator.is_main_process:
        folder = parts.folder / "eval"
        reports.save(report, folder / f"{name}.json")
        store.write(folder / f"{name}.parquet", found.records(parts.verifiers, step=step))
    return report


def show_result(parts: Parts, before: Report, after: Report, seconds: float) -> None:
    """The table before and after, and where everything lies."""
    console = parts.tracker.console
    console.print(reports.table({"before": before, "after": after}, f"{parts.task.config.name}, held-out problems"))
    console.print(f"run       {parts.folder}  ({seconds:.0f} s in all)", highlight=False)
    console.print(f"rollouts  {parts.folder / 'rollouts'}", highlight=False)
    console.print(f"model     {parts.folder / 'final'}", highlight=False)
