"""The verifier `code` on data with known verdicts: attack and honesty cases, reference solutions, labelled outputs.

Cases: JSON Lines with `id`, `language`, `kind`, `tests`, `program`, `passes`, `expect`.
Outputs: JSON Lines with `benchmark` (humaneval, mbpp), `task_id`, `completion`, `passed`, `model`, `format`; the tests
come from the data sets' files, in which the first row of a task counts.

    python benchmarks/code_agreement.py --cases cases/code.jsonl
    python benchmarks/code_agreement.py --humaneval humaneval/test.jsonl.gz --mbpp mbpp/sanitized-*.jsonl.gz
    python benchmarks/code_agreement.py --humaneval … --mbpp … --outputs model_outputs/code.jsonl.gz --disagreements 50
"""

import argparse
import gzip
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from reasonrl import Problem, Response, Verdict
from reasonrl.scoring import Scorer, WeightedVerifier
from reasonrl_code.verifier import Code, CodeOptions

Row = dict[str, Any]
EXPECTED = {"pass": "correct", "fail": "wrong"}  # the reason of a verdict, by the `expect` of a case


def read_rows(paths: Iterable[Path]) -> Iterator[Row]:
    """The rows of JSON Lines files, in order."""
    for path in paths:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
            yield from map(json.loads, lines)


def judge(verifiers: Sequence[WeightedVerifier], rows: Sequence[tuple[Problem, str]], workers: int) -> list[Verdict]:
    """The verdict of each response, by the verifier of the problem's task."""
    with Scorer(verifiers, workers=workers) as scorer:
        for number, (problem, text) in enumerate(rows):
            scorer.submit(number, problem, Response(text))
        return [scored.verdicts[0] for scored in scorer.collect().values()]


def offered(adapter: str, seconds: float, task: str = "", language: str = "python") -> WeightedVerifier:
    """The verifier with an adapter, for the problems of a task."""
    options = {"adapter": adapter, "seconds": seconds, "language": language, "total_seconds": 10 * seconds}
    return WeightedVerifier(Code, CodeOptions.model_validate(options), 1.0, "benchmark", task)


def show_cases(path: Path, seconds: float, workers: int) -> None:
    """Each case's verdict against what it must be."""
    cases = list(read_rows([path]))
    verifiers = [offered("tests", seconds, language, language) for language in sorted({c["language"] for c in cases})]
    rows = [
        (Problem(case["id"], "", metadata={"tests": case["tests"]}, task=case["language"]), fenced(case))
        for case in cases
    ]
    verdicts = judge(verifiers, rows, workers)
    wrong = reasons = 0
    for case, verdict in zip(cases, verdicts, strict=True):
        right = verdict.reward is not None and (verdict.reward >= 1) is case["passes"]
        same = verdict.reason == EXPECTED.get(case["expect"], case["expect"])
        wrong, reasons = wrong + (not right), reasons + (not same)
        if not (right and same):
            print(f"{'WRONG' if not right else 'reason'}: {case['id']} {case['expect']} {verdict.reason}", end=" ")
            print(json.dumps(verdict.evidence.get("failed"))[:300])
    print(f"cases: {len(cases)}, right {len(cases) - wrong}, of these with the expected ending {len(cases) - reasons}")


def fenced(case: Row) -> str:
    """The program of a case as a response."""
    return f"```{case['language']}\n{case['program']}\n```"


def show_references(problems: Sequence[Problem], verifiers: Sequence[WeightedVerifier], workers: int) -> None:
    """Do the data sets' own solutions pass?"""
    makers = {one.task: one.verifier(one.options) for one in verifiers}
    rows = [(problem, makers[problem.task].right_response(problem) or "") for problem in problems]
    verdicts = judge(verifiers, rows, workers)
    for task in makers:
        own = [(p, v) for p, v in zip(problems, verdicts, strict=True) if p.task == task]
        passed, weak = sum(v.reward == 1 for _, v in own), sum(bool(v.evidence.get("weak")) for _, v in own)
        print(f"{task}: reference solutions that pass: {passed} of {len(own)}, {weak} of them by a weaker test")
        for problem, verdict in own:
            if verdict.reward != 1:
                print(f"  {problem.id}: {verdict.reason} {json.dumps(verdict.evidence.get('failed'))[:300]}")


def show_outputs(
    path: Path, problems: Sequence[Problem], verifiers: Sequence[WeightedVerifier], workers: int, shown: int
) -> None:
    """How often do verdict and label agree?"""
    by_id = {(problem.task, problem.id): problem for problem in problems}
    outputs = [row for row in read_rows([path]) if row["passed"] is not None]
    known = [row for row in outputs if key(row) in by_id]
    started = time.perf_counter()
    verdicts = judge(verifiers, [(by_id[key(row)], row["completion"]) for row in known], workers)
    seconds = time.perf_counter() - started
    groups: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row, verdict in zip(known, verdicts, strict=True):
        passed = verdict.reward == 1
        kind = "agree" if passed is row["passed"] else "false +" if passed else "false −"
        for group in (("all", "all"), (row["benchmark"], row["model"])):
            groups[group].update(["rows", kind, *(["unjudged"] if verdict.reward is None else [])])
        if kind != "agree" and shown > 0:
            shown -= 1
            told = json.dumps(verdict.evidence.get("failed"), ensure_ascii=False)[:400]
            print(f"{kind}: {row['task_id']} {row['model']} {verdict.reason} {told} local: {row.get('local_error')}")
    columns = ("rows", "agree", "false +", "false −", "unjudged")
    print(f"| benchmark | model | agree % | {' | '.join(columns)} |\n|{'---|' * (3 + len(columns))}")
    for (benchmark, model), counts in sorted(groups.items()):
        numbers = " | ".join(str(counts[column]) for column in columns)
        print(f"| {benchmark} | {model} | {100 * counts['agree'] / counts['rows']:.2f} | {numbers} |")
    print(f"{len(outputs) - len(known)} labelled rows without a task; {len(known)} judged in {seconds:.0f} s")


def key(row: Row) -> tuple[str, str]:
    """Task and problem of a labelled output, as `problems_of` names them."""
    return row["benchmark"], row["task_id"]


def problems_of(task: str, prefix: str, paths: Sequence[Path]) -> list[Problem]:
    """The first problem of each id."""
    found: dict[str, Problem] = {}
    for row in read_rows(paths):
        name = f"{prefix}{row['task_id']}"
        found.setdefault(name, Problem(name, "", metadata=row, task=task))
    return list(found.values())


def main() -> None:
    """Show what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path)
    parser.add_argument("--humaneval", type=Path, nargs="*", default=[])
    parser.add_argument("--mbpp", type=Path, nargs="*", default=[])
    parser.add_argument("--outputs", type=Path)
    parser.add_argument("--seconds", type=float, default=10.0, help="of CPU time for a test")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--disagreements", type=int, default=0, help="how many to show")
    arguments = parser.parse_args()
    if arguments.cases:
        show_cases(arguments.cases, min(arguments.seconds, 4.0), arguments.workers)
    problems = problems_of("humaneval", "", arguments.humaneval) + problems_of("mbpp", "Mbpp/", arguments.mbpp)
    tasks = {problem.task for problem in problems}
    verifiers = [offered(task, arguments.seconds, task) for task in ("humaneval", "mbpp") if task in tasks]
    if problems and not arguments.outputs:
        show_references(problems, verifiers, arguments.workers)
    if arguments.outputs:
        show_outputs(arguments.outputs, problems, verifiers, arguments.workers, arguments.disagreements)


if __name__ == "__main__":
    main()
