"""A step's updates: K epochs of minibatches, until the policy has moved as far as it may."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from reasonrl.algorithms.aggregation import aggregate
from reasonrl.algorithms.kl_control import beyond_target
from reasonrl.batch import Batch, Row, collate, micro_batches, minibatch_groups
from reasonrl.config import UpdatesConfig
from reasonrl.trainers.metrics import TokenStats, update_metrics
from reasonrl.trainers.policy import Run
from reasonrl.trainers.sample import Sample
from reasonrl.trainers.session import Session, Update

PerToken = Callable[[Batch], Tensor]


@dataclass
class Updates:
    """What the updates of a step did.

    Attributes:
        taken: in order; None stands for one that had nothing to learn from.
        stopped: how many were skipped for the policy's having moved too far.
    """

    taken: list[Update | None] = field(default_factory=list)
    stopped: int = 0

    def metrics(self, session: Session) -> dict[str, float]:
        """What the metrics say of them."""
        return update_metrics(self.taken, session) | {"stopped_updates": float(self.stopped)}


def minibatches(config: UpdatesConfig, everyone: Sequence[Sample], seed: str) -> list[frozenset[int]]:
    """The groups of each update of a step, epoch after epoch; of all processes, so that all draw the same."""
    groups = {s.row.group for s in everyone if not s.left_out}
    return [
        groups_of_update
        for epoch in range(config.epochs)
        for groups_of_update in minibatch_groups(groups, config.minibatches, f"{seed}/{epoch}")
    ]


def update_all(
    run: Run, samples: Sequence[Sample], cuts: Sequence[frozenset[int]], per_token: PerToken, stats: TokenStats
) -> Updates:
    """One optimiser step per minibatch, until the mean KL(π_old ‖ π_θ) of one passes 1.5 × `target_kl`.

    That minibatch and those after it are skipped: its KL is known with its gradients, which are thrown away.

    Args:
        run: the run.
        samples: of this process.
        cuts: the groups of each minibatch.
        per_token: the loss of a micro-batch's tokens, (B, T); adds what it measures to `stats`.
        stats: of the step.
    """
    found = Updates()
    target = run.config.target_kl

    def wanted() -> bool:
        # Until the first update π_old is π_θ, and what is measured beside it, how far off the sampler is, is no reason
        # to stop.
        if target is None or not any(update is not None and update.applied for update in found.taken):
            return True
        return not beyond_target(stats.mean_since_mark("approx_kl", run.session), target)

    for index, groups in enumerate(cuts):
        stats.mark()
        update = update_once(run, run.session, [s for s in samples if s.row.group in groups], per_token, wanted)
        if update is not None and update.refused:
            found.stopped = len(cuts) - index
            for _ in cuts[index + 1 :]:
                run.session.pass_over()
            break
        found.taken.append(update)
    return found


def update_once(
    run: Run,
    session: Session,
    minibatch: Sequence[Sample],
    per_token: PerToken,
    wanted: Callable[[], bool] = lambda: True,
) -> Update | None:
    """One optimiser step; None where no process has anything to learn from."""
    trained = [s.row for s in minibatch if s.learns]
    batches = micro_batches(trained, run.config.micro_batch_tokens, share_prompt=run.share_prompt)
    if session.sum(len(batches)) == 0:
        session.pass_over()
        return None
    # The denominators are those of the whole minibatch over all processes, the dropped groups included: dropping
    # them changes no gradient.
    counted = [len(s.row.response_ids) for s in minibatch if s.counted]
    sequences, tokens = session.sum(len(counted)), session.sum(sum(counted))
    return session.update((share(run, rows, per_token, sequences, tokens) for rows in batches), wanted)


def share(run: Run, rows: Sequence[Row], per_token: PerToken, sequences: float, tokens: float) -> Tensor:
    """A micro-batch's share of the loss of its minibatch, which has so many sequences and tokens over all processes."""
    run.beat()
    batch = collate(rows, run.policy.pad_id).to(run.session.accelerator.device)
    return aggregate(
        per_token(batch),
        batch.response_mask,
        run.config.aggregation,
        sequences=sequences,
        tokens=tokens,
        max_length=run.sampling.max_tokens,
    )
