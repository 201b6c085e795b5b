"""The quickstart for several seeds, each beside its control: SFT alone on the same examples for the same time.

Writes the table of docs/results.md:  python benchmarks/quickstart.py --seeds 0 1 2
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Result:
    """One run: pass@1 on held-out problems before and after, and what it took.

    Attributes:
        greedy, sampled: (before, after), as shares.
        training: seconds in optimiser steps, sampling and verification included.
        total: seconds of the whole command.
        warm_start: (steps, seconds) of the supervised phase.
    """

    greedy: tuple[float, float]
    sampled: tuple[float, float]
    training: float
    total: float
    warm_start: tuple[int, float]


def run(config: str, seed: int, runs: Path, *overrides: str) -> Result:
    """Run `reasonrl train` as a user does, and read what it left in the run folder."""
    command = ["-c", "from reasonrl.cli import main; main()", "train", config, f"seed={seed}", f"runs={runs}"]
    started = time.monotonic()
    subprocess.run([sys.executable, *command, f"name={config}-{seed}", *overrides], check=True)
    total = time.monotonic() - started
    folder = runs / f"{config}-{seed}"
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    supervised = [line["seconds"] for line in lines if line["phase"] != "grpo"]
    before, after = (json.loads((folder / "eval" / f"{name}.json").read_text()) for name in ("before", "after"))
    return Result(
        greedy=(pass_at_1(before["greedy"]), pass_at_1(after["greedy"])),
        sampled=(pass_at_1(before["sampled"]), pass_at_1(after["sampled"])),
        training=sum(line["seconds"] for line in lines),
        total=total,
        warm_start=(len(supervised), sum(supervised)),
    )


def pass_at_1(scores: dict[str, Any]) -> float:
    """pass@1 of one half of an evaluation report."""
    return float(next(entry["value"] for entry in scores["pass_at_k"] if entry["k"] == 1))


def table(results: dict[int, tuple[Result, Result]]) -> str:
    """The results as Markdown."""
    lines = [
        "| seed | | greedy before | greedy after | sampled before | sampled after | training, s | whole command, s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for seed, pair in results.items():
        for name, result in zip(("quickstart", "SFT alone"), pair, strict=True):
            shares = (*result.greedy, *result.sampled)
            cells = " | ".join(f"{share:.1%}" for share in shares)
            lines.append(f"| {seed} | {name} | {cells} | {result.training:.0f} | {result.total:.0f} |")
    for index, name in enumerate(("quickstart", "SFT alone")):
        runs = [pair[index] for pair in results.values()]
        means = [statistics.fmean(r.greedy[i] for r in runs) for i in (0, 1)]
        means += [statistics.fmean(r.sampled[i] for r in runs) for i in (0, 1)]
        lines.append(f"| mean | {name} | " + " | ".join(f"{mean:.1%}" for mean in means) + " | | |")
    return "\n".join(lines)


def main() -> None:
    """Run all seeds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--runs", type=Path, default=None, help="keep the run folders here")
    parser.add_argument("overrides", nargs="*", help="overrides for the quickstart, as algorithm.steps=40")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        runs = arguments.runs or Path(scratch)
        results = {}
        for seed in arguments.seeds:
            main_run = run("quickstart", seed, runs, *arguments.overrides)
            steps, seconds = main_run.warm_start
            equal_time = round(main_run.training / (seconds / steps))
            control = run("quickstart_control", seed, runs, f"algorithm.steps={equal_time}")
            results[seed] = (main_run, control)
    print(table(results))


if __name__ == "__main__":
    main()
