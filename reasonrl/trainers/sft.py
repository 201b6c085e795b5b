"""Supervised fine-tuning: cross-entropy on the response tokens of demonstrations."""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from accelerate import Accelerator
from torch import Tensor

from reasonrl.algorithms.aggregation import aggregate
from reasonrl.batch import Row, collate, micro_batches, pack
from reasonrl.config import SFTConfig
from reasonrl.models.forward import check_packing
from reasonrl.models.load import Policy
from reasonrl.models.logprobs import response_logprobs
from reasonrl.tracking import Tracker
from reasonrl.trainers.quotas import Quotas
from reasonrl.trainers.session import Session


def check(algorithms: Iterable[object], model: Any, accelerator: Accelerator) -> None:
    """Can the model be trained on packed demonstrations, if one of a run's algorithms packs them?

    Raises:
        ReasonRLError: it cannot.
    """
    if any(isinstance(one, SFTConfig) and one.packing for one in algorithms):
        with accelerator.autocast():
            check_packing(model)


def train_sft(
    config: SFTConfig,
    demonstrations: Sequence[tuple[Sequence[Row], float]],
    policy: Policy,
    session: Session,
    tracker: Tracker,
    *,
    logits_chunk: int,
    seed: int,
    done: int = 0,
    after_step: Callable[[int], None] = lambda step: None,
) -> None:
    """Minimise −log π(response | prompt), the mean over all response tokens of the step's global batch.

    Args:
        config: steps and batch size.
        demonstrations: prompts and responses to imitate, the same on every process; of each task, with its weight.
        policy, session, tracker: what is trained, how, and where it is logged.
        logits_chunk: see `models.logprobs`.
        seed: of the order of demonstrations.
        done: steps that are taken already.
        after_step: called with the number of each finished step.

    Raises:
        ReasonRLError: too many updates in a row were not finite.
    """
    quotas = Quotas([weight for _, weight in demonstrations], config.batch_size)
    rank, world = session.accelerator.process_index, session.accelerator.num_processes
    for step in range(done + 1, config.steps + 1):
        started = time.monotonic()
        firsts, counts = quotas.before(step), quotas.of_step(step)
        drawn = [
            rows[index]
            for (rows, _), first, count in zip(demonstrations, firsts, counts, strict=True)
            for index in epoch_indices(len(rows), first, count, seed)
        ]
        # Every demonstration is a group of its own: each task counts its rows from 0, and one may be drawn twice.
        batch = [replace(row, group=at) for at, row in enumerate(drawn)]
        update = session.update(losses(config, batch, batch[rank::world], policy, session, logits_chunk))
        tokens = sum(len(row.response_ids) for row in batch)
        seconds = time.monotonic() - started
        tracker.log(
            step,
            {
                "loss": update.loss,
                "grad_norm": update.grad_norm,
                "learning_rate": update.learning_rate,
                "skipped_updates": session.skipped,
                "response_length": tokens / len(batch),
                "tokens_per_second": tokens / seconds,
                "seconds": seconds,
            },
        )
        after_step(step)


def losses(
    config: SFTConfig, batch: Sequence[Row], local: Sequence[Row], policy: Policy, session: Session, logits_chunk: int
) -> Iterator[Tensor]:
    """This process's micro-batches of a global batch, each one's share of the batch's loss."""
    tokens = sum(len(row.response_ids) for row in batch)
    cut = pack if config.packing else micro_batches
    for rows in cut(local, config.micro_batch_tokens):
        tensors = collate(rows, policy.pad_id).to(session.accelerator.device)
        with session.accelerator.autocast():
            # Every demonstration has a prompt of its own: nothing to share.
            scores = response_logprobs(
                policy.model,
                tensors,
                temperature=1.0,
                share_prompt=False,
                packed=config.packing,
                logits_chunk=logits_chunk,
            )
        mask = tensors.response_mask
        yield aggregate(-scores.logprobs, mask, "token_mean", sequences=len(batch), tokens=tokens)


def epoch_indices(items: int, first: int, count: int, seed: int) -> list[int]:
    """The indices of `count` items from the `first` on, where epochs, each shuffled anew, follow one another."""
    chosen: list[int] = []
    while len(chosen) < count:
        epoch, offset = divmod(first + len(chosen), items)
        order = list(range(items))
        random.Random(f"{seed}/{epoch}").shuffle(order)
        chosen += order[offset : offset + count - len(chosen)]
    return chosen
