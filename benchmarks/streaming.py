"""What streaming buys: the first step's problems of a large JSON Lines file, all rows loaded or streamed.

Each way runs in a process of its own, on a file of made-up rows written to a temporary folder.
    python benchmarks/streaming.py --megabytes 1000
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from reasonrl.datafiles import DatasetConfig
from reasonrl.evaluation.evaluate import Prompted
from reasonrl.tasks import Task, TaskConfig
from reasonrl.trainers.problems import Listed, ProblemStream, Source, Streamed

PROBLEMS = 64  # of a step


def task_of(file: str, streaming: bool) -> Task:
    """A task over the file."""
    config = TaskConfig.model_validate({
        "name": "large",
        "dataset": {"data_files": {"train": file}, "streaming": streaming},
        "prompt": {"template": "{{ question }}"},
        "reference": {"column": "answer"},
        "verifiers": [{"name": "exact"}],
    })  # fmt: skip
    return Task(config, Path("large.yaml"))


def first_step(file: str, streaming: bool) -> None:
    """Draw one step's problems; print seconds and the peak of memory."""
    started = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    task = task_of(file, streaming)
    source: Source
    if streaming:
        window = DatasetConfig(hub="any/thing").window
        source = Streamed(lambda: task.attempts("train"), lambda problem: Prompted(problem, (1,)), window, "0")
    else:
        source = Listed([Prompted(problem, (1,)) for problem in task.problems("train")], "0")
    drawn, _ = ProblemStream([(source, 1.0)], PROBLEMS).of_step(1)
    assert len(drawn) == PROBLEMS
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{time.monotonic() - started:.1f} {(peak - before) / 1024:.0f}")


def write(file: Path, megabytes: int) -> int:
    """Rows until the file is as large as asked; how many."""
    rows, size = 0, 0
    with file.open("w") as out:
        while size < megabytes * 2**20:
            size += out.write(
                json.dumps({"question": f"What is {rows} + 1? " + "context " * 120, "answer": str(rows)}) + "\n"
            )
            rows += 1
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--child", nargs=2, metavar=("FILE", "HOW"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        first_step(arguments.child[0], arguments.child[1] == "streamed")
        return
    with tempfile.TemporaryDirectory() as folder:
        rows = write(Path(folder) / "rows.jsonl", arguments.megabytes)
        print(f"{arguments.megabytes} MB, {rows:,} rows\n")
        print("| rows | seconds to the first step | memory for it, MB |\n|---|---|---|")
        for how in ("streamed", "loaded"):
            child = [sys.executable, __file__, "--child", f"{folder}/rows.jsonl", how]
            # The cache that `datasets` makes of a loaded file belongs to the temporary folder, too.
            run = subprocess.run(child, capture_output=True, text=True, check=True, env={"HF_HOME": folder})
            seconds, memory = run.stdout.split()
            print(f"| {how} | {seconds} | {memory} |")


if __name__ == "__main__":
    main()
