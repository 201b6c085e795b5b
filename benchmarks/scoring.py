"""What killable workers cost: trivial checks through the scorer, beside the same checks in a bare loop.

The two alternate; the table has medians.  python benchmarks/scoring.py --checks 20000
"""

import argparse
import statistics
import time
from collections.abc import Callable

from reasonrl import Problem, Response
from reasonrl.scoring import Scorer
from reasonrl.scoring.resolve import weighted
from reasonrl.tasks import VerifierConfig

PROBLEM = Problem(id="p", prompt="07+08=", reference="15")
RESPONSE = Response("7+8+0=15,0+0+1=1:15", tokens=20)
ENTRY = VerifierConfig(name="arithmetic_steps", options={"answer": ":"})


def seconds(run: Callable[[], None]) -> float:
    """How long a call takes."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checks", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    rule = weighted(ENTRY)
    verifier = rule.verifier(rule.options)

    def bare() -> None:
        for _ in range(arguments.checks):
            verifier.verify(PROBLEM, RESPONSE)

    with Scorer([rule], workers=arguments.workers) as scorer:

        def scored() -> None:
            for key in range(arguments.checks):
                scorer.submit(key, PROBLEM, RESPONSE)
            verdicts = scorer.collect()
            assert len(verdicts) == arguments.checks
            assert all(one.correct for one in verdicts.values())

        seconds(scored)  # the workers start and warm up
        pairs = [(seconds(bare), seconds(scored)) for _ in range(arguments.rounds)]
    bare_ms, scored_ms = (statistics.median(column) / arguments.checks * 1e3 for column in zip(*pairs, strict=True))
    ratio = statistics.median(b / a for a, b in pairs)
    print("| bare loop, ms per check | scorer, ms per check | scorer ÷ loop | added, ms |\n|---|---|---|---|")
    print(f"| {bare_ms:.3f} | {scored_ms:.3f} | {ratio:.2f} | {scored_ms - bare_ms:.3f} |")


if __name__ == "__main__":
    main()
