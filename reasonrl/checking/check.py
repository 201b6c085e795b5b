"""The check of a whole task, which may be a mixture: each split of each part, and what splits have in common."""

import time

from reasonrl.checking.judging import Judging
from reasonrl.checking.kinds import KINDS, Tally
from reasonrl.checking.records import CheckReport, Finding
from reasonrl.checking.split import Model, Progress, SplitCheck
from reasonrl.generators import Split
from reasonrl.tasks import Mixture, Task


def check(
    task: Task | Mixture,
    *,
    split: Split | None = None,
    model: Model | None = None,
    rows: int | None = None,
    workers: int = 2,
    deadline: float = 10.0,
    progress: Progress = lambda where, done, total: None,
) -> CheckReport:
    """Check a task as `tasks.read` gives it.

    What it finds is in the report and is no error: verifiers that are missing, data that cannot be had, faulty rows.
    Verifiers judge in worker processes, with a deadline. But their `right_response`, `wrong_response` and `cheats` are
    called in this process: an exception there is a finding, while one that never returns stops the check for good.

    Args:
        task: the task, or a mixture, of which every part is checked.
        split: only this one; all that there are if None.
        model: counts tokens of prompts; without one, their characters are counted.
        rows: the first so many of each split; all if None.
        workers, deadline: as of `reasonrl.scoring.Scorer`.
        progress: called with what is done to which split, how many rows are done, and of how many if that is known;
            before the first row, too.

    Raises:
        ReasonRLError: the options of a verifier are wrong.
    """
    start = time.monotonic()
    checks: list[SplitCheck] = []
    findings: list[Finding] = []
    for part, _ in task.parts:
        tally = Tally(part.name, None)
        for message in part.missing:
            tally.add("missing", None, message)
        with Judging(part, workers, deadline, tally) as judging:
            for name in part.splits() if split is None else [split]:
                checks.append(SplitCheck(part, name, judging, model, task.sampling.max_tokens))
                checks[-1].run(rows, progress)
        findings += tally.findings()
    # In a mixture, what one task holds out may be in the training split or the examples of another.
    for held_out in (one for one in checks if one.split == "eval"):
        for training in (one for one in checks if one.split == "train"):
            held_out.compare(training)
        for part, _ in task.parts:
            held_out.compare_examples(part)
    reports = tuple(one.report() for one in checks)
    findings += [finding for one in checks for finding in one.tally.findings()]
    faults = tuple(one for one in findings if KINDS[one.kind].fault)
    return CheckReport(
        task=task.name,
        path=str(task.path),
        model=None if model is None else model.path,
        max_positions=None if model is None else model.max_positions,
        max_tokens=task.sampling.max_tokens,
        passed=not faults,
        splits=reports,
        faults=faults,
        warnings=tuple(one for one in findings if not KINDS[one.kind].fault),
        seconds=round(time.monotonic() - start, 2),
    )
