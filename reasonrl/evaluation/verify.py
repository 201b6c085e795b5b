"""Verify responses that come from a file and count them as an evaluation does, as `reasonrl verify` does."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reasonrl import store, tasks
from reasonrl.errors import ReasonRLError
from reasonrl.evaluation.breakdown import breakdowns
from reasonrl.evaluation.counting import scores
from reasonrl.evaluation.report import Coverage, Report, save
from reasonrl.evaluation.responses import GivenResponse, read_responses
from reasonrl.evaluation.verified import Verified, verify_given
from reasonrl.generators import Split
from reasonrl.scoring import Scorer
from reasonrl.scoring.resolve import audit, check_problems, resolve
from reasonrl.types import Rollout


def verify_responses(
    task_name: str,
    file: Path,
    *,
    split: Split = "eval",
    k: tuple[int, ...] = (1,),
    rows: int | None = None,
    data: Mapping[Split, str] | None = None,
    workers: int = 2,
    deadline: float = 10.0,
    runs: Path = Path("runs"),
    progress: Callable[[int, int], None] = lambda done, total: None,
    tell: Callable[[str], None] = lambda line: None,
) -> tuple[Report, Path]:
    """The report, and the new folder that holds it (`report.json`) and every verdict (`rollouts.parquet`).

    Args:
        task_name: a task or mixture by name or path; its verifiers judge.
        file: the responses, see `read_responses`.
        split: whose problems they answer.
        k: for which k pass@k of the sampled responses is estimated.
        rows: only the first so many problems; all if None.
        data: files in place of the task's data, by split.
        workers, deadline: processes that verify, and the seconds each has for one response.
        runs: where the new folder is made.
        progress: called with how many of how many responses have been verified.
        tell: called with a line for each task that leaves rows out.

    Raises:
        ReasonRLError: a fault in task, data, file or options.
    """
    task = tasks.load(task_name, data)
    known = task.problems(split)
    problems = known if rows is None else task.problems(split, rows)
    left_out = task.left_out(split)
    for one in left_out:
        tell(one.line())
    given = read_responses(file, problems, {problem.id: None for problem in known})
    _check_k(k, given, file)
    answered = list({one.problem.id: one.problem for one in given}.values())
    verifiers = resolve(task)
    check_problems(verifiers, answered)
    with Scorer(verifiers, workers=workers, deadline=deadline) as scorer:
        audit(scorer, answered, task.path)
        folder = store.new_folder(runs, f"verify-{task.name}")  # if it cannot be made, better now than later
        verified = verify_given(given, scorer, progress)
    counted = _report(verified, task.name, file, k, Coverage(len(answered), len(problems)))
    counted = replace(counted, left_out=sum(one.rows for one in left_out))
    save(counted, folder / "report.json")
    store.write(folder / "rollouts.parquet", [_record(one) for one in verified])
    return counted, folder


def _check_k(k: Sequence[int], given: Sequence[GivenResponse], file: Path) -> None:
    """Is there a problem with k responses, for every k? Those with fewer are left out of pass@k, and counted."""
    sampled = Counter(one.problem.id for one in given if not one.greedy)
    most = max(sampled.values(), default=1)
    for one in k:
        if one < 1:
            raise ReasonRLError(f"pass@k needs k >= 1; k is {one}")
        if one > most:
            what = f"no problem of {file} has {one} responses, the most is {most}"
            if not sampled:
                what = f"all responses of {file} are greedy (temperature 0), of which there is pass@1 only"
            raise ReasonRLError(f"pass@{one}: {what}; lower k")


def _report(verified: Sequence[Verified], task: str, file: Path, k: Sequence[int], coverage: Coverage) -> Report:
    greedy = [one for one in verified if one.given.greedy]
    sampled = [one for one in verified if not one.given.greedy]
    samples = set(Counter(one.problem.id for one in sampled).values())
    temperatures = {one.given.temperature for one in sampled}
    seed = 0  # of the bootstrap alone; as `reasonrl eval` has it by default
    return Report(
        task=task,
        model=str(file),
        seed=seed,
        samples=samples.pop() if len(samples) == 1 else None,
        sampling={"temperature": temperatures.pop() if len(temperatures) == 1 else None},
        greedy=scores(greedy, (1,), seed) if greedy else None,
        sampled=scores(sampled, k, seed) if sampled else None,
        by=breakdowns(greedy, sampled, k[0], seed),
        coverage=coverage,
    )


def _record(one: Verified) -> dict[str, Any]:
    """A row for the rollout store, with nothing where it is not known."""
    given, scored = one.given, one.scored
    rollout = Rollout(given.problem.id, given.sample, (), (), (), given.text, given.response.finish_reason, 0, 0)
    row = store.record(
        given.problem,
        rollout,
        [(w.name, w.version, w.weight, v) for w, v in zip(scored.verifiers, scored.verdicts, strict=True)],
        step=0,
        temperature=0.0,
        reward=scored.reward,
        correct=scored.correct,
        advantage=None,
    )
    unknown = ("step", "prompt_tokens", "prompt_ids", "response_ids", "logprobs", "seed", "policy_version")
    return (
        row
        | dict.fromkeys(unknown)
        | {
            "response_tokens": given.tokens,
            "finish_reason": given.finish_reason,
            "temperature": given.temperature,
        }
    )
