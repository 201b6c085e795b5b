"""Evaluations as runs, `reasonrl eval` and `reasonrl verify` leave them on disk: how many responses to each problem are
right."""

from dataclasses import dataclass
from pathlib import Path

from reasonrl import store
from reasonrl.errors import ReasonRLError

_COLUMNS = ("problem_id", "prompt", "reference", "temperature", "correct")
_PLACES = ("rollouts.parquet", "eval/after.parquet")  # of an evaluation; of a run that has ended


@dataclass(frozen=True)
class Asked:
    """What a problem was: two with one id are one problem if they have one reference."""

    prompt: str
    reference: str | None


@dataclass(frozen=True)
class StoredEvaluation:
    """The responses of one kind in a stored evaluation.

    Attributes:
        name: as it was named.
        file: that was read.
        counts: of each problem, how many responses were judged, and how many of these are right.
        asked: of each problem, what it was.
    """

    name: str
    file: Path
    counts: dict[str, tuple[int, int]]
    asked: dict[str, Asked]


def read_evaluation(run: Path, *, greedy: bool) -> StoredEvaluation:
    """A stored evaluation: its greedy responses, or those that were sampled.

    Args:
        run: the folder of an evaluation, or of a run, of which it is the one after training; or a report or a file of
            responses in it, such as RUN/eval/before.json.
        greedy: which responses.

    Raises:
        ReasonRLError: there is none, it cannot be read, or it has no responses of that kind.
    """
    file = responses_of(run)
    counts: dict[str, tuple[int, int]] = {}
    asked: dict[str, Asked] = {}
    rows = store.read(file, _COLUMNS)
    for row in rows:
        if (row["temperature"] == 0) != greedy:
            continue
        one = Asked(row["prompt"], row["reference"])
        if asked.setdefault(row["problem_id"], one) != one:
            raise ReasonRLError(f"{file}: two problems have the id {row['problem_id']!r}; name the file of one step")
        n, c = counts.get(row["problem_id"], (0, 0))
        counts[row["problem_id"]] = (n, c) if row["correct"] is None else (n + 1, c + row["correct"])
    if not counts:
        wanted, other = ("greedy", "sampled") if greedy else ("sampled", "greedy")
        cure = f"it has {other} ones: {'leave out' if greedy else 'add'} --greedy" if rows else "it is empty"
        raise ReasonRLError(f"{file}: no {wanted} responses; {cure}")
    return StoredEvaluation(str(run), file, counts, asked)


def responses_of(run: Path) -> Path:
    """The file of responses that belongs to a run, an evaluation, or a report of one.

    Raises:
        ReasonRLError: there is none; says which evaluations there are.
    """
    if run.is_file():
        beside = run.with_name("rollouts.parquet") if run.name == "report.json" else run.with_suffix(".parquet")
        if not beside.is_file():
            raise ReasonRLError(f"{run}: the responses are not beside it: there is no {beside.name}")
        return beside
    if not run.exists():
        raise ReasonRLError(f"there is no file or folder {run}")
    for place in _PLACES:
        if (run / place).is_file():
            return run / place
    others = sorted(str(one) for one in run.glob("eval/*.parquet"))
    cure = f"name one of {', '.join(others)}" if others else "give the folder of an evaluation or of a run that ended"
    raise ReasonRLError(f"{run}: holds neither {' nor '.join(_PLACES)}; {cure}")
