"""Every algorithm from one supervised start, with the same number of sampled responses, for several seeds.

Writes the table and the plot of docs/results.md:  python benchmarks/learning.py --plot docs/learning.svg
The start is the quickstart's warm start, trained once; a seed draws problems, samples and orders.
The plot needs matplotlib (pip install 'reasonrl[plot]').
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONFIGS = Path(__file__).parents[1] / "configs" / "learning"
ORDER = [
    "trpo", "ppo", "ppo_penalty", "grpo", "grpo_process", "dr_grpo", "rloo", "reinforce_pp", "reinforce_pp_baseline",
    "dapo", "gspo", "cispo",
]  # fmt: skip


@dataclass(frozen=True)
class Result:
    """One run.

    Attributes:
        before, after: sampled pass@1 on held-out problems.
        greedy: greedy pass@1 after training.
        pass_rates: of the sampled responses, step by step.
        responses: how many were sampled in training.
        seconds: of all steps.
    """

    before: float
    after: float
    greedy: float
    pass_rates: tuple[float, ...]
    responses: float
    seconds: float


def reasonrl_train(config: str, name: str, runs: Path, *overrides: str) -> None:
    """Run `reasonrl train` as a user does, into the folder of that name; what a broken-off run left there goes."""
    shutil.rmtree(runs / name, ignore_errors=True)
    command = ["-c", "from reasonrl.cli import main; main()", "train", config, f"name={name}", f"runs={runs}"]
    threads = {"OMP_NUM_THREADS": "1"}
    log = runs / f"{name}.log"
    with log.open("w") as output:
        done = subprocess.run(
            [sys.executable, *command, *overrides], stdout=output, stderr=output, env=os.environ | threads
        )
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{log.read_text()[-2000:]}")


def start(runs: Path) -> Path:
    """The supervised model that all runs begin with."""
    if not (runs / "start" / "final").exists():
        reasonrl_train("quickstart_control", "start", runs, "algorithm.steps=400", "evaluation.rows=10")
    return runs / "start" / "final"


def measure(algorithm: str, seed: int, model: Path, runs: Path, overrides: Sequence[str]) -> Result:
    """Train one algorithm with one seed; a finished run that lies in `runs` is read, not repeated."""
    name = f"{algorithm}-{seed}"
    began = time.monotonic()
    folder = runs / name
    if not (folder / "eval" / "after.json").exists():
        given = ["warm_start=null", "model.tiny=null", f"model.path={model}", f"seed={seed}", *overrides]
        reasonrl_train(str(CONFIGS / f"{algorithm}.yaml"), name, runs, *given)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "pass_rate" in line]
    before, after = (json.loads((folder / "eval" / f"{which}.json").read_text()) for which in ("before", "after"))
    result = Result(
        before=pass_at_1(before["sampled"]),
        after=pass_at_1(after["sampled"]),
        greedy=pass_at_1(after["greedy"]),
        pass_rates=tuple(line["pass_rate"] for line in steps),
        responses=sum(line["seconds"] * line["tokens_per_second"] / line["response_length"] for line in steps),
        seconds=sum(line["seconds"] for line in steps),
    )
    print(f"{name}: {result.before:.1%} → {result.after:.1%} in {time.monotonic() - began:.0f} s", flush=True)
    return result


def pass_at_1(scores: dict[str, Any]) -> float:
    """pass@1 of one half of an evaluation report."""
    return float(next(entry["value"] for entry in scores["pass_at_k"] if entry["k"] == 1))


def table(results: Mapping[str, Sequence[Result]]) -> str:
    """The results as Markdown, a row for each algorithm: mean ± standard deviation over seeds."""
    lines = [
        "| algorithm | before | after | greedy after | responses sampled | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for algorithm, runs in results.items():
        spread = statistics.stdev(r.after for r in runs) if len(runs) > 1 else 0.0
        cells = [
            f"{statistics.fmean(r.before for r in runs):.1%}",
            f"{statistics.fmean(r.after for r in runs):.1%} ± {spread:.1%}",
            f"{statistics.fmean(r.greedy for r in runs):.1%}",
            f"{statistics.fmean(r.responses for r in runs):,.0f}",
            f"{statistics.fmean(r.seconds for r in runs):.0f}",
        ]
        lines.append(f"| {algorithm} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plot(results: Mapping[str, Sequence[Result]], path: Path) -> None:
    """The share of right responses at each step, averaged over seeds."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5))
    for index, (algorithm, runs) in enumerate(results.items()):
        curves = zip(*(r.pass_rates for r in runs), strict=True)
        means = [100 * statistics.fmean(step) for step in curves]
        axes.plot(range(1, len(means) + 1), means, label=algorithm, linestyle=["-", "--", ":"][index % 3])
    axes.set_xlabel("step of 256 responses (DAPO: and more, where groups have no spread)")
    axes.set_ylabel("right responses, % (mean over seeds)")
    axes.legend(fontsize="small", ncols=2)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    """Run all algorithms and seeds, two at a time, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--algorithms", nargs="+", choices=ORDER, default=ORDER)
    parser.add_argument("--jobs", type=int, default=2, help="runs at once, one thread each")
    parser.add_argument("--runs", type=Path, default=None, help="keep the run folders here")
    parser.add_argument("--plot", type=Path, default=None, help="write the learning curves to this SVG")
    parser.add_argument("overrides", nargs="*", help="overrides for every run, as algorithm.steps=10")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        runs = arguments.runs or Path(scratch)
        runs.mkdir(parents=True, exist_ok=True)
        model = start(runs)
        with ThreadPoolExecutor(arguments.jobs) as pool:
            waiting = {
                algorithm: [
                    pool.submit(measure, algorithm, seed, model, runs, arguments.overrides) for seed in arguments.seeds
                ]
                for algorithm in arguments.algorithms
            }
            results = {algorithm: [run.result() for run in of] for algorithm, of in waiting.items()}
    print(table(results))
    if arguments.plot:
        plot(results, arguments.plot)


if __name__ == "__main__":
    main()
