"""The folder of a run: a new one, or that of a run that goes on, taken back to its checkpoint."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path

from accelerate import Accelerator
from accelerate.utils import broadcast_object_list
from rich.console import Console

from reasonrl import config as run_config
from reasonrl import store
from reasonrl.checkpoint.folder import Place, places, prune
from reasonrl.checkpoint.lock import locked
from reasonrl.checkpoint.rollback import roll_back
from reasonrl.config import RunConfig
from reasonrl.errors import ReasonRLError
from reasonrl.trainers.checkpoints import newest, phases
from reasonrl.trainers.fingerprints import check_config


def checkpoint_of(folder: Path, config: RunConfig, console: Console) -> Place | None:
    """The checkpoint that a run goes on from; None if it must begin anew.

    Raises:
        ReasonRLError: there is no such run, all its checkpoints are damaged, or they are of another config.
    """
    tell = partial(console.print, highlight=False, markup=False, soft_wrap=True)
    if not folder.is_dir():
        raise ReasonRLError(f"--resume: there is no run {folder}")
    place = newest(folder, config, tell)
    if place is None:
        check_config(run_config.load(str(folder / "config.yaml")).model_dump(mode="json"), config)
        tell(f"resume    {folder} has no checkpoint yet: it begins anew")
        return None
    check_config(place.state["config"], config)
    tell(f"resume    {folder} from step {place.step} of {place.phase}")
    return place


def hold_folder(
    config: RunConfig, accelerator: Accelerator, stack: ExitStack, resume: Path | None, resumed: Place | None
) -> Path:
    """The run's folder, which no other process may write to until `stack` is closed.

    Args:
        config, accelerator: of the run.
        stack: lets go of the folder.
        resume: the folder of a run that goes on; None for a new one.
        resumed: the checkpoint it goes on from; what was written since is removed.

    Raises:
        ReasonRLError: another process is at this run.
    """
    if resume is None:
        folder = make_folder(config, accelerator)
    else:
        folder = resume
        accelerator.wait_for_everyone()  # all have read the checkpoint that was there
    if accelerator.is_main_process:
        stack.enter_context(locked(folder))
        if resume is not None:
            take_back(folder, config, resumed)
    return folder


def make_folder(config: RunConfig, accelerator: Accelerator) -> Path:
    """A new folder runs/NAME, or runs/NAME-2, … where earlier runs lie, with the resolved config in it."""
    name = [""]
    if accelerator.is_main_process:
        folder = store.new_folder(Path(config.runs), config.name)
        run_config.save(config, folder / "config.yaml")
        name = [str(folder)]
    if accelerator.num_processes > 1:
        broadcast_object_list(name)
    return Path(name[0])


def take_back(folder: Path, config: RunConfig, place: Place | None) -> None:
    """Remove what a run has written since a checkpoint, and keep what may have changed of its config."""
    order = list(phases(config))
    roll_back(folder, order, *((order[0], 0) if place is None else (place.phase, place.step)))
    there = places(folder / "checkpoints", order)
    prune(folder / "checkpoints", order, [] if place is None else there[: there.index(place) + 1])
    run_config.save(config, folder / "config.yaml")
