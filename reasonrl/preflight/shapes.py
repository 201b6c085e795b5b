"""The micro-batches that a run's updates are cut into, were every prompt and every response as long as they may be."""

import os
from dataclasses import dataclass

from reasonrl.batch import Row, micro_batches, pack
from reasonrl.config import DPOConfig, OnlineDPOConfig, PolicyConfig, RunConfig, SFTConfig, TRPOConfig, UpdatesConfig


@dataclass(frozen=True)
class Cut:
    """One update of one process.

    Attributes:
        rows: its responses.
        batches: the micro-batches, the largest first.
    """

    rows: int
    batches: tuple[tuple[Row, ...], ...]


@dataclass(frozen=True)
class Sizes:
    """Tokens of the longest sequences.

    Attributes:
        prompt, response: of what is sampled, or of pairs.
        demonstrated_prompt, demonstration: of supervised fine-tuning.
    """

    prompt: int
    response: int
    demonstrated_prompt: int = 1
    demonstration: int = 1


def processes() -> int:
    """How many processes train together, by the environment a launcher gives them."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def sft_cut(config: SFTConfig, sizes: Sizes) -> Cut:
    """An update of supervised fine-tuning: a prompt of its own for each demonstration."""
    count = -(-config.batch_size // processes())
    rows = [_row(sizes.demonstrated_prompt, sizes.demonstration, at) for at in range(count)]
    if config.packing:
        return Cut(len(rows), tuple(map(tuple, pack(rows, config.micro_batch_tokens))))
    return _cut(rows, config.micro_batch_tokens, share_prompt=False)


def update_cut(config: RunConfig, sizes: Sizes, *, share_prompt: bool) -> Cut:
    """An update of the run's algorithm."""
    algorithm = config.algorithm
    if isinstance(algorithm, SFTConfig):
        return sft_cut(algorithm, sizes)
    if isinstance(algorithm, DPOConfig):
        groups, of_group = algorithm.batch_size, 2
    elif isinstance(algorithm, OnlineDPOConfig):
        groups = algorithm.problems_per_step * algorithm.pairs_per_problem // algorithm.minibatches
        of_group = 2
    else:
        assert isinstance(algorithm, PolicyConfig)
        minibatches = algorithm.minibatches if isinstance(algorithm, UpdatesConfig) else 1
        groups, of_group = algorithm.problems_per_step // minibatches, algorithm.group_size
    pairs = isinstance(algorithm, DPOConfig | OnlineDPOConfig)
    groups = -(-groups // processes())
    rows = [_row(sizes.prompt, sizes.response, group) for group in range(groups) for _ in range(of_group)]
    return _cut(rows, algorithm.micro_batch_tokens, share_prompt=share_prompt, whole_groups=pairs)


def has_optimiser(config: RunConfig) -> bool:
    """Does the algorithm keep moments of the gradient? TRPO has none."""
    return not isinstance(config.algorithm, TRPOConfig)


def _row(prompt: int, response: int, group: int) -> Row:
    return Row((0,) * prompt, (0,) * response, group=group)


def _cut(rows: list[Row], most: int, *, share_prompt: bool, whole_groups: bool = False) -> Cut:
    found = micro_batches(rows, most, share_prompt=share_prompt, whole_groups=whole_groups)
    return Cut(len(rows), tuple(map(tuple, sorted(found, key=len, reverse=True))))
