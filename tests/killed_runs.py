"""Run by test_killed_runs.py: runs killed with SIGKILL at one moment after the other, each resumed by the next.

Every run is a process of its own, forked from one that has imported everything and computed nothing: a start costs
little. Each child is told when to kill itself; the exit codes go to a JSON file.
"""

import itertools
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

import pandas as _pandas  # type: ignore[import-untyped]  # noqa: F401  (pyarrow does at its first file, in each child)
import pyarrow.parquet as pq
from resumed_runs import HOOKS, config_of, folder_of, noisy_offered
from resumed_scorers import scorer_config_of
from small_runs import silent
from transformers.models.llama import modeling_llama as _llama  # noqa: F401  (as above)

from reasonrl import files
from reasonrl.checkpoint import folder as checkpoint
from reasonrl.config import RunConfig
from reasonrl.models.trainable_scorer import TrainableScorer
from reasonrl.plugins import installed
from reasonrl.rollout.huggingface import HuggingFaceEngine
from reasonrl.tracking import Tracker
from reasonrl.trainers import run, watch
from reasonrl.trainers.session import Session

DIRTY = ["checkpoint={every: 1, keep: 1}", "evaluation.every=3"]
Installs = Callable[[ExitStack], None]


def die(*_: Any, **__: Any) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("alive")


def nth(number: int, act: Callable[..., Any]) -> Callable[..., Any]:
    """Acts as it is called for the n-th time, from 1."""
    calls = itertools.count(1)
    return lambda *given, **named: act(*given, **named) if next(calls) == number else None


def before(owner: Any, name: str, number: int, stack: ExitStack) -> None:
    """Die as something is called for the n-th time."""
    real, count = getattr(owner, name), nth(number, die)

    def called(*given: Any, **named: Any) -> Any:
        count()
        return real(*given, **named)

    stack.enter_context(patch.object(owner, name, called))


def after(owner: Any, name: str, number: int, stack: ExitStack) -> None:
    """Die as it has returned."""
    real, count = getattr(owner, name), nth(number, die)

    def called(*given: Any, **named: Any) -> Any:
        found = real(*given, **named)
        count()
        return found

    stack.enter_context(patch.object(owner, name, called))


def in_sampling(number: int, stack: ExitStack) -> None:
    before(HuggingFaceEngine, "_rollout", number, stack)


def in_verifying(number: int, stack: ExitStack) -> None:
    HOOKS.append(nth(number, die))


def in_a_line(number: int, stack: ExitStack) -> None:
    """With half a line of metrics written."""
    write, count = Tracker._write, itertools.count(1)

    def torn(self: Tracker, line: bytes) -> None:
        dies = next(count) == number
        write(self, line[: len(line) // 2] if dies else line)
        if dies:
            die()

    stack.enter_context(patch.object(Tracker, "_write", torn))


def in_rollouts(number: int, stack: ExitStack) -> None:
    """With half a file of rollouts written."""

    def torn(table: Any, where: Path, **_: Any) -> None:
        where.write_bytes(b"PAR1" * 10)
        die()

    count, real = itertools.count(1), pq.write_table
    stack.enter_context(
        patch.object(pq, "write_table", lambda *a, **k: (torn if next(count) == number else real)(*a, **k))
    )


# An evaluation has 2 × 2 responses, a step of training 8 responses and two updates; the warm start has three steps.
MOMENTS: dict[str, Installs] = {
    "the update of the warm start": partial(before, Session, "sum", 2),
    "the evaluation before": partial(in_sampling, 3),
    "sampling": partial(in_sampling, 4 + 5),
    "verifying": partial(in_verifying, 4 + 3),
    "the update, its gradients computed": partial(after, Session, "_backward", 2),
    "the update, taken": partial(after, Session, "update", 1),
    "writing a line of metrics": partial(in_a_line, 1),
    "the checkpoint, its first file written": partial(after, checkpoint, "save_file", 1),
    "the checkpoint, before it is renamed": partial(before, checkpoint, "_sum", 4),
    "the checkpoint, before the old one is removed": partial(before, checkpoint, "prune", 2),
    "removing the old one": partial(before, files, "remove", 7),
    "writing rollouts": partial(in_rollouts, 1),
    "an evaluation between": partial(in_verifying, 8 + 2),
    "writing the model at the end": partial(after, run, "save_policy", 1),
    "the evaluation after": partial(in_sampling, 2),
}  # fmt: skip
# Of a reward model: a report is one forward pass, and so is an update.
SCORER_MOMENTS: dict[str, Installs] = {
    "the evaluation before": partial(before, TrainableScorer, "logits", 1),
    "the update, taken": partial(after, Session, "update", 2),
    "an evaluation between": partial(before, TrainableScorer, "logits", 3),
    "the checkpoint, its first file written": partial(after, checkpoint, "save_file", 1),
    "writing the model at the end": partial(before, TrainableScorer, "save", 1),
    "the model at the end, before it is renamed": partial(after, TrainableScorer, "save", 1),
    "the evaluation after": partial(before, TrainableScorer, "logits", 1),
}


def child(act: Callable[[], None]) -> int:
    """Do something in a process forked from this one; its exit code, negative for a signal."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
            os._exit(0)
        except BaseException:  # noqa: BLE001  shown by the test
            traceback.print_exc()
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def go(wanted: RunConfig, installs: Installs | None = None) -> None:
    folder = folder_of(wanted)
    with noisy_offered(), ExitStack() as stack:
        if installs is not None:
            installs(stack)
        run.train(wanted, silent(), folder if folder.is_dir() else None)


def hang(wanted: RunConfig) -> None:
    """In a call that neither returns nor lets another thread run."""
    HOOKS.append(nth(3, lambda: pow(9, 9**9)))
    with patch.object(watch, "_GRACE", 0.2), patch.object(watch.Watch.__init__, "__defaults__", (0.2,)):
        go(wanted)


def main(folder: Path) -> None:
    installed()  # once, not in each child
    found: dict[str, int] = {"whole": child(partial(go, config_of(folder, "grpo", "whole", *DIRTY, warm=True)))}
    wanted = config_of(folder, "grpo", "killed", *DIRTY, warm=True)
    for moment, installs in MOMENTS.items():
        found[moment] = child(partial(go, wanted, installs))
    found["the end"] = child(partial(go, wanted))
    rm = {runs: scorer_config_of(folder, "reward_model", runs, "checkpoint.keep=1") for runs in ("whole", "killed")}
    found["rm: whole"] = child(partial(go, rm["whole"]))
    for moment, installs in SCORER_MOMENTS.items():
        found[f"rm: {moment}"] = child(partial(go, rm["killed"], installs))
    found["rm: the end"] = child(partial(go, rm["killed"]))
    found["hang"] = child(partial(hang, config_of(folder, "grpo", "hang", "stall_minutes=0.02")))
    (folder / "codes.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
