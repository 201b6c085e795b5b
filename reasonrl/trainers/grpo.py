"""GRPO with outcome or process supervision, after Algorithm 1 of DeepSeekMath (Shao et al. 2024, arXiv 2402.03300).

The other algorithms without a critic (RLOO, REINFORCE++, Dr. GRPO, DAPO, GSPO, CISPO) are the same loop with another
advantage, loss, aggregation or way to sample; `config.critic_free` says which is which.

Where it departs from the paper: the KL term, if any, may stand in the reward instead of the loss; groups whose
rewards agree are dropped before any forward, since their gradient is exactly zero. With one update per step π_old is
π_θ and is not computed again; otherwise it is taken from the sampler if that is the trained model itself, and computed
before the first update if not. Then, too, each token is weighted for having been sampled from another policy than
π_old (`algorithms.importance`).
"""

from functools import partial

from torch import Tensor

from reasonrl.batch import Batch
from reasonrl.config import CriticFreeConfig
from reasonrl.trainers.experience import sample_with_advantages
from reasonrl.trainers.finish import finish_step
from reasonrl.trainers.metrics import Clock, TokenStats
from reasonrl.trainers.objective import Objective, objective_of
from reasonrl.trainers.policy import PolicyRun, forward, gather_checked, with_old_logprobs
from reasonrl.trainers.updates import minibatches, update_all


def train_grpo(run: PolicyRun[CriticFreeConfig], done: int = 0) -> None:
    """Algorithm 1, lines 4 to 11, with one outer iteration: the reference model stays as it is.

    Args:
        run: the run.
        done: its steps that are taken already.

    Raises:
        ReasonRLError: too many responses could not be judged, or too many updates in a row were not finite.
    """
    config = run.config
    objective = objective_of(config, reference=run.reference is not None, corrects_sampler=run.corrects_sampler)
    for step in range(done + 1, config.steps + 1):
        clock, stats = Clock(), objective.stats
        samples = sample_with_advantages(run, step, clock)  # lines 5, 7, 8, 9: questions, outputs, rewards, advantages
        everyone = gather_checked(run, samples)
        samples = with_old_logprobs(run, samples, on_policy=config.on_policy)  # the π_old of line 11
        clock.lap("advantages")
        cuts = minibatches(config, everyone, f"{run.seed}/{step}")  # line 10: for GRPO iteration = 1, …, μ
        updates = update_all(run, samples, cuts, partial(loss, run, objective, stats), stats)  # line 11
        clock.lap("update")
        run.sync(step)  # line 6 of the next step: π_old ← π_θ
        clock.lap("sync")
        finish_step(run, step, everyone, updates.metrics(run.session), stats, clock)


def loss(run: PolicyRun[CriticFreeConfig], objective: Objective, stats: TokenStats, batch: Batch) -> Tensor:
    """The objective of each token of a micro-batch (eq. 3 of the paper, to be minimised), KL term included, (B, T)."""
    scores = forward(run, run.policy.model, batch, **objective.forward)
    per_token, measured = objective(batch, scores, beta=run.beta.value)
    stats.add(batch.response_mask, **measured)
    return per_token
