"""Groups and their advantages → a typed Batch of tensors; minibatches for updates, micro-batches for memory."""

import random
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

# what a row has of each of its response tokens, and a batch as (B, T)
PER_TOKEN = ("sampler_logprobs", "old_logprobs", "ref_logprobs", "values", "returns", "advantages")


@dataclass(frozen=True)
class Row:
    """One response to train on.

    Attributes:
        prompt_ids, response_ids: token ids.
        sampler_logprobs: μ, log-probabilities of the response ids as their sampler computed them, one per id.
        old_logprobs: π_old, what the ratio is taken against: μ, or the trainer's own where it corrects for the sampler.
        ref_logprobs: the same under the reference model; empty where there is none.
        values, returns: of a critic: V of each response token as it was when sampled, and what it is to become.
        advantages: one per response token; empty before they are known.
        group: rows of one group have the same prompt and the same number here.
    """

    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    sampler_logprobs: tuple[float, ...] = ()
    old_logprobs: tuple[float, ...] = ()
    ref_logprobs: tuple[float, ...] = ()
    values: tuple[float, ...] = ()
    returns: tuple[float, ...] = ()
    advantages: tuple[float, ...] = ()
    group: int = 0

    def __post_init__(self) -> None:
        if not self.prompt_ids or not self.response_ids:
            raise ValueError("a row needs at least one prompt token and one response token")
        for name in PER_TOKEN:
            values = getattr(self, name)
            if values and len(values) != len(self.response_ids):
                raise ValueError(f"{len(values)} {name} for {len(self.response_ids)} response tokens")


@dataclass(frozen=True)
class Batch:
    """B responses to Q distinct prompts, padded. Prompts are stored once, however many responses they have.

    Attributes:
        prompt_ids, prompt_mask: (Q, S), padded on the left.
        prompt_index: (B,), the prompt of each response.
        response_ids, response_mask: (B, T), padded on the right.
        sampler_logprobs, old_logprobs, ref_logprobs, values, returns, advantages: (B, T), NaN behind the mask and where
            there are none.
    """

    prompt_ids: Tensor
    prompt_mask: Tensor
    prompt_index: Tensor
    response_ids: Tensor
    response_mask: Tensor
    sampler_logprobs: Tensor
    old_logprobs: Tensor
    ref_logprobs: Tensor
    values: Tensor
    returns: Tensor
    advantages: Tensor

    def to(self, device: torch.device) -> "Batch":
        """The same batch on another device."""
        return Batch(**{name: value.to(device) for name, value in vars(self).items()})


def collate(rows: Sequence[Row], pad_id: int) -> Batch:
    """Pad rows into a batch. `pad_id` fills what the masks hide.

    Raises:
        ValueError: there are no rows, or two of one group have different prompts.
    """
    if not rows:
        raise ValueError("a batch needs at least one row")
    groups: dict[int, int] = {}
    prompts: list[tuple[int, ...]] = []
    for row in rows:
        if row.group not in groups:
            groups[row.group] = len(prompts)
            prompts.append(row.prompt_ids)
        elif prompts[groups[row.group]] != row.prompt_ids:
            raise ValueError(f"two rows of group {row.group} have different prompts")
    prompt_ids = _pad(prompts, pad_id, left=True, dtype=torch.long)
    response_ids = _pad([row.response_ids for row in rows], pad_id, left=False, dtype=torch.long)
    width = response_ids.shape[1]
    lengths = torch.tensor([len(row.response_ids) for row in rows])
    prompt_lengths = torch.tensor([len(ids) for ids in prompts])
    return Batch(
        prompt_ids=prompt_ids,
        prompt_mask=(torch.arange(prompt_ids.shape[1]).flip(0)[None] < prompt_lengths[:, None]).long(),
        prompt_index=torch.tensor([groups[row.group] for row in rows]),
        response_ids=response_ids,
        response_mask=(torch.arange(width)[None] < lengths[:, None]).long(),
        **{
            name: _pad([getattr(row, name) for row in rows], float("nan"), False, torch.float32, width)
            for name in PER_TOKEN
        },
    )


def _pad(
    rows: Sequence[Sequence[float]], fill: float, left: bool, dtype: torch.dtype, width: int | None = None
) -> Tensor:
    width = max(map(len, rows)) if width is None else width
    padded = torch.full((len(rows), width), fill, dtype=dtype)
    for index, row in enumerate(rows):
        if row:
            where = slice(width - len(row), width) if left else slice(0, len(row))
            padded[index, where] = torch.tensor(row, dtype=dtype)
    return padded


def micro_batches(
    rows: Iterable[Row], max_tokens: int, *, share_prompt: bool = True, whole_groups: bool = False
) -> list[list[Row]]:
    """Cut rows into micro-batches of at most `max_tokens` tokens, padding included.

    A prompt counts once for all its responses in the micro-batch, or without `share_prompt` once for each.

    Groups are kept together, so that a prompt is computed once, and sorted by their longest response, so that little
    padding is computed; a group too large by itself is cut after sorting by length, unless `whole_groups` are asked
    for. A single row is never cut: one that is larger than `max_tokens` is a micro-batch of its own.
    """
    groups: dict[int, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    most = sys.maxsize if whole_groups else max_tokens
    pieces = [piece for group in groups.values() for piece in _cut(group, most, share_prompt)]
    pieces.sort(key=lambda piece: (len(piece[-1].response_ids), len(piece[0].prompt_ids)), reverse=True)
    batches: list[list[Row]] = []
    for piece in pieces:
        if batches and _tokens([*batches[-1], *piece], share_prompt) <= max_tokens:
            batches[-1].extend(piece)
        else:
            batches.append(list(piece))
    return batches


def _cut(group: list[Row], max_tokens: int, share_prompt: bool) -> list[list[Row]]:
    pieces: list[list[Row]] = []
    for row in sorted(group, key=lambda row: len(row.response_ids)):
        if pieces and _tokens([*pieces[-1], row], share_prompt) <= max_tokens:
            pieces[-1].append(row)
        else:
            pieces.append([row])
    return pieces


def pack(rows: Iterable[Row], max_tokens: int) -> list[list[Row]]:
    """Cut rows into micro-batches of at most `max_tokens` tokens, laid end to end without padding.

    By first-fit decreasing, which needs at most 11/9 of the fewest there could be, and one more (Johnson 1973). A
    single row is never cut: one that is larger than `max_tokens` is a micro-batch of its own.
    """
    batches: list[list[Row]] = []
    free: list[int] = []
    for row in sorted(rows, key=_length, reverse=True):
        at = next((at for at, tokens in enumerate(free) if tokens >= _length(row)), len(batches))
        if at == len(batches):
            batches.append([])
            free.append(max_tokens)
        batches[at].append(row)
        free[at] -= _length(row)
    return batches


def _length(row: Row) -> int:
    return len(row.prompt_ids) + len(row.response_ids)


def _tokens(rows: Sequence[Row], share_prompt: bool) -> int:
    """Tokens computed for these rows as one batch, padding included."""
    prompts = len({row.group for row in rows}) if share_prompt else len(rows)
    return prompts * max(len(r.prompt_ids) for r in rows) + len(rows) * max(len(r.response_ids) for r in rows)


def minibatch_groups(groups: Iterable[int], minibatches: int, seed: str) -> list[frozenset[int]]:
    """Shuffle the groups of a step and cut them into minibatches of equal size, give or take one.

    They are those of the global batch, so every process draws the same cut whatever groups it holds.

    Raises:
        ValueError: fewer than one minibatch is asked for.
    """
    if minibatches < 1:
        raise ValueError(f"{minibatches} minibatches; a step has at least one")
    order = sorted(groups)
    random.Random(seed).shuffle(order)
    ends = [len(order) * part // minibatches for part in range(minibatches + 1)]
    return [frozenset(order[start:end]) for start, end in pairwise(ends)]
