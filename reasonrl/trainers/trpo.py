"""TRPO, after Algorithm 1 and appendix C of Schulman et al. 2015 (arXiv 1502.05477).

Each step solves, to second order, for the parameters that raise the surrogate E[ρA] most with a mean KL(π_old ‖ π_θ) of
at most δ, and takes of that what a line search finds to hold. Where it departs from the paper: advantages are those of
a group of responses, without a critic, and the KL is exact over the vocabulary, averaged over response tokens.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor
from torch.distributed.tensor import DTensor

from reasonrl.algorithms.masking import masked_sum
from reasonrl.algorithms.trust_region import LineSearch, line_search, natural_step
from reasonrl.batch import Batch, Row, collate, micro_batches
from reasonrl.config import TRPOConfig
from reasonrl.errors import ReasonRLError
from reasonrl.models.load import reference_of
from reasonrl.trainers.experience import sample_with_advantages
from reasonrl.trainers.finish import finish_step
from reasonrl.trainers.metrics import Clock, TokenStats
from reasonrl.trainers.objective import Objective
from reasonrl.trainers.policy import PolicyRun, forward, gather_checked, logprobs_of
from reasonrl.trainers.sample import Sample
from reasonrl.trainers.updates import share

Run = PolicyRun[TRPOConfig]


def train_trpo(run: Run, done: int = 0) -> None:
    """Each step: sample with π_old, estimate advantages, and take the largest step within the trust region.

    Args:
        run: the run.
        done: its steps that are taken already.

    Raises:
        ReasonRLError: the model cannot be trained so, or too many responses could not be judged.
    """
    check(run.policy.model, run.session.accelerator)
    objective = surrogate_of(run)
    for step in range(done + 1, run.config.steps + 1):
        clock, stats = Clock(), objective.stats
        samples = sample_with_advantages(run, step, clock)
        everyone = gather_checked(run, samples)
        samples = with_exact_old_logprobs(run, samples)
        clock.lap("advantages")
        updated = improve(run, objective, samples, fisher_groups(run, everyone, step), stats)
        clock.lap("update")
        run.sync(step)  # π_old ← π_θ
        clock.lap("sync")
        finish_step(run, step, everyone, updated, stats, clock)


def check(model: Any, accelerator: Accelerator) -> None:
    """Can the model be differentiated twice, and a step be added to its weights?

    Raises:
        ReasonRLError: it cannot, and why.
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    attention = getattr(model.config, "_attn_implementation", "eager")
    quantised = getattr(model, "is_quantized", False)
    floating = [p for p in model.parameters() if p.is_floating_point()]  # frozen ones under LoRA, too: all compute
    rounded = accelerator.mixed_precision != "no" or any(p.dtype != torch.float32 for p in floating)
    fault = None
    if any(isinstance(p, DTensor) for p in trained):
        fault = "its parameters are sharded, and a Fisher-vector product needs them whole; train it unsharded"
    elif quantised:
        fault = "its weights are quantised, which rounds more than a step changes; load it unquantised"
    elif rounded:
        fault = "it computes in bfloat16, which rounds more than a step changes; set model.dtype=float32, precision=no"
    elif getattr(model, "is_gradient_checkpointing", False):
        fault = "TRPO keeps all activations for its second derivatives; set model.gradient_checkpointing=false"
    elif attention != "eager":
        fault = f"its attention, {attention}, has no second derivative; set model.attention=eager"
    if fault is not None:
        raise ReasonRLError(f"TRPO cannot train this model: {fault}, or choose another algorithm")


def surrogate_of(run: Run) -> Objective:
    """What a step raises: −w·ρA, to be minimised, and the KL toward the reference where that is in the loss."""
    return Objective(
        loss="importance_weighted",
        importance=run.config.importance,
        corrects_sampler=run.corrects_sampler,
        kl=run.config.kl if run.reference is not None else None,
        entropy=run.config.entropy,
    )


def with_exact_old_logprobs(run: Run, samples: Sequence[Sample]) -> list[Sample]:
    """The samples with π_old as the trainer computes it: the surrogate's rise is measured from ratios of exactly 1."""
    olds = logprobs_of(run, run.policy.model, [s.row for s in samples])
    return [replace(s, row=replace(s.row, old_logprobs=old)) for s, old in zip(samples, olds, strict=True)]


def fisher_groups(run: Run, everyone: Sequence[Sample], step: int) -> frozenset[int]:
    """The groups that Fisher-vector products are computed on, drawn by seed and step; the same on all processes."""
    groups = sorted({s.row.group for s in everyone if s.counted})
    number = min(len(groups), max(1, round(run.config.fisher_share * len(groups))))
    return frozenset(random.Random(f"{run.seed}/{step}/fisher").sample(groups, number))


def improve(
    run: Run, objective: Objective, samples: Sequence[Sample], fisher: frozenset[int], stats: TokenStats
) -> dict[str, float]:
    """Take the step, or leave the parameters untouched; what the metrics say of it.

    Args:
        run: the run.
        objective: the surrogate.
        samples: of this process.
        fisher: the groups that Fisher-vector products are computed on.
        stats: of the tokens trained on, as they were before the step.
    """
    config, parameters = run.config, run.session.parameters
    old = reference_of(run.policy.model)
    learning = Part(run, [s for s in samples if s.learns], [s for s in samples if s.counted])
    counted = [s for s in samples if s.counted]
    everything, some = Part(run, counted, counted), Part.of_groups(run, counted, fisher)

    def loss(batch: Batch) -> Tensor:
        scores = forward(run, run.policy.model, batch, **objective.forward)
        per_token, measured = objective(batch, scores, beta=run.beta.value)
        if torch.is_grad_enabled():
            stats.add(batch.response_mask, **measured)
        return per_token

    before, gradient = loss_and_gradient(run, learning, loss)
    norm = float(gradient.norm())
    run.session.count(math.isfinite(before) and math.isfinite(norm), before, norm)
    start = torch.cat([p.detach().flatten() for p in parameters])
    step = natural_step(
        -gradient,
        lambda vector: fisher_product(run, some, vector),
        max_kl=config.max_kl,
        damping=config.damping,
        iterations=config.cg_iterations,
        tolerance=config.cg_tolerance,
    )
    found = LineSearch(accepted=False, fraction=0.0, surrogate=0.0, kl=0.0, tried=0)
    if step is not None:
        old_hidden = hidden_of(run, everything)

        def evaluate(fraction: float) -> tuple[float, float]:
            put(parameters, start + fraction * step)
            kl = mean_kl(run, everything, old, old_hidden, enough=config.max_kl)
            # beyond the trust region it does not matter what is gained
            return (before - loss_of(run, learning, loss) if kl <= config.max_kl else 0.0), kl

        found = line_search(evaluate, max_kl=config.max_kl, backtracks=config.backtracks, shrink=config.shrink)
        put(parameters, start + found.fraction * step if found.accepted else start)
    return {
        "policy_loss": before,
        "grad_norm": norm,
        "updates": float(found.accepted),
        "skipped_updates": float(run.session.skipped),
        "surrogate_gain": found.surrogate,
        "trust_kl": found.kl,
        "step_fraction": found.fraction,
        "line_search_tried": float(found.tried),
    }


class Part:
    """Responses of this process that something is averaged over, cut into micro-batches.

    Args:
        run: the run.
        samples: those that are computed.
        counted: those that the average is over; the others of them add 0.
    """

    def __init__(self, run: Run, samples: Sequence[Sample], counted: Sequence[Sample]) -> None:
        rows = [s.row for s in samples]
        self.batches: list[list[Row]] = micro_batches(
            rows, run.config.micro_batch_tokens, share_prompt=run.share_prompt
        )
        self.sequences = run.session.sum(len(counted))
        self.tokens = run.session.sum(sum(len(s.row.response_ids) for s in counted))

    @classmethod
    def of_groups(cls, run: Run, counted: Sequence[Sample], groups: frozenset[int]) -> "Part":
        """The counted responses of some groups."""
        chosen = [s for s in counted if s.row.group in groups]
        return cls(run, chosen, chosen)


def losses(run: Run, part: Part, loss: Callable[[Batch], Tensor]) -> Iterator[Tensor]:
    """Shares of the loss, micro-batch by micro-batch."""
    return (share(run, rows, loss, part.sequences, part.tokens) for rows in part.batches)


def loss_and_gradient(run: Run, part: Part, loss: Callable[[Batch], Tensor]) -> tuple[float, Tensor]:
    """The loss over all processes, and its gradient as one vector."""
    total, parameters = 0.0, run.session.parameters
    gradient = parameters[0].new_zeros(sum(p.numel() for p in parameters))
    for value in losses(run, part, loss):
        gradient += flat_gradient(value, parameters)
        total += value.item()
    return run.session.sum(total), run.session.sum_tensor(gradient)


@torch.no_grad()
def loss_of(run: Run, part: Part, loss: Callable[[Batch], Tensor]) -> float:
    """The loss over all processes."""
    return run.session.sum(sum(value.item() for value in losses(run, part, loss)))


@torch.no_grad()
def hidden_of(run: Run, part: Part) -> list[Tensor]:
    """The hidden states (N, H) of each micro-batch as the policy is now."""
    return [forward(run, run.policy.model, batch).hidden for batch in collated(run, part)]


@torch.no_grad()
def mean_kl(run: Run, part: Part, old: Any, old_hidden: Sequence[Tensor], *, enough: float) -> float:
    """The mean KL(π_old ‖ π_θ) of a part's tokens over all processes, in nats; where that is beyond `enough`, a number
    that is so, too: no share is negative, and the rest is not computed."""
    total = 0.0
    for kl in kl_shares(run, part, old, old_hidden):
        total += kl.item()
        if total > enough:
            break
    return run.session.sum(total)


def fisher_product(run: Run, part: Part, vector: Tensor) -> Tensor:
    """The Fisher information matrix times a vector: the gradient of the KL from π_θ itself, differentiated along it."""
    parameters = run.session.parameters
    product = torch.zeros_like(vector)
    for kl in kl_shares(run, part, run.policy.model, [None] * len(part.batches)):
        first = torch.autograd.grad(kl, parameters, create_graph=True, materialize_grads=True)
        along = torch.cat([g.flatten() for g in first]).dot(vector)
        product += flat_gradient(along, parameters)
    return run.session.sum_tensor(product)


def kl_shares(run: Run, part: Part, old: Any, old_hidden: Sequence[Tensor | None]) -> Iterator[Tensor]:
    """The micro-batches' shares of the mean KL(π_old ‖ π_θ)."""
    for batch, hidden in zip(collated(run, part), old_hidden, strict=True):
        divergence = forward(run, run.policy.model, batch, old_model=old, old_hidden=hidden).divergence
        assert divergence is not None
        yield masked_sum(divergence, batch.response_mask) / max(1.0, part.tokens)


def collated(run: Run, part: Part) -> Iterator[Batch]:
    """The micro-batches as tensors, on the device."""
    return (collate(rows, run.policy.pad_id).to(run.session.accelerator.device) for rows in part.batches)


def flat_gradient(value: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """The gradient of a scalar as one vector; 0 where it does not depend on a parameter."""
    return torch.cat([g.flatten() for g in torch.autograd.grad(value, parameters, materialize_grads=True)])


@torch.no_grad()
def put(parameters: Sequence[Tensor], values: Tensor) -> None:
    """Set the parameters from one vector."""
    for parameter, part in zip(parameters, torch.split(values, [p.numel() for p in parameters]), strict=True):
        parameter.copy_(part.view_as(parameter))
