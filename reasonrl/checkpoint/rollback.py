"""A run's files taken back to what they were when a checkpoint was taken."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from reasonrl import files

_STEP = re.compile(r"step-(\d+)\.\w+")


def roll_back(folder: Path, phases: Sequence[str], phase: str, step: int) -> None:
    """Remove what a run has written since a step: lines of metrics.jsonl, rollouts and evaluations.

    Args:
        folder: of the run.
        phases: of the run, in order; the last one writes rollouts and is evaluated.
        phase, step: the last step to keep.
    """
    for where in (folder, folder / "rollouts", folder / "eval", folder / "checkpoints"):
        files.remove_unfinished(where)
    _cut_metrics(folder / "metrics.jsonl", phases, phase, step)
    kept = step if phase == phases[-1] else 0
    for inside in [*folder.glob("rollouts/step-*"), *folder.glob("eval/step-*")]:
        found = _STEP.fullmatch(inside.name)
        if found and int(found[1]) > kept:
            inside.unlink()
    late = ["after"] if phase == phases[-1] else ["after", "before"]
    for name in late:
        for inside in folder.glob(f"eval/{name}.*"):
            inside.unlink()


def _cut_metrics(path: Path, phases: Sequence[str], phase: str, step: int) -> None:
    if not path.exists():
        return
    last, kept = (phases.index(phase), step), []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        try:
            row = json.loads(line)
            at = phases.index(row["phase"]), row["step"]
        except (ValueError, KeyError, TypeError):  # the end of it, torn
            break
        if not line.endswith("\n") or at > last:
            break
        kept.append(line)
    files.write_text(path, "".join(kept))
