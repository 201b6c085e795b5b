"""How much a run samples, how it is cut into updates, and how often it sees its data: in words."""

from collections.abc import Iterator

from reasonrl.config import (
    AdvantageConfig,
    DPOConfig,
    OnlineDPOConfig,
    RolloutConfig,
    RunConfig,
    SFTConfig,
    UpdatesConfig,
)
from reasonrl.explain.text import count
from reasonrl.preflight.records import Data
from reasonrl.preflight.shapes import Cut, Sizes, processes, sft_cut, update_cut


def evaluations(config: RunConfig) -> int:
    """How often the run evaluates: before, after, and between."""
    every = config.evaluation.every
    return 2 + ((config.algorithm.steps - 1) // every if every else 0)


def evaluated(config: RunConfig, data: Data) -> int:
    """Responses of one evaluation."""
    rows = data.held_out if config.evaluation.rows is None else min(config.evaluation.rows, data.held_out)
    return rows * (1 + config.evaluation.samples)


def lines(config: RunConfig, data: Data, sizes: Sizes, *, share_prompt: bool) -> list[str]:
    """The batch arithmetic of a run, a line for each thing that is computed."""
    algorithm = config.algorithm
    found = []
    if config.warm_start is not None:
        found += [f"warm start: {line}" for line in _supervised(config.warm_start, sizes, data)]
    if isinstance(algorithm, SFTConfig):
        found += _supervised(algorithm, sizes, data)
    elif isinstance(algorithm, DPOConfig):
        found += _pairs(algorithm, data)
        found.append(_micro_batches(update_cut(config, sizes, share_prompt=share_prompt), algorithm.micro_batch_tokens))
    else:
        assert isinstance(algorithm, RolloutConfig)  # a scorer's run is not looked at
        found += _sampled(algorithm, data, sizes)
        found.append(_micro_batches(update_cut(config, sizes, share_prompt=share_prompt), algorithm.micro_batch_tokens))
    responses = evaluated(config, data)
    found.append(
        f"{count(evaluations(config), 'evaluation')} of {count(responses, 'response')}: a greedy one and "
        f"{config.evaluation.samples} sampled for each of {responses // (1 + config.evaluation.samples):,} problems"
    )
    return found


def _sampled(config: RolloutConfig, data: Data, sizes: Sizes) -> Iterator[str]:
    world, per_step = processes(), config.responses_per_step
    each = f", {count(-(-config.problems_per_step // world), 'problem')} at most on each of {world} processes"
    yield (
        f"a step: {count(config.problems_per_step, 'problem')} × {count(config.group_size, 'response')} = "
        f"{count(per_step, 'response')}{each if world > 1 else ''}"
    )
    if isinstance(config, UpdatesConfig | OnlineDPOConfig):
        of = config.problems_per_step // config.minibatches
        pairs = (
            f", at most {count(of * config.pairs_per_problem, 'pair')}" if isinstance(config, OnlineDPOConfig) else ""
        )
        yield (
            f"its updates: {count(config.epochs, 'epoch')} × {count(config.minibatches, 'minibatch', 'minibatches')} = "
            f"{config.epochs * config.minibatches}, each of {count(of, 'problem')}: "
            f"{count(of * config.group_size, 'response')}{pairs}"
        )
    else:
        yield "its updates: 1, a natural-gradient step"
    total, prompts = config.steps * per_step, config.steps * config.problems_per_step
    yield (
        f"the run: {count(config.steps, 'step')} × {per_step:,} = {count(total, 'response')}, at most "
        f"{total:,} × {sizes.response} = {total * sizes.response:,} response tokens"
    )
    if isinstance(config, AdvantageConfig) and config.refills:
        yield f"with refills up to {1 + config.refills} times as many"
    if data.training is None:
        yield f"{count(prompts, 'problem')} drawn, from data that streams"
    elif data.training:
        yield f"{prompts:,} drawn of {data.training:,} problems: {prompts / data.training:.3g} epochs over them"


def _supervised(config: SFTConfig, sizes: Sizes, data: Data) -> Iterator[str]:
    total = config.steps * config.batch_size
    yield f"{count(config.steps, 'step')} × {config.batch_size:,} = {count(total, 'demonstration')}"
    if data.demonstrations:
        yield f"{total:,} drawn of {data.demonstrations:,}: {total / data.demonstrations:.3g} epochs over them"
    yield _micro_batches(sft_cut(config, sizes), config.micro_batch_tokens)


def _pairs(config: DPOConfig, data: Data) -> Iterator[str]:
    total = config.steps * config.batch_size
    yield f"{count(config.steps, 'step')} × {config.batch_size:,} = {count(total, 'pair')}"
    if data.pairs:
        yield f"{total:,} drawn of {data.pairs:,}: {total / data.pairs:.3g} epochs over them"


def _micro_batches(cut: Cut, most: int) -> str:
    batches = count(len(cut.batches), "micro-batch", "micro-batches")
    return (
        f"an update of {count(cut.rows, 'response')} a process, all as long as they may be: {batches} of at most "
        f"{most:,} tokens; the largest has {count(len(cut.batches[0]), 'response')}"
    )
