"""A run from its config: data, model, engine and scorer put together, then warm start, training and evaluation."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console
from torch.nn import Parameter
from transformers.utils import logging as transformers_logging

from reasonrl import files, store
from reasonrl.config import (
    CriticFreeConfig,
    DPOConfig,
    OnlineDPOConfig,
    OptimizerConfig,
    PPOConfig,
    RunConfig,
    ScorerConfig,
    SFTConfig,
    TRPOConfig,
)
from reasonrl.evaluation import report as reports
from reasonrl.evaluation.evaluate import Judged, evaluate
from reasonrl.evaluation.report import Report
from reasonrl.models.critic import CriticModule, load_critic
from reasonrl.models.forward import can_share_prompt
from reasonrl.models.load import reference_of, save_policy
from reasonrl.scoring import check_unjudged
from reasonrl.trainers.coefficients import Coefficient
from reasonrl.trainers.data import demonstrations, tell_left_out
from reasonrl.trainers.fingerprints import of_demonstrations
from reasonrl.trainers.grpo import train_grpo
from reasonrl.trainers.guard import GuardStop
from reasonrl.trainers.parts import Parts, load_parts
from reasonrl.trainers.policy import Config, PolicyRun
from reasonrl.trainers.ppo import PPO, train_ppo
from reasonrl.trainers.preference_runs import run_dpo, run_online_dpo
from reasonrl.trainers.problems import ProblemStream
from reasonrl.trainers.scorer_runs import train_reward_model
from reasonrl.trainers.session import Session, gather
from reasonrl.trainers.sft import train_sft
from reasonrl.trainers.trained import Trained
from reasonrl.trainers.trpo import train_trpo


def train(config: RunConfig, console: Console, resume: Path | None = None) -> Path:
    """Run a config to its end; the run's folder. Of a reward model it is as `scorer_runs.train_reward_model` says.

    Args:
        config: the run.
        console: where it says what it does.
        resume: the folder of a run to go on with, from its last checkpoint, if it has one.

    The folder holds `config.yaml` (resolved), `metrics.jsonl` (a line a step), `rollouts/step-000001.parquet` …,
    `eval/before.json`, `eval/after.json` with their responses beside them, and `final/` (model and tokenizer; under
    LoRA merged, with the adapter alone in `final/adapter/`), and `checkpoints/`.

    Raises:
        Interrupted: Ctrl-C or SIGTERM has come; the step was finished, and a checkpoint written.
        GuardStop: the guard has ended it early; the folder is as of a run that has come to its end.
        ReasonRLError: a fault in config, data, model or plugins, found as far as possible before anything costs time.
    """
    if isinstance(config.algorithm, ScorerConfig):
        return train_reward_model(config, console, resume)
    started = time.monotonic()
    transformers_logging.disable_progress_bar()  # its bars would break up ours
    with ExitStack() as stack:
        parts = load_parts(config, console, stack, resume)
        rank = parts.accelerator.process_index
        stacks = parts.folder / f"stacks-{rank}.txt"
        with parts.checkpoints.telling(), parts.stop, parts.watch.watching(stacks):
            before, after, stopped = run_phases(parts)
        if parts.accelerator.is_main_process:
            show_result(parts, before, after, time.monotonic() - started)
        parts.accelerator.wait_for_everyone()
    if parts.accelerator.num_processes > 1:
        parts.accelerator.end_training()
    if stopped is not None:
        raise stopped
    return parts.folder


def run_phases(parts: Parts) -> tuple[Report, Report, GuardStop | None]:
    """Warm start, evaluation, the algorithm, evaluation: the reports before and after, and was it stopped early?"""
    config, stopped = parts.config, None
    if config.warm_start is not None:
        run_sft(parts, config.warm_start, "warm start")
    before = evaluate_before(parts)
    algorithm = config.algorithm
    if isinstance(algorithm, SFTConfig):
        run_sft(parts, algorithm, "sft")
    elif isinstance(algorithm, DPOConfig):
        run_dpo(parts, algorithm, partial(end_step, parts))
    else:
        assert not isinstance(algorithm, ScorerConfig)  # a run of its own
        assert parts.problems is not None
        try:
            run_algorithm(parts, algorithm, parts.problems)
        except GuardStop as stop:
            stopped = stop.with_traceback(None)  # which would keep all that was trained with
    if parts.accelerator.is_main_process:
        with files.whole(parts.folder / "final") as unfinished:  # before anything else can fail
            save_policy(parts.policy, unfinished)
    after = run_evaluation(parts, "after", step=algorithm.steps if stopped is None else stopped.step)
    return before, after, stopped


def evaluate_before(parts: Parts) -> Report:
    """The evaluation before the algorithm; of a run that is further, the report it wrote."""
    written = parts.folder / "eval" / "before.json"
    if parts.checkpoints.began and written.exists():
        return reports.read(written)
    report = run_evaluation(parts, "before", step=0)
    parts.checkpoints.stop_if_asked()
    return report


def run_sft(parts: Parts, config: SFTConfig, phase: str) -> None:
    """Supervised fine-tuning on the task's demonstrations."""
    session = Session(parts.policy.model, parts.accelerator, config.optimizer, config.steps)
    rows = [(demonstrations(part, parts.policy, config), weight) for part, weight in parts.task.parts]
    tell_left_out(parts.task, "train", parts.tracker.console)
    data = of_demonstrations(row for part, _ in rows for row in part)
    done = parts.checkpoints.begin(phase, Trained({"policy": session}, data=lambda step: data))
    with parts.tracker.phase(phase, config.steps):
        train_sft(
            config,
            rows,
            parts.policy,
            session,
            parts.tracker,
            logits_chunk=parts.config.model.logits_chunk,
            seed=parts.config.seed,
            done=done,
            after_step=partial(end_step, parts, evaluates=config is parts.config.algorithm),
        )


def run_algorithm(
    parts: Parts, config: CriticFreeConfig | PPOConfig | TRPOConfig | OnlineDPOConfig, problems: ProblemStream
) -> None:
    """Reinforcement learning on the task's training problems."""
    if isinstance(config, OnlineDPOConfig):
        run_online_dpo(parts, config, problems, partial(end_step, parts))
        return
    with parts.tracker.phase(config.name, config.steps):
        if isinstance(config, PPOConfig):
            ppo = ppo_run(parts, config, problems)
            own = {} if ppo.critic_session is None else {"critic": ppo.critic_session}
            train_ppo(ppo, parts.checkpoints.begin_run(ppo.run, own, penalty=ppo.penalty))
        elif isinstance(config, TRPOConfig):
            trpo = policy_run(parts, config, problems, OptimizerConfig(), 0, cure="lower algorithm.max_kl")
            train_trpo(trpo, parts.checkpoints.begin_run(trpo))
        else:
            grpo = policy_run(parts, config, problems, config.optimizer, config.updates)
            train_grpo(grpo, parts.checkpoints.begin_run(grpo))


def policy_run(
    parts: Parts,
    config: Config,
    problems: ProblemStream,
    optimizer: OptimizerConfig,
    updates: int,
    head: Sequence[Parameter] = (),
    cure: str = "lower algorithm.optimizer.learning_rate",
) -> PolicyRun[Config]:
    """What the algorithms share.

    Args:
        parts, config, problems: the run.
        optimizer, updates: the policy's, and how many of its steps there are; TRPO has none, and never calls it.
        head: what else is trained with the policy.
        cure: what to do where one update after the other is not finite.
    """
    policy = parts.policy
    return PolicyRun(
        config=config,
        policy=policy,
        reference=reference_of(policy.model) if config.kl.coefficient > 0 else None,
        beta=Coefficient(config.kl.coefficient),
        share_prompt=parts.config.model.share_prompt and can_share_prompt(policy.model),
        logits_chunk=parts.config.model.logits_chunk,
        problems=problems,
        engine=parts.engine,
        sync=parts.sync,
        sampler_is_policy=not parts.engine.keeps_copy,
        sampling=parts.sampling,
        scorer=parts.scorer,
        max_unjudged=parts.config.verification.max_unjudged,
        session=Session(policy.model, parts.accelerator, optimizer, updates, head, cure),
        tracker=parts.tracker,
        rollouts=parts.folder / "rollouts",
        seed=parts.config.seed,
        after_step=partial(end_step, parts),
        beat=parts.watch.beat,
    )


def ppo_run(parts: Parts, config: PPOConfig, problems: ProblemStream) -> PPO:
    """The policy and its critic."""
    model = parts.config.model
    critic = load_critic(config.critic, parts.policy, model.dtype, model.attention)
    head = list(critic.head.parameters()) if critic.shared else []
    session = None
    if not critic.shared:
        updates = config.steps * config.epochs * config.minibatches
        session = Session(
            CriticModule(critic),
            parts.accelerator,
            config.critic.optimizer,
            updates,
            cure="lower algorithm.critic.optimizer.learning_rate",
        )
    run = policy_run(parts, config, problems, config.optimizer, config.updates, head)
    return PPO(run, critic, session, Coefficient(config.penalty.coefficient))


def end_step(parts: Parts, step: int, *, evaluates: bool = True) -> None:
    """What every step ends with: an evaluation and a checkpoint, where they are due."""
    parts.watch.beat()
    if evaluates:
        evaluate_between(parts, step)
    parts.checkpoints.after_step(step)


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
        local,
        parts.engine,
        parts.scorer,
        parts.sampling,
        samples=settings.samples,
        seed=parts.config.seed,
        on_response=parts.watch.beat,
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
