"""The verifier `math` beside `math_verify` on labelled rows: agreement, false positives and negatives, hangs, speed.

Each checks in a child process of its own, killed and counted as a hang when it passes the deadline.
Rows: JSON Lines (also .gz) with `response` or `completion`, `gold`, `equal` or `correct`; groups by `kind` or `source`.

    python benchmarks/verify_math.py tests/data/math_cases.jsonl
    python benchmarks/verify_math.py outputs.jsonl.gz --answer last_number --disagreements 20
"""

import argparse
import gzip
import json
import multiprocessing
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from reasonrl import Problem, Response, Verifier
from reasonrl_math import Math, MathVerify
from reasonrl_math.verifier import MathOptions

Row = dict[str, Any]


def judge_with(verifier: Verifier) -> Callable[[str, str], bool | None]:
    """Whether a verifier finds a response right; None: could not be judged."""
    verifier.warm_up()

    def judge(gold: str, response: str) -> bool | None:
        try:
            return verifier.verify(Problem("p", "", gold), Response(response)).reward == 1
        except Exception:  # noqa: BLE001  (counted, whatever the library raises)
            return None

    return judge


JUDGES: dict[str, Callable[[str], Verifier]] = {
    "math": lambda answer: Math(MathOptions.model_validate({"answer": answer})),
    "math_verify": lambda answer: MathVerify(),  # takes an answer from wherever it finds one
}


def serve(name: str, answer: str, pipe: Connection) -> None:
    """Answer each row with a verdict and its seconds, until killed."""
    judge = judge_with(JUDGES[name](answer))
    pipe.send("ready")
    while True:
        gold, response = pipe.recv()
        started = time.perf_counter()
        verdict = judge(gold, response)
        pipe.send((verdict, time.perf_counter() - started))


class Child:
    """A judge in a process that is killed, and started anew, when a check passes the deadline."""

    def __init__(self, name: str, answer: str, deadline: float) -> None:
        self.name, self.answer, self.deadline = name, answer, deadline
        self.start()

    def start(self) -> None:
        """A new process, warmed up."""
        self.pipe, other = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self.process = context.Process(target=serve, args=(self.name, self.answer, other), daemon=True)
        self.process.start()
        self.pipe.recv()

    def stop(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()

    def check(self, gold: str, response: str) -> tuple[bool | None, float]:
        """The verdict (None: could not be judged) and its seconds; infinite seconds for a hang."""
        self.pipe.send((gold, response))
        if self.pipe.poll(self.deadline):
            verdict, seconds = self.pipe.recv()
            return verdict, seconds
        self.stop()
        self.start()
        return None, float("inf")


@dataclass
class Tally:
    """What one judge made of one group of rows."""

    rows: int = 0
    right: int = 0
    false_positives: int = 0
    false_negatives: int = 0
    hangs: int = 0
    unjudged: int = 0
    seconds: list[float] = field(default_factory=list)

    def add(self, truth: bool, verdict: bool | None, seconds: float, deadline: float) -> None:
        """Count one row. What could not be judged earns nothing: it counts as a refusal."""
        accepted = verdict is True
        self.rows += 1
        self.right += accepted == truth
        self.false_positives += accepted and not truth
        self.false_negatives += truth and not accepted
        self.hangs += seconds == float("inf")
        self.unjudged += verdict is None
        self.seconds.append(min(seconds, deadline))

    def line(self, *names: str) -> str:
        """A row of the table."""
        ordered = sorted(self.seconds)
        p95 = ordered[int(0.95 * (len(ordered) - 1))] * 1e3
        numbers = [
            str(self.rows), f"{100 * self.right / self.rows:.2f}", str(self.false_positives), str(self.false_negatives),
            str(self.hangs), str(self.unjudged), f"{statistics.median(ordered) * 1e3:.1f}", f"{p95:.1f}",
            f"{ordered[-1]:.2f}", f"{self.rows / sum(ordered):.0f}",
        ]  # fmt: skip
        return "| " + " | ".join([*names, *numbers]) + " |"


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a JSON Lines file, under one set of names."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        for line in lines:
            row = json.loads(line)
            yield {
                "id": row["id"],
                "gold": row["gold"],
                "response": row.get("response") or row.get("completion", ""),
                "truth": row["equal"] if "equal" in row else row["correct"],
                "group": row.get("kind") or row.get("source", "all"),
            }


def main() -> None:
    """Judge every row with both and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--answer", default="phrases", help="where the answer may stand, for `math`")
    parser.add_argument("--deadline", type=float, default=10.0, help="seconds a check may take")
    parser.add_argument("--every", type=int, default=1, help="judge every n-th row only")
    parser.add_argument("--judges", nargs="+", default=list(JUDGES), choices=list(JUDGES))
    parser.add_argument("--groups", action="store_true", help="all groups, not only those with a mistake")
    parser.add_argument("--disagreements", type=int, default=0, help="how many mistakes of each judge to show")
    arguments = parser.parse_args()
    rows = [row for path in arguments.files for row in read_rows(path)][:: arguments.every]
    children = {name: Child(name, arguments.answer, arguments.deadline) for name in arguments.judges}
    total: dict[str, Tally] = defaultdict(Tally)
    groups: dict[tuple[str, str], Tally] = defaultdict(Tally)
    shown: Counter[str] = Counter()
    for row in rows:
        for name, child in children.items():
            verdict, seconds = child.check(row["gold"], row["response"])
            for tally in (total[name], groups[row["group"], name]):
                tally.add(row["truth"], verdict, seconds, arguments.deadline)
            if (verdict is True) != row["truth"] and shown[name] < arguments.disagreements:
                shown[name] += 1
                print(f"{name}: {row['id']} truth {row['truth']}, verdict {verdict}, {row['gold']!r}")
                print(f"    …{row['response'][-160:]!r}")
    for child in children.values():
        child.stop()
    heading = "rows | right % | false + | false − | hangs | unjudged | median ms | p95 ms | max s | checks/s |"
    print(f"| judge | {heading}\n|{'---|' * 11}")
    for name, tally in total.items():
        print(tally.line(name))
    print(f"\n| group | judge | {heading}\n|{'---|' * 12}")
    for (group, name), tally in sorted(groups.items()):
        if arguments.groups or tally.right < tally.rows:
            print(tally.line(group, name))


if __name__ == "__main__":
    main()
