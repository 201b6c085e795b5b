"""How fast the verifier `code` runs programs, beside a cold bubblewrap for each, and what it does under load.

Throughput: trivial programs, one after another in one process, the sandbox's tiers and two cold peers in turns, so that
all meet the same noise: `bwrap` around a new interpreter as one would write it by hand, and a plain subprocess without
any wall. Load: many responses at once for a few workers, some of them bombs, forks, floods and sleepers.

    python benchmarks/verify_code.py
    python benchmarks/verify_code.py --programs 2000 --workers 2 --rounds 20
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from reasonrl import Problem, Response
from reasonrl.scoring import Scorer, WeightedVerifier
from reasonrl_code.records import Limits, Program
from reasonrl_code.sandbox.box import Sandbox
from reasonrl_code.sandbox.running import family
from reasonrl_code.verifier import Code, CodeOptions

SUM = "a, b = map(int, input().split())\nprint(a + b)\n"
TESTS = [{"type": "stdio", "input": "3 4\n", "output": "7\n"}, {"type": "stdio", "input": "-10 25\n", "output": "15\n"}]
BAD = {
    # program: the reasons it may be refused for
    "while True:\n    pass": {"timeout"},
    "import time\ntime.sleep(100)": {"timeout"},
    "held = []\nwhile True:\n    held.append(bytearray(1 << 24))": {"memory"},
    "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass": {"timeout", "memory"},
    "while True:\n    print('x' * 10000)": {"wrong"},
    "import sys\nwhile True:\n    sys.stderr.write('x' * 10000)": {"timeout"},
    "import os\nif os.fork() == 0:\n    os.setsid()\n    while True:\n        pass": {"wrong"},
    "print(9 ** 9 ** 9)": {"timeout", "memory"},
}  # fmt: skip
COLD = [
    "bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/", "/", "--tmpfs", "/tmp",
    "--dev", "/dev", "--proc", "/proc",
]  # fmt: skip


def cold(prefix: list[str], path: Path) -> Callable[[], bool]:
    """A new process for each program."""

    def run() -> bool:
        command = [*prefix, sys.executable, "-I", str(path)]
        done = subprocess.run(command, input=b"3 4\n", capture_output=True, env={}, timeout=60)
        return done.stdout == b"7\n"

    return run


def ours(sandbox: Sandbox) -> Callable[[], bool]:
    """A program in the sandbox, as the verifier runs it."""
    limits = Limits()
    return lambda: sandbox.run(Program(SUM), "3 4\n", limits).output == "7\n"


def throughput(rounds: int, programs: int) -> None:
    """Print executions per second and latencies."""
    with tempfile.TemporaryDirectory() as folder, Sandbox("bwrap-pool") as pool, Sandbox("bwrap") as single:
        path = Path(os.path.realpath(folder)) / "sum.py"
        path.write_text(SUM)
        # The folder is bound again below /tmp, which the peer hides.
        peer = [*COLD, "--ro-bind", folder, "/tmp/program", "--chdir", "/tmp"]
        ways: dict[str, tuple[Callable[[], bool], int]] = {
            "code, tier bwrap-pool": (ours(pool), programs),
            "code, tier bwrap": (ours(single), max(1, programs // 8)),
            "cold bwrap for each": (cold(peer, Path("/tmp/program/sum.py")), max(1, programs // 4)),
            "plain subprocess, no walls": (cold([], path), max(1, programs // 4)),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, (run, times) in ways.items():
                for _ in range(times):
                    begun = time.perf_counter()
                    if not run():
                        raise SystemExit(f"{name}: a trivial program gave the wrong output")
                    seconds[name].append(time.perf_counter() - begun)
    base = statistics.fmean(seconds["cold bwrap for each"])
    print(f"{'':28s}{'per second':>12s}{'× cold bwrap':>14s}{'median':>10s}{'p95':>10s}{'p99':>10s}")
    for name, each in seconds.items():
        mean, cuts = statistics.fmean(each), statistics.quantiles(each, n=100)
        shown = "".join(f"{1000 * cuts[at - 1]:7.1f} ms" for at in (50, 95, 99))
        print(f"{name:28s}{1 / mean:12.1f}{base / mean:14.2f}{shown}")


def load(count: int, workers: int, share: float) -> None:
    """Print what became of many responses at once, and what is left of them."""
    draws = random.Random(0)
    bad = list(BAD)
    problem = Problem("sum", "Add two numbers.", metadata={"tests": TESTS})
    options = CodeOptions(adapter="tests", seconds=1.0, memory=256)
    texts = [draws.choice(bad) if draws.random() < share else SUM for _ in range(count)]
    before = processes()
    begun = time.perf_counter()
    with Scorer([WeightedVerifier(Code, options, 1.0, "benchmark")], workers=workers) as scorer:
        for number, text in enumerate(texts):
            scorer.submit(number, problem, Response(f"```python\n{text}\n```"))
        scored = scorer.collect()
    seconds = time.perf_counter() - begun
    wrong = Counter(
        (text, one.reason)
        for text, one in zip(texts, scored.values(), strict=True)
        if one.reason not in BAD.get(text, {"correct"})
    )
    peak = max(int(one.verdicts[0].evidence.get("memory", 0)) for one in scored.values())
    print(f"\n{count} responses at once, {share:.0%} hostile, {workers} workers: {seconds:.0f} s")
    print(f"reasons: {dict(Counter(one.reason for one in scored.values()))}")
    print(f"verdicts that are not as they should be: {sum(wrong.values())} {dict(wrong) if wrong else ''}")
    print(f"largest process: {peak / 2**20:.0f} MiB; processes left: {processes() - before}")
    print(f"mounts and folders left: {leftovers()}")


def processes() -> int:
    """How many processes there are below this one."""
    return len(family(os.getpid()))


def leftovers() -> int:
    """Temporary folders of sandboxes whose process is gone, and mounts in them."""
    mounts = Path("/proc/self/mounts").read_text()
    return len(list(Path(tempfile.gettempdir()).glob("reasonrl-code-*"))) + mounts.count("reasonrl-code-")


def main() -> None:
    """Both parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="turns that the ways take")
    parser.add_argument("--each", type=int, default=20, help="programs of the fastest way in a turn")
    parser.add_argument("--programs", type=int, default=2000, help="responses at once")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--share", type=float, default=0.05, help="of hostile programs")
    arguments = parser.parse_args()
    throughput(arguments.rounds, arguments.each)
    load(arguments.programs, arguments.workers, arguments.share)


if __name__ == "__main__":
    main()
