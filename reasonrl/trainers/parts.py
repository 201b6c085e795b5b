"""Everything a run needs, loaded and checked: data, verifiers, model, engine, folder."""

import itertools
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from rich.console import Console

from reasonrl import tasks
from reasonrl.config import AdvantageConfig, DPOConfig, PolicyConfig, RolloutConfig, RunConfig, TRPOConfig
from reasonrl.errors import ReasonRLError
from reasonrl.evaluation.engines import choose, huggingface_engine, vllm_engine
from reasonrl.evaluation.evaluate import Prompted
from reasonrl.evaluation.prepare import to_sampling, with_prompt, with_prompts
from reasonrl.evaluation.sync import WeightSync
from reasonrl.models.load import Policy, count_parameters, load_policy
from reasonrl.pairs.read import Preferences, read_preferences
from reasonrl.rollout.engine import Engine, Sampling
from reasonrl.scoring import Scorer, WeightedVerifier
from reasonrl.scoring.resolve import audit, check_problems, resolve
from reasonrl.tasks import Mixture, Task
from reasonrl.tracking import Tracker
from reasonrl.trainers import sft, trpo
from reasonrl.trainers.checkpoints import Checkpoints
from reasonrl.trainers.data import listed_problems, tell_left_out, training_sources
from reasonrl.trainers.dpo import tokenised
from reasonrl.trainers.fingerprints import check_fingerprints, of_model, of_problems, of_verifiers
from reasonrl.trainers.guard import Guard, check_guard
from reasonrl.trainers.preferences import TokenPair
from reasonrl.trainers.problems import ProblemStream
from reasonrl.trainers.resume import checkpoint_of, hold_folder
from reasonrl.trainers.stop import Stop
from reasonrl.trainers.watch import Watch


@dataclass(frozen=True)
class Parts:
    """What a run is made of, once everything is loaded.

    Attributes:
        problems: the training problems of each step; None where the algorithm does not sample.
        pairs: what preferences are learnt from; None where these are not read from files.
        held_out: the problems of the evaluations, all of them on every process.
    """

    config: RunConfig
    folder: Path
    task: Task | Mixture
    problems: ProblemStream | None
    pairs: list[TokenPair] | None
    held_out: list[Prompted]
    policy: Policy
    accelerator: Accelerator
    engine: Engine
    sync: WeightSync
    sampling: Sampling
    scorer: Scorer
    tracker: Tracker
    checkpoints: Checkpoints
    stop: Stop
    watch: Watch


def load_parts(config: RunConfig, console: Console, stack: ExitStack, resume: Path | None = None) -> Parts:
    """Load everything a run needs; what must be closed is left to `stack`.

    Args:
        config: the run.
        console: where it says what it does.
        stack: closes the parts.
        resume: the folder of the run to go on with.
    """
    task, verifiers, sampling = resolve_task(config)
    held_out = task.problems("eval", config.evaluation.rows)
    listed = listed_problems(task) if isinstance(config.algorithm, RolloutConfig) else {}
    preferences = read_preferences(config.algorithm.pairs) if isinstance(config.algorithm, DPOConfig) else None
    check_problems(verifiers, itertools.chain(held_out, *listed.values()))
    accelerator = Accelerator(mixed_precision=config.precision, cpu=not torch.cuda.is_available())
    console = console if accelerator.is_main_process else Console(quiet=True)  # what is told, is told once
    resumed = None if resume is None else checkpoint_of(resume, config, console)
    set_seed(config.seed)
    tell_left_out(task, "train", console)
    tell_left_out(task, "eval", console)
    stop = Stop(console)
    watch = Watch(config.stall_minutes, stop)
    scorer = stack.enter_context(
        Scorer(
            verifiers,
            workers=config.verification.workers,
            deadline=config.verification.deadline,
            on_verdict=watch.beat,
        )
    )
    policy = load_policy(config.model, config.seed)
    policy.model.to(accelerator.device).eval()
    fingerprints = {
        "training problems": of_problems(one for part in listed.values() for one in part),
        "held-out problems": of_problems(held_out),
        "weights of the model": of_model(policy.model),
        **of_verifiers(verifiers, sampling),
    }
    if resumed is not None:
        check_fingerprints(resumed.state["fingerprints"], fingerprints)
    if isinstance(config.algorithm, TRPOConfig):
        trpo.check(policy.model, accelerator)
    sft.check((config.warm_start, config.algorithm), policy.model, accelerator)
    if config.model.lora is not None:
        trained, total = count_parameters(policy.model, trained=True), count_parameters(policy.model)
        console.print(f"lora      {trained:,} of {total:,} parameters are trained", highlight=False, soft_wrap=True)
    pairs = None if preferences is None else pairs_to_train_on(config, preferences, policy, console)
    problems = None
    rank, world = accelerator.process_index, accelerator.num_processes
    if isinstance(config.algorithm, RolloutConfig):
        make = partial(
            with_prompt, vocabulary=policy, max_tokens=sampling.max_tokens, longest=config.task_ref.max_prompt_tokens
        )
        sources = training_sources(task, listed, make, verifiers, config.seed, console)
        rounds = 1 + (config.algorithm.refills if isinstance(config.algorithm, AdvantageConfig) else 0)
        problems = ProblemStream(sources, config.algorithm.problems_per_step, rank, world, rounds)
        if any(part.streams for part, _ in task.parts):  # what a stream brings is judged as it comes
            problems.of_step(1)  # a fault of every row shows now
        else:
            audit(scorer, [one.problem for one in problems.all_of(config.algorithm.steps)], task.path)
    audit(scorer, held_out[rank::world], task.path)
    prompted = with_prompts(held_out, policy, sampling.max_tokens)
    longest = longest_sequence(problems, prompted, config.task_ref.max_prompt_tokens, sampling.max_tokens)
    engine = make_engine(config, policy, longest, accelerator, console)
    stack.callback(engine.close)
    sync = WeightSync(
        engine,
        policy,
        prompted,
        every=config.engine.probe_every,
        tolerance=probe_tolerance(config),
        max_tokens=sampling.max_tokens,
        logits_chunk=config.model.logits_chunk,
        autocast=accelerator.autocast,
    )
    folder = hold_folder(config, accelerator, stack, resume, resumed)  # only now: a run that could not begin has none
    tracker = Tracker(folder / "metrics.jsonl" if accelerator.is_main_process else None, console)
    stack.callback(tracker.close)
    guard = None
    if config.guard is not None:
        guard = Guard(config.guard, config.algorithm.name, folder / "metrics.jsonl", console)
    checkpoints = Checkpoints(folder, config, fingerprints, accelerator, tracker, stop, resumed, guard)
    return Parts(
        config, folder, task, problems, pairs, prompted, policy, accelerator, engine, sync, sampling, scorer,
        tracker,
        checkpoints, stop, watch,
    )  # fmt: skip


def pairs_to_train_on(config: RunConfig, preferences: Preferences, policy: Policy, console: Console) -> list[TokenPair]:
    """The pairs as token ids; it is said how many cannot be used."""
    assert isinstance(config.algorithm, DPOConfig)
    pairs = tokenised(preferences, policy, config.task_ref.max_prompt_tokens)
    if preferences.skipped:
        console.print(preferences.line(), highlight=False, markup=False, soft_wrap=True)
    return pairs


def make_engine(
    config: RunConfig, policy: Policy, longest: int | None, accelerator: Accelerator, console: Console
) -> Engine:
    """The engine the config asks for; which one, and why, is said where there is a choice.

    Raises:
        ReasonRLError: vLLM is asked for and not installed, or asked for what it cannot do here.
    """
    name, why = choose(config.engine, count_parameters(policy.model))
    if config.engine.name == "auto" and accelerator.is_main_process:
        console.print(f"engine    {name}: {why}", highlight=False, soft_wrap=True)
    if name == "huggingface":
        return huggingface_engine(policy, config.engine.max_batch, accelerator.autocast)
    if config.engine.tensor_parallel_size > 1 and accelerator.num_processes > 1:
        raise ReasonRLError(
            f"engine.tensor_parallel_size {config.engine.tensor_parallel_size} with {accelerator.num_processes} "
            "training processes: each of them has an engine on its own GPU; set it to 1, or train in one process"
        )
    return vllm_engine(config.engine, policy, config.model, longest=longest, own_weights=False)


def longest_sequence(
    problems: ProblemStream | None, held_out: Sequence[Prompted], longest_prompt: int | None, max_tokens: int
) -> int | None:
    """Tokens of the longest prompt and response together; None where a stream may bring longer ones."""
    prompts = [len(one.prompt_ids) for one in held_out]
    if problems is not None:
        longest = longest_prompt if problems.longest_prompt is None else problems.longest_prompt
        if longest is None:
            return None
        prompts.append(longest)
    return max(prompts) + max_tokens


def probe_tolerance(config: RunConfig) -> float:
    """Nats: what is computed in bfloat16, on either side, differs by 0.04 in the mean (SmolLM2-135M)."""
    exact = config.model.dtype == "float32" and config.engine.dtype != "bfloat16" and config.precision == "no"
    return config.engine.probe_tolerance or (1e-3 if exact else 0.15)


def resolve_task(config: RunConfig) -> tuple[Task | Mixture, tuple[WeightedVerifier, ...], Sampling]:
    """The task, its verifiers, and how responses are sampled in training.

    Raises:
        ReasonRLError: no such task, or a sampling that training cannot account for.
    """
    task = tasks.load(config.task_ref.name, config.task_ref.data_files)
    sampling = to_sampling(task.sampling, config.sampling)
    if isinstance(config.algorithm, RolloutConfig) and sampling.temperature == 0:
        raise ReasonRLError("sampling.temperature is 0: all responses of a group would be the same; set it to 1")
    truncated = sampling.top_p < 1 or sampling.top_k > 0 or sampling.min_p > 0
    if isinstance(config.algorithm, PolicyConfig) and truncated:
        raise ReasonRLError(
            "training samples from the whole distribution, since log-probabilities of a truncated one do not "
            "match the trained policy's; set sampling.top_p to 1, and sampling.top_k and sampling.min_p to 0"
        )
    verifiers = resolve(task)
    if config.guard is not None:
        check_guard(config.guard, verifiers)
    if isinstance(config.algorithm, PolicyConfig) and config.algorithm.supervision is not None:
        check_steps(verifiers)
    return task, verifiers, sampling


def check_steps(verifiers: Sequence[WeightedVerifier]) -> None:
    """Does some verifier of every task reward steps, where steps are supervised?

    Raises:
        ReasonRLError: none does, and training would learn from the outcome alone, or from nothing.
    """
    for task in {one.task for one in verifiers}:
        judges = [one for one in verifiers if one.task == task and one.weight != 0]
        if not any("process" in one.verifier.supervises for one in judges):
            which = f" of task {task}" if task else ""
            raise ReasonRLError(
                f"no verifier{which} rewards steps ({', '.join(one.name for one in judges)}), as process supervision "
                "needs; name one that does, as arithmetic_steps, with a weight, or set algorithm.process to null (of "
                "PPO: process_weight to 0)"
            )
