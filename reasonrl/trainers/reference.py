"""The reference's log-probabilities of pairs: computed once, before training, and kept for the next run."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from reasonrl.trainers.preferences import Scoring, TokenPair, pair_batches, pair_logprobs
from reasonrl.trainers.session import Session, gather


@torch.no_grad()
def with_reference(model: Any, pairs: Sequence[TokenPair], scoring: Scoring, session: Session) -> list[TokenPair]:
    """The pairs with their log-probabilities under a model; each process computes a share, all call this together."""
    rank, world = session.accelerator.process_index, session.accelerator.num_processes
    mine = range(len(pairs))[rank::world]
    local = [pairs[at] for at in mine]
    found: list[tuple[int, float, float]] = []
    for places in pair_batches(local, scoring):
        sums = pair_logprobs(model, local, places, scoring).tolist()
        found += [(mine[at], *both) for at, both in zip(places, sums, strict=True)]
    known = {at: (chosen, rejected) for at, chosen, rejected in gather(session.accelerator, found)}
    return [replace(pair, ref_chosen=known[at][0], ref_rejected=known[at][1]) for at, pair in enumerate(pairs)]


def with_cached_reference(
    model: Any,
    state: Mapping[str, Tensor],
    pairs: Sequence[TokenPair],
    scoring: Scoring,
    session: Session,
    folder: Path,
) -> tuple[list[TokenPair], bool]:
    """The same from a file of an earlier run, where one with the same fingerprint is in the folder; and whether it was.

    Args:
        model, state: the reference, and all weights that it computes with.
        pairs, scoring, session: as of `with_reference`.
        folder: of such files; a new one is written.
    """
    file = folder / f"reference-{fingerprint(model, state, pairs, scoring)}.safetensors"
    sums = read(file, len(pairs))
    # Another process may see a file that this one does not see yet: all must compute, or none.
    if session.sum(sums is None) == 0 and sums is not None:
        return [replace(p, ref_chosen=c, ref_rejected=r) for p, (c, r) in zip(pairs, sums.tolist(), strict=True)], True
    found = with_reference(model, pairs, scoring, session)
    if session.accelerator.is_main_process:
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_name(f".{file.name}.part")
        save_file({"sums": torch.tensor([(p.ref_chosen, p.ref_rejected) for p in found])}, unfinished)
        os.replace(unfinished, file)
    session.accelerator.wait_for_everyone()
    return found, False


def read(file: Path, pairs: int) -> Tensor | None:
    """The (N, 2) sums of a file; None where there is none that can be read, or it is not of so many pairs."""
    try:
        sums = load_file(file)["sums"]
    except (OSError, SafetensorError, KeyError):
        return None
    return sums if sums.shape == (pairs, 2) else None


def fingerprint(model: Any, state: Mapping[str, Tensor], pairs: Sequence[TokenPair], scoring: Scoring) -> str:
    """What the log-probabilities depend on: all weights, how they compute, and the token ids of all pairs.

    The ids stand for the data, the tokenizer and its chat template: whatever changes one of these changes them.
    """
    digest = hashlib.blake2b(digest_size=16)
    attention = getattr(model.config, "_attn_implementation", "")
    with scoring.autocast():
        about = (type(model).__name__, attention, str(torch.is_autocast_enabled(scoring.device.type)))
    digest.update(repr(about).encode())
    for name, tensor in sorted(state.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    for pair in pairs:
        digest.update(repr((pair.prompt_ids, pair.chosen_ids, pair.rejected_ids)).encode())
    return digest.hexdigest()
