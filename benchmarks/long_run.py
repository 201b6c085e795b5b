"""Is a long run flat? Memory, open files and threads over 200 steps of a tiny run, of which half are checkpoints.

    python benchmarks/long_run.py [--steps 200]

Prints a line for each tenth of the run, and how much memory grew from the first half to the end. Exit code 1 if a file
or a thread was left open, or memory grew by more than 5 %.
"""

import argparse
import io
import os
import tempfile
import threading
from pathlib import Path

from rich.console import Console

from reasonrl import config
from reasonrl.config import RunConfig
from reasonrl.trainers import run
from reasonrl.trainers.parts import Parts

CONFIG = str(Path(__file__).parents[1] / "configs" / "debug" / "grpo.yaml")
MOST_GROWTH = 0.05


def measured() -> tuple[float, int, int]:
    """Resident memory in MiB, open files and threads of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20, len(os.listdir("/proc/self/fd")), threading.active_count()


def measure(wanted: RunConfig) -> dict[int, tuple[float, int, int]]:
    """What the run holds after each step."""
    found: dict[int, tuple[float, int, int]] = {}
    end_step = run.end_step

    def measuring(parts: Parts, step: int, *, evaluates: bool = True) -> None:
        end_step(parts, step, evaluates=evaluates)
        if evaluates:
            found[step] = measured()

    run.end_step = measuring
    try:
        run.train(wanted, Console(file=io.StringIO()))
    finally:
        run.end_step = end_step
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as folder:
        overrides = [f"runs={folder}", f"algorithm.steps={steps}", "checkpoint.every=2", "evaluation.every=0"]
        found = measure(config.load(CONFIG, overrides))
    for step in range(steps // 10, steps + 1, steps // 10):
        print("step {:4d}  {:7.1f} MiB  {} files  {} threads".format(step, *found[step]))
    half, end = found[steps // 2], found[steps]
    growth = end[0] / half[0] - 1
    print(f"memory from step {steps // 2} to {steps}: {growth:+.2%}")
    raise SystemExit(growth > MOST_GROWTH or half[1:] != end[1:])


if __name__ == "__main__":
    main()
