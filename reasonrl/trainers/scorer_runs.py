"""A run that trains a reward model or a process reward model: files in, a model that the verifiers load out."""

import json
import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from rich.console import Console
from rich.table import Table
from transformers.utils import logging as transformers_logging

from reasonrl import files
from reasonrl.config import ProcessRewardModelConfig, RewardModelConfig, RunConfig
from reasonrl.errors import ReasonRLError
from reasonrl.models.load import count_parameters
from reasonrl.models.trainable_scorer import TrainableScorer, load_scorer
from reasonrl.pairs.read import read_preferences
from reasonrl.steplabels.read import read_solutions
from reasonrl.tracking import Tracker
from reasonrl.trainers.checkpoints import Checkpoints
from reasonrl.trainers.fingerprints import check_fingerprints, of_examples, of_model
from reasonrl.trainers.process_reward_model import LabelledIds, ProcessRewardModelLoss, labelled_ids
from reasonrl.trainers.resume import checkpoint_of, hold_folder
from reasonrl.trainers.reward_model import RewardModelLoss, ScoredPair, scored_pairs
from reasonrl.trainers.scorers import ScorerLoss, held_out_prompts, train_scorer
from reasonrl.trainers.session import Session
from reasonrl.trainers.stop import Stop
from reasonrl.trainers.trained import Trained
from reasonrl.trainers.watch import Watch

Config = RewardModelConfig | ProcessRewardModelConfig
Examples = list[ScoredPair] | list[LabelledIds]
Report = dict[str, float]
_CURE = "lower algorithm.optimizer.learning_rate"


@dataclass(frozen=True)
class ScorerParts:
    """What a run is made of, once everything is loaded.

    Attributes:
        training, held_out: the examples, all of them on every process.
    """

    config: RunConfig
    algorithm: Config
    folder: Path
    training: Examples
    held_out: Examples
    loss: ScorerLoss[Any]
    accelerator: Accelerator
    tracker: Tracker
    checkpoints: Checkpoints
    stop: Stop
    watch: Watch


def train_reward_model(config: RunConfig, console: Console, resume: Path | None = None) -> Path:
    """Run a config of a reward model, or a process reward model, to its end; the run's folder.

    The folder holds `config.yaml` (resolved), `metrics.jsonl` (a line a step), `eval/before.json`, `eval/after.json`
    (and those in between) on what was held out, `final/`, which the verifiers load, and `checkpoints/`.

    Args:
        config: the run.
        console: where it says what it does.
        resume: the folder of a run to go on with, from its last checkpoint, if it has one.

    Raises:
        Interrupted: Ctrl-C or SIGTERM has come; the step was finished, and a checkpoint written.
        ReasonRLError: a fault in config, files or model, found before anything costs time.
    """
    started = time.monotonic()
    transformers_logging.disable_progress_bar()  # its bars would break up ours
    with ExitStack() as stack:
        parts = load_scorer_parts(config, console, stack, resume)
        stacks = parts.folder / f"stacks-{parts.accelerator.process_index}.txt"
        with parts.checkpoints.telling(), parts.stop, parts.watch.watching(stacks):
            reports = run_phases(parts)
        if parts.accelerator.is_main_process:
            tell = partial(parts.tracker.console.print, highlight=False, soft_wrap=True)
            parts.tracker.console.print(table(parts.loss, reports))
            tell(f"run       {parts.folder}  ({time.monotonic() - started:.0f} s in all)")
            tell(f"model     {parts.folder / 'final'}")
        parts.accelerator.wait_for_everyone()
    if parts.accelerator.num_processes > 1:
        parts.accelerator.end_training()
    return parts.folder


def load_scorer_parts(config: RunConfig, console: Console, stack: ExitStack, resume: Path | None) -> ScorerParts:
    """Load everything a run needs; what must be closed is left to `stack`."""
    algorithm = config.algorithm
    assert isinstance(algorithm, Config)
    accelerator = Accelerator(mixed_precision=config.precision, cpu=not torch.cuda.is_available())
    console = console if accelerator.is_main_process else Console(quiet=True)  # what is told, is told once
    resumed = None if resume is None else checkpoint_of(resume, config, console)
    set_seed(config.seed)
    stop = Stop(console)
    watch = Watch(config.stall_minutes, stop)
    scorer = load_scorer(config.model, labels_of(algorithm), config.seed)
    scorer.model.to(accelerator.device)
    training, held_out = examples_of(algorithm, scorer, config.seed, console)
    fingerprints = {
        "training examples": of_examples(training),
        "held-out examples": of_examples(held_out),
        "weights of the model": of_model(scorer.model),
    }
    if resumed is not None:
        check_fingerprints(resumed.state["fingerprints"], fingerprints)
    if config.model.lora is not None:
        trained, total = count_parameters(scorer.model, trained=True), count_parameters(scorer.model)
        console.print(f"lora      {trained:,} of {total:,} parameters are trained", highlight=False, soft_wrap=True)
    session = Session(scorer.model, accelerator, algorithm.optimizer, algorithm.steps, cure=_CURE)
    loss = loss_of(algorithm, scorer, session, watch.beat)
    folder = hold_folder(config, accelerator, stack, resume, resumed)
    tracker = Tracker(folder / "metrics.jsonl" if accelerator.is_main_process else None, console)
    stack.callback(tracker.close)
    checkpoints = Checkpoints(folder, config, fingerprints, accelerator, tracker, stop, resumed)
    return ScorerParts(
        config, algorithm, folder, training, held_out, loss, accelerator, tracker, checkpoints, stop, watch
    )


def run_phases(parts: ScorerParts) -> dict[str, Report]:
    """Evaluation, training, evaluation: the reports before and after."""
    algorithm, session = parts.algorithm, parts.loss.session
    before = evaluate_before(parts)
    done = parts.checkpoints.begin(algorithm.name, Trained({"scorer": session}))
    with parts.tracker.phase(algorithm.name, algorithm.steps):
        train_scorer(
            algorithm,
            parts.training,
            parts.loss,
            parts.tracker,
            seed=parts.config.seed,
            done=done,
            after_step=partial(end_step, parts),
        )
    if parts.accelerator.is_main_process:
        with files.whole(parts.folder / "final") as unfinished:  # before anything else can fail
            parts.loss.scorer.save(unfinished)
    return {"before": before, "after": run_evaluation(parts, "after")}


def evaluate_before(parts: ScorerParts) -> Report:
    """The evaluation before training; of a run that is further, the report it wrote."""
    written = parts.folder / "eval" / "before.json"
    if parts.checkpoints.began and written.exists():
        read: dict[str, float | None] = json.loads(written.read_text(encoding="utf-8"))
        return {key: math.nan if value is None else value for key, value in read.items()}
    report = run_evaluation(parts, "before")
    parts.checkpoints.stop_if_asked()
    return report


def end_step(parts: ScorerParts, step: int) -> None:
    """What every step ends with: an evaluation and a checkpoint, where they are due."""
    parts.watch.beat()
    every, report = parts.algorithm.evaluate_every, Report()
    if every and step % every == 0 and step < parts.algorithm.steps:
        report = run_evaluation(parts, f"step-{step:06d}")
    parts.checkpoints.after_step(step, {f"eval/{name}": value for name, value in report.items()})


def run_evaluation(parts: ScorerParts, name: str) -> Report:
    """A report on what is held out, spread over the processes and written to eval/NAME.json."""
    report = parts.loss.measure(parts.held_out)
    if parts.accelerator.is_main_process:
        clean = {key: value if math.isfinite(value) else None for key, value in report.items()}
        files.write_text(parts.folder / "eval" / f"{name}.json", json.dumps(clean, indent=2) + "\n")
    return report


def labels_of(config: Config) -> int:
    """How many logits its model's head has."""
    return 1 if isinstance(config, RewardModelConfig) else 2


def loss_of(
    config: Config, scorer: TrainableScorer, session: Session, beat: Callable[[], None] = lambda: None
) -> ScorerLoss[Any]:
    """What it minimises."""
    if isinstance(config, RewardModelConfig):
        return RewardModelLoss(config, scorer, session, beat)
    return ProcessRewardModelLoss(config, scorer, session, beat)


def examples_of(config: Config, scorer: TrainableScorer, seed: int, console: Console) -> tuple[Examples, Examples]:
    """What is trained on, and what is held out: files of their own, or a share of the prompts.

    Raises:
        ReasonRLError: a fault in the files, or nothing is left on one side.
    """
    files = config.pairs if isinstance(config, RewardModelConfig) else config.labels
    found: list[Any] = list(tokenised(config, files, scorer, console))
    if config.held_out_files:
        held_out: list[Any] = list(tokenised(config, config.held_out_files, scorer, console))
        asked = {one.prompt for one in held_out}
        if both := sum(one.prompt in asked for one in found):
            text = f"{both:,} of {len(found):,} training examples have a prompt that is also held out and are left out"
            console.print(text, highlight=False, markup=False, soft_wrap=True)
    else:
        asked = set(held_out_prompts([one.prompt for one in found], config.held_out, seed))
        held_out = [one for one in found if one.prompt in asked]
    training = [one for one in found if one.prompt not in asked]
    for side, examples in (("to train on", training), ("held out", held_out)):
        if not examples:
            raise ReasonRLError(
                f"algorithm: none of the {len(found):,} examples that fit is {side}; give more, or change held_out"
            )
    console.print(
        f"examples  {len(training):,} to train on, {len(held_out):,} held out", highlight=False, soft_wrap=True
    )
    return training, held_out


def tokenised(config: Config, files: Sequence[str], scorer: TrainableScorer, console: Console) -> Examples:
    """The examples of files that fit the model; it is said how many do not."""
    if isinstance(config, RewardModelConfig):
        preferences = read_preferences(files)
        pairs = scored_pairs(preferences, scorer, margin=config.margin)
        _tell(preferences.skipped.total(), preferences.line(), console)
        return pairs
    solutions = read_solutions(files)
    found = labelled_ids(solutions, scorer, config.mark)
    _tell(solutions.skipped.total(), solutions.line(), console)
    return found


def _tell(skipped: int, line: str, console: Console) -> None:
    if skipped:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def table(loss: ScorerLoss[Any], reports: dict[str, Report]) -> Table:
    """The numbers before and after, side by side."""
    made = Table("", *reports, title="held-out examples", title_justify="left")
    for column in made.columns[1:]:
        column.justify = "right"
    for key, label in loss.shown.items():
        values = [report[key] for report in reports.values()]
        made.add_row(label, *(f"{v:,.0f}" if key in _COUNTS else f"{v:.3f}" for v in values))
    return made


_COUNTS = {"pairs", "steps", "solutions"}
