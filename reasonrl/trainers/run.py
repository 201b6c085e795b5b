"""A run from its config: data, model, engine and scorer put together, then warm start, training and evaluation."""

import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, set_seed
from rich.console import Console
from transformers.utils import logging as transformers_logging

from reasonrl import config as run_config
from reasonrl import store, tasks
from reasonrl.config import GRPOConfig, RunConfig, SFTConfig
from reasonrl.errors import ReasonRLError
from reasonrl.evaluation import report as reports
from reasonrl.evaluation.engines import choose, huggingface_engine, vllm_engine
from reasonrl.evaluation.evaluate import Judged, Prompted, evaluate
from reasonrl.evaluation.prepare import to_sampling, with_prompt, with_prompts
from reasonrl.evaluation.report import Report
from reasonrl.evaluation.sync import WeightSync
from reasonrl.models.forward import can_share_prompt
from reasonrl.models.load import Policy, count_parameters, load_policy, reference_of, save_policy
from reasonrl.rollout.engine import Engine, Sampling
from reasonrl.scoring import Scorer, WeightedVerifier, check_unjudged
from reasonrl.scoring.resolve import audit, check_problems, resolve
from reasonrl.tasks import Mixture, Task
from reasonrl.tracking import Tracker
from reasonrl.trainers.data import demonstrations, listed_problems, tell_left_out, training_sources
from reasonrl.trainers.grpo import GRPO, train_grpo
from reasonrl.trainers.problems import ProblemStream
from reasonrl.trainers.session import Session, gather
from reasonrl.trainers.sft import train_sft


@dataclass(frozen=True)
class Parts:
    """What a run is made of, once everything is loaded.

    Attributes:
        problems: the training problems of each step; None where the algorithm is supervised.
        held_out: the problems of the evaluations, all of them on every process.
    """

    config: RunConfig
    folder: Path
    task: Task | Mixture
    problems: ProblemStream | None
    held_out: list[Prompted]
    policy: Policy
    accelerator: Accelerator
    engine: Engine
    sync: WeightSync
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
    transformers_logging.disable_progress_bar()  # its bars would break up ours
    with ExitStack() as stack:
        parts = load_parts(config, console, stack)
        before, after = run_phases(parts)
        if parts.accelerator.is_main_process:
            show_result(parts, before, after, time.monotonic() - started)
        parts.accelerator.wait_for_everyone()
    if parts.accelerator.num_processes > 1:
        parts.accelerator.end_training()
    return parts.folder


def load_parts(config: RunConfig, console: Console, stack: ExitStack) -> Parts:
    """Load everything a run needs; what must be closed is left to `stack`."""
    task, verifiers, sampling = resolve_task(config)
    held_out = task.problems("eval", config.evaluation.rows)
    listed = {} if isinstance(config.algorithm, SFTConfig) else listed_problems(task)
    check_problems(verifiers, itertools.chain(held_out, *listed.values()))
    accelerator = Accelerator(mixed_precision=config.precision, cpu=not torch.cuda.is_available())
    console = console if accelerator.is_main_process else Console(quiet=True)  # what is told, is told once
    set_seed(config.seed)
    tell_left_out(task, "train", console)
    tell_left_out(task, "eval", console)
    scorer = stack.enter_context(
        Scorer(verifiers, workers=config.verification.workers, deadline=config.verification.deadline)
    )
    policy = load_policy(config.model, config.seed)
    policy.model.to(accelerator.device).eval()
    problems = None
    rank, world = accelerator.process_index, accelerator.num_processes
    if isinstance(config.algorithm, GRPOConfig):
        make = partial(
            with_prompt, vocabulary=policy, max_tokens=sampling.max_tokens, longest=config.task.max_prompt_tokens
        )
        sources = training_sources(task, listed, make, verifiers, config.seed, console)
        problems = ProblemStream(sources, config.algorithm.problems_per_step, rank, world)
        if not any(part.streams for part, _ in task.parts):  # what a stream brings is judged as it comes
            steps = range(1, config.algorithm.steps + 1)
            drawn = {one.problem.id: one.problem for step in steps for one in problems.of_step(step)[0]}
            audit(scorer, list(drawn.values()), task.path)
    audit(scorer, held_out[rank::world], task.path)
    prompted = with_prompts(held_out, policy, sampling.max_tokens)
    longest = longest_sequence(problems, prompted, config, sampling.max_tokens)
    engine = make_engine(config, policy, longest, accelerator, console)
    stack.callback(engine.close)
    sync = WeightSync(
        engine,
        policy,
        prompted,
        every=config.engine.probe_every,
        tolerance=probe_tolerance(config),
        logits_chunk=config.model.logits_chunk,
        autocast=accelerator.autocast,
    )
    folder = make_folder(config, accelerator)  # only now: a run that could not begin leaves no folder behind
    tracker = Tracker(folder / "metrics.jsonl" if accelerator.is_main_process else None, console)
    stack.callback(tracker.close)
    return Parts(config, folder, task, problems, prompted, policy, accelerator, engine, sync, sampling, scorer, tracker)


def make_engine(
    config: RunConfig, policy: Policy, longest: int | None, accelerator: Accelerator, console: Console
) -> Engine:
    """The engine the config asks for; which one, and why, is said where there is a choice.

    Raises:
        ReasonRLError: vLLM is asked for and not installed, or asked for what it cannot do here.
    """
    name, why = choose(config.engine, count_parameters(policy.model))
    if config.engine.name == "auto" and accelerator.is_main_process:
        console.print(f"engine    {name}: {why}", highlight=False)
    if name == "huggingface":
        return huggingface_engine(policy, config.engine.max_batch, accelerator.autocast)
    if config.engine.tensor_parallel_size > 1 and accelerator.num_processes > 1:
        raise ReasonRLError(
            f"engine.tensor_parallel_size {config.engine.tensor_parallel_size} with {accelerator.num_processes} "
            "training processes: each of them has an engine on its own GPU; set it to 1, or train in one process"
        )
    return vllm_engine(config.engine, policy, config.model, longest=longest, own_weights=False)


def longest_sequence(
    problems: ProblemStream | None, held_out: Sequence[Prompted], config: RunConfig, max_tokens: int
) -> int | None:
    """Tokens of the longest prompt and response together; None where a stream may bring longer ones."""
    prompts = [len(one.prompt_ids) for one in held_out]
    if problems is not None:
        longest = config.task.max_prompt_tokens if problems.longest_prompt is None else problems.longest_prompt
        if longest is None:
            return None
        prompts.append(longest)
    return max(prompts) + max_tokens


def probe_tolerance(config: RunConfig) -> float:
    """Nats: what is computed in bfloat16, on either side, differs by 0.04 in the mean (SmolLM2-135M)."""
    exact = config.model.dtype == "float32" and config.engine.dtype != "bfloat16" and config.precision == "no"
    return config.engine.probe_tolerance or (1e-3 if exact else 0.15)


def run_phases(parts: Parts) -> tuple[Report, Report]:
    """Warm start, evaluation, the algorithm, evaluation: the reports before and after."""
    config = parts.config
    if config.warm_start is not None:
        run_sft(parts, config.warm_start, "warm start")
    before = run_evaluation(parts, "before", step=0)
    algorithm = config.algorithm
    if isinstance(algorithm, SFTConfig):
        run_sft(parts, algorithm, "sft", after_step=partial(evaluate_between, parts))
    else:
        assert parts.problems is not None
        run_grpo(parts, algorithm, parts.problems)
    if parts.accelerator.is_main_process:
        save_policy(parts.policy, parts.folder / "final")  # before anything else can fail
    return before, run_evaluation(parts, "after", step=algorithm.steps)


def resolve_task(config: RunConfig) -> tuple[Task | Mixture, tuple[WeightedVerifier, ...], Sampling]:
    """The task, its verifiers, and how responses are sampled in training.

    Raises:
        ReasonRLError: no such task, or a sampling that training cannot account for.
    """
    task = tasks.load(config.task.name, config.task.data_files)
    sampling = to_sampling(task.sampling, config.sampling)
    if isinstance(config.algorithm, GRPOConfig):
        if sampling.temperature == 0:
            raise ReasonRLError("sampling.temperature is 0: all responses of a group would be the same; set it to 1")
        if sampling.top_p < 1 or sampling.top_k > 0:
            raise ReasonRLError(
                "training samples from the whole distribution, since log-probabilities of a truncated one do not "
                "match the trained policy's; set sampling.top_p to 1 and sampling.top_k to 0"
            )
    return task, resolve(task), sampling


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


def run_sft(parts: Parts, config: SFTConfig, phase: str, after_step: Callable[[int], None] = lambda step: None) -> None:
    """Supervised fine-tuning on the task's demonstrations."""
    session = Session(parts.policy.model, parts.accelerator, config.optimizer, config.steps)
    rows = [(demonstrations(part, parts.policy, config), weight) for part, weight in parts.task.parts]
    tell_left_out(parts.task, "train", parts.tracker.console)
    with parts.tracker.phase(phase, config.steps):
        train_sft(
            config,
            rows,
            parts.policy,
            session,
            parts.tracker,
            logits_chunk=parts.config.model.logits_chunk,
            seed=parts.config.seed,
            after_step=after_step,
        )


def run_grpo(parts: Parts, config: GRPOConfig, problems: ProblemStream) -> None:
    """GRPO on the task's training problems."""
    accelerator, policy, seed = parts.accelerator, parts.policy, parts.config.seed
    run = GRPO(
        config=config,
        policy=policy,
        reference=reference_of(policy.model) if config.kl.coefficient > 0 else None,
        share_prompt=parts.config.model.share_prompt and can_share_prompt(policy.model),
        logits_chunk=parts.config.model.logits_chunk,
        problems=problems,
        engine=parts.engine,
        sync=parts.sync,
        sampler_is_policy=not parts.engine.keeps_copy,
        sampling=parts.sampling,
        scorer=parts.scorer,
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
    """pass@k on the held-out problems after `step` steps, spread over the processes.

    It is written to eval/NAME.json, and its responses to eval/NAME.parquet.

    Raises:
        ReasonRLError: too many responses could not be judged; report and responses are written all the same.
    """
    accelerator, settings = parts.accelerator, parts.config.evaluation
    parts.sync(step)
    local = parts.held_out[accelerator.process_index :: accelerator.num_processes]
    found = evaluate(
        local, parts.engine, parts.scorer, parts.sampling, samples=settings.samples, seed=parts.config.seed
    )
    found = replace(found, greedy=gather_judged(parts, found.greedy), sampled=gather_judged(parts, found.sampled))
    report = reports.report(
        found,
        task=parts.task.name,
        model=str(parts.folder),
        seed=parts.config.seed,
        k=settings.k,
        left_out=sum(one.rows for one in parts.task.left_out("eval")),
    )
    if accelerator.is_main_process:
        folder = parts.folder / "eval"
        reports.save(report, folder / f"{name}.json")
        store.write(folder / f"{name}.parquet", found.records(step=step))
    for judged in (found.greedy, found.sampled):
        scored = {(one.problem.id, one.rollout.sample): one.scored for one in judged}
        check_unjudged(scored, parts.config.verification.max_unjudged)
    return report


def gather_judged(parts: Parts, judged: Sequence[Judged]) -> list[Judged]:
    """The responses of all processes in the order of the held-out problems, however many processes there are."""
    order = {one.problem.id: index for index, one in enumerate(parts.held_out)}
    return sorted(gather(parts.accelerator, judged), key=lambda one: (order[one.problem.id], one.rollout.sample))


def show_result(parts: Parts, before: Report, after: Report, seconds: float) -> None:
    """The table before and after, and where everything lies."""
    console = parts.tracker.console
    console.print(reports.table({"before": before, "after": after}, f"{parts.task.name}, held-out problems"))
    console.print(f"run       {parts.folder}  ({seconds:.0f} s in all)", highlight=False, soft_wrap=True)
    console.print(f"rollouts  {parts.folder / 'rollouts'}", highlight=False, soft_wrap=True)
    console.print(f"model     {parts.folder / 'final'}", highlight=False, soft_wrap=True)
