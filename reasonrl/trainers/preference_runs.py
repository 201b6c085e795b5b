"""DPO, on files and online, from a run's parts."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from reasonrl.config import DPOConfig, OnlineDPOConfig, PreferenceConfig
from reasonrl.models.forward import can_share_prompt
from reasonrl.models.load import reference_of
from reasonrl.models.lora import adapted_layers, adapters_off, without_adapters
from reasonrl.trainers.dpo import drawn, train_dpo
from reasonrl.trainers.fingerprints import of_pairs
from reasonrl.trainers.online_dpo import OnlineDPO, train_online_dpo
from reasonrl.trainers.parts import Parts
from reasonrl.trainers.policy import PolicyRun
from reasonrl.trainers.preferences import PreferenceLoss, Scoring
from reasonrl.trainers.problems import ProblemStream
from reasonrl.trainers.reference import with_cached_reference
from reasonrl.trainers.session import Session
from reasonrl.trainers.trained import Trained


def run_dpo(parts: Parts, config: DPOConfig, after_step: Callable[[int], None]) -> None:
    """DPO on the pairs of files; the reference is the policy as it is now."""
    assert parts.pairs is not None
    model = parts.policy.model
    loss = preference_loss(parts, config)
    session = Session(model, parts.accelerator, config.optimizer, config.steps, cure=_CURE)
    bare = starts_bare(parts)
    state = without_adapters(model, model.state_dict()) if bare else model.state_dict()
    seed, pairs = parts.config.seed, list(parts.pairs)
    needed = drawn(config, config.steps, len(pairs), seed)  # not all, where the steps take only some
    with adapters_off(model) if bare else nullcontext():
        scored, cached = with_cached_reference(
            model, state, [pairs[at] for at in needed], loss.scoring, session, Path(parts.config.runs) / "references"
        )
    for at, pair in zip(needed, scored, strict=True):
        pairs[at] = pair
    known = "taken from an earlier run" if cached else "computed once"
    parts.tracker.console.print(
        f"reference log-probabilities of {len(needed):,} pairs: {known}", highlight=False, soft_wrap=True
    )

    def data(step: int) -> str:
        return of_pairs(pairs[at] for at in drawn(config, step, len(pairs), seed))

    done = parts.checkpoints.begin(config.name, Trained({"policy": session}, data=data))
    with parts.tracker.phase(config.name, config.steps):
        train_dpo(config, pairs, loss, session, parts.tracker, seed=seed, done=done, after_step=after_step)


def run_online_dpo(
    parts: Parts, config: OnlineDPOConfig, problems: ProblemStream, after_step: Callable[[int], None]
) -> None:
    """Online DPO on the task's training problems."""
    model = parts.policy.model
    run = PolicyRun[Any](
        config=config,
        policy=parts.policy,
        reference=None,
        share_prompt=parts.config.model.share_prompt and can_share_prompt(model),
        logits_chunk=parts.config.model.logits_chunk,
        problems=problems,
        engine=parts.engine,
        sync=parts.sync,
        sampling=parts.sampling,
        scorer=parts.scorer,
        max_unjudged=parts.config.verification.max_unjudged,
        session=Session(model, parts.accelerator, config.optimizer, config.updates, cure=_CURE),
        tracker=parts.tracker,
        rollouts=parts.folder / "rollouts",
        seed=parts.config.seed,
        after_step=after_step,
        beat=parts.watch.beat,
    )
    reference = reference_for(parts, config)  # the policy as training begins, before a checkpoint is brought back
    done = parts.checkpoints.begin_run(run)
    with parts.tracker.phase(config.name, config.steps):
        train_online_dpo(OnlineDPO(run, preference_loss(parts, config), reference), done)


def preference_loss(parts: Parts, config: PreferenceConfig) -> PreferenceLoss:
    """The loss of pairs, and how their log-probabilities are computed."""
    model = parts.policy.model
    scoring = Scoring(
        pad_id=parts.policy.pad_id,
        share_prompt=parts.config.model.share_prompt and can_share_prompt(model),
        logits_chunk=parts.config.model.logits_chunk,
        max_tokens=config.micro_batch_tokens,
        device=parts.accelerator.device,
        autocast=parts.accelerator.autocast,
    )
    return PreferenceLoss(config, model, scoring)


def reference_for(parts: Parts, config: OnlineDPOConfig) -> Callable[[], AbstractContextManager[Any]]:
    """Gives the reference: the policy as the step begins, or as training began (a copy, or it without adapters)."""
    model = parts.policy.model
    if config.reference == "step":
        return partial(nullcontext, model)
    if starts_bare(parts):
        return partial(bare_model, model)
    return partial(nullcontext, reference_of(model))


def starts_bare(parts: Parts) -> bool:
    """Is the policy as training begins the model without its adapters? After a warm start these have learnt."""
    return bool(adapted_layers(parts.policy.model)) and parts.config.warm_start is None


@contextmanager
def bare_model(model: Any) -> Iterator[Any]:
    """The model, its adapters switched off meanwhile."""
    with adapters_off(model):
        yield model


_CURE = "lower algorithm.optimizer.learning_rate"
