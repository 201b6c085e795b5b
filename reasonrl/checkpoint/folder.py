"""A folder of checkpoints: written whole, checked as they are read, the old ones removed."""

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from reasonrl import files
from reasonrl.errors import ReasonRLError

Tensors = Mapping[str, Tensor]
FORMAT = 1
_STATE, _SUMS = "state.json", "checksums.json"
_NAME = re.compile(r"(?P<phase>[a-z0-9_-]+)-(?P<step>\d{6,})")


class Damaged(ReasonRLError):
    """A checkpoint is not what was written."""


@dataclass(frozen=True)
class Place:
    """Where a checkpoint lies, and after which step of which phase it was taken."""

    path: Path
    phase: str
    step: int

    @property
    def state(self) -> dict[str, Any]:
        """What it holds but tensors.

        Raises:
            ReasonRLError: another version wrote it.
        """
        state: dict[str, Any] = json.loads((self.path / _STATE).read_text(encoding="utf-8"))
        if state["format"] != FORMAT:
            raise ReasonRLError(
                f"{self.path}: has format {state['format']}, which this version cannot read; it has {FORMAT}"
            )
        return state

    def tensors(self, name: str) -> dict[str, Tensor]:
        """One of its groups of tensors, on the CPU."""
        with safe_open(self.path / f"{name}.safetensors", framework="pt") as file:
            return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  (no mapping)


def place(folder: Path, phase: str, step: int) -> Place:
    """Where the checkpoint after a step of a phase lies, or is to lie."""
    return Place(folder / f"{phase.replace(' ', '-')}-{step:06d}", phase, step)


def places(folder: Path, phases: Collection[str]) -> list[Place]:
    """The checkpoints in a folder, whole or not, in the order they were taken; the phases in theirs."""
    slugs = {phase.replace(" ", "-"): phase for phase in phases}
    found = []
    for path in folder.iterdir() if folder.is_dir() else ():
        match = _NAME.fullmatch(path.name)
        if match and match["phase"] in slugs:
            found.append(Place(path, slugs[match["phase"]], int(match["step"])))
    order = list(phases)
    return sorted(found, key=lambda one: (order.index(one.phase), one.step))


def write(place: Place, state: Mapping[str, Any], tensors: Mapping[str, Tensors]) -> None:
    """Write a checkpoint: it appears whole, and on the disk, or not at all.

    Args:
        place: where.
        state: what is no tensor, as JSON has it.
        tensors: groups of tensors, by the name of their file.

    Raises:
        ReasonRLError: the disk is full, or may not be written to; nothing of it is left then.
    """
    with files.whole(place.path) as unfinished:
        unfinished.mkdir()
        for name, group in tensors.items():
            contiguous = {key: tensor.detach().contiguous() for key, tensor in group.items()}
            save_file(contiguous, unfinished / f"{name}.safetensors")
        text = json.dumps({"format": FORMAT, **state}, ensure_ascii=False)
        (unfinished / _STATE).write_text(text, encoding="utf-8")
        sums = {path.name: _sum(path) for path in sorted(unfinished.iterdir())}
        (unfinished / _SUMS).write_text(json.dumps(sums, indent=1), encoding="utf-8")


def verify(path: Path) -> None:
    """Is a checkpoint what was written?

    Raises:
        Damaged: a file of it is missing, cut, or has other bytes.
    """
    try:
        sums = json.loads((path / _SUMS).read_text(encoding="utf-8"))
        there = {inside.name for inside in path.iterdir()} - {_SUMS}
        if not isinstance(sums, dict) or _STATE not in sums or set(sums) - there:
            raise Damaged(f"{path}: files are missing")
        for name, expected in sums.items():
            if _sum(path / name) != expected:
                raise Damaged(f"{path / name}: other bytes than were written")
    except (OSError, ValueError) as error:
        raise Damaged(f"{path}: {error}") from None


def prune(folder: Path, phases: Collection[str], keep: Collection[Place]) -> None:
    """Remove all checkpoints but those to keep."""
    for one in places(folder, phases):
        if one not in keep:
            # under another name first: one that is half removed must not look like one
            gone = one.path.with_name(f".{one.path.name}.part")
            one.path.rename(gone)
            files.remove(gone)


def _sum(path: Path) -> list[Any]:
    """Bytes and BLAKE2b of a file."""
    with path.open("rb") as file:
        return [path.stat().st_size, hashlib.file_digest(file, "blake2b").hexdigest()]
