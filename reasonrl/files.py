"""Files that are whole or not there: written under another name, brought to the disk, then renamed."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reasonrl.errors import ReasonRLError

_UNFINISHED = ".*.part"
_CURE = "make room on the disk, or look at the rights of its folder"


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A name to write to in place of `path`, a file or a folder, which then appears whole or not at all.

    What was written is on the disk when it appears; a folder of that name is replaced. After a fault nothing is left.

    Raises:
        ReasonRLError: it cannot be written: the disk is full, or a limit or a right forbids it.
    """
    unfinished = path.with_name(f".{path.name}.part")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove(unfinished)  # of one that was killed
        try:
            yield unfinished
            _sync_all(unfinished)
            _replace(unfinished, path)
            sync(path.parent)
        finally:
            remove(unfinished)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What the system says while a path is written, as an error in words.

    Raises:
        ReasonRLError: as of `whole`.
    """
    from safetensors import SafetensorError  # it wraps what the system says

    try:
        yield
    except (OSError, SafetensorError) as error:
        raise ReasonRLError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}; {_CURE}") from None


def write_text(path: Path, text: str) -> None:
    """Write a text so that it appears whole or not at all."""
    with whole(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def remove_unfinished(folder: Path) -> None:
    """Remove what a killed process left half written in a folder."""
    for path in folder.glob(_UNFINISHED):
        remove(path)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_all(path: Path) -> None:
    for inside in path.rglob("*") if path.is_dir() else ():
        sync(inside)
    sync(path)


def _replace(unfinished: Path, path: Path) -> None:
    if not path.is_dir():
        os.replace(unfinished, path)
        return
    # A folder cannot take the place of one with something in it.
    former = path.with_name(f".{path.name}.former.part")
    remove(former)
    os.replace(path, former)
    os.replace(unfinished, path)
    remove(former)
