"""Two verifiers over the same responses: how often they agree, and where they do not.

Each check runs as in training, under the scorer's deadline, so that what hangs in one verifier is unjudged by that one.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from reasonrl import plugins, tasks, yamltext
from reasonrl.errors import ReasonRLError
from reasonrl.evaluation.responses import read_responses
from reasonrl.evaluation.verified import Verified, verify_given
from reasonrl.generators import Split
from reasonrl.scoring import Scorer, WeightedVerifier
from reasonrl.scoring.resolve import check_problems, weighted
from reasonrl.tasks import Mixture, Task, VerifierConfig
from reasonrl.verifier import Verdict

Judgement = Literal["right", "wrong", "unjudged"]
Pair = tuple[Judgement, Judgement]
PAIRS: tuple[Pair, ...] = (
    ("right", "right"), ("wrong", "wrong"), ("right", "wrong"), ("wrong", "right"),
    ("unjudged", "right"), ("unjudged", "wrong"), ("right", "unjudged"), ("wrong", "unjudged"),
    ("unjudged", "unjudged"),
)  # fmt: skip
TAIL = 200  # characters of a response, from its end


@dataclass(frozen=True)
class Opinion:
    """What one verifier says of a response: right where its reward is at least 1."""

    judgement: Judgement
    reward: float | None
    reason: str
    evidence: Mapping[str, Any]


@dataclass(frozen=True)
class Difference:
    """A response that two verifiers judge differently.

    Attributes:
        problem_id, row, sample: which response: row of the data, and which of the problem's responses in the file.
        reference: of the problem.
        tail: the end of the response.
        opinions: of the first and of the second verifier.
    """

    problem_id: str
    row: int | None
    sample: int
    reference: str | None
    tail: str
    opinions: tuple[Opinion, Opinion]


@dataclass(frozen=True)
class Comparison:
    """Two verifiers over the responses of a file.

    Attributes:
        task, file: as they were named.
        verifiers: as they were named; versions: of the distributions they come from.
        responses: how many were judged by both.
        counts: of each pair of judgements, the first verifier's first; they add up to `responses`.
        reasons: of each verifier, how often it gave which reason.
        differences: all of them; where one says right and the other wrong first, then what one could not judge.
    """

    task: str
    file: str
    verifiers: tuple[str, str]
    versions: tuple[str, str]
    responses: int
    counts: Mapping[Pair, int]
    reasons: tuple[Mapping[str, int], Mapping[str, int]]
    differences: tuple[Difference, ...]


def compare_verifiers(
    task_name: str,
    file: Path,
    first: str,
    second: str,
    *,
    split: Split = "eval",
    rows: int | None = None,
    data: Mapping[Split, str] | None = None,
    workers: int = 2,
    deadline: float = 10.0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Comparison:
    """Let two verifiers judge the responses of a file.

    Args:
        task_name: a task or mixture by name or path: whose problems the responses answer.
        file: the responses, see `read_responses`.
        first, second: a verifier each, `NAME` or `NAME:key=value,key=value`. Its options are those it has in the task,
            its defaults where the task does not name it, with the values given here over them.
        split, rows, data, workers, deadline, progress: as of `verify_responses`.

    Raises:
        ReasonRLError: a fault in task, data, file or options, a verifier that is not installed, or twice the same.
    """
    if first == second:
        raise ReasonRLError(f"{first} is compared with itself; give two verifiers, or one with other options: {_FORM}")
    task = tasks.load(task_name, data)
    verifiers = [_resolved(task, text) for text in (first, second)]
    known = task.problems(split)
    problems = known if rows is None else task.problems(split, rows)
    given = read_responses(file, problems, {problem.id: None for problem in known})
    judges = [one for pair in verifiers for one in pair]
    check_problems(judges, {one.problem.id: one.problem for one in given}.values())
    with Scorer(judges, workers=workers, deadline=deadline) as scorer:
        verified = verify_given(given, scorer, progress)
    opinions = [tuple(map(_opinion, one.scored.verdicts)) for one in verified]
    pairs = [(one.judgement, other.judgement) for one, other in opinions]
    found = [_difference(*both) for both in zip(verified, opinions, strict=True) if _differ(both[1])]
    return Comparison(
        task=task.name,
        file=str(file),
        verifiers=(first, second),
        versions=(verifiers[0][0].version, verifiers[1][0].version),
        responses=len(verified),
        counts={pair: pairs.count(pair) for pair in PAIRS},
        reasons=(_reasons(opinions, 0), _reasons(opinions, 1)),
        differences=tuple(sorted(found, key=lambda one: "unjudged" in [o.judgement for o in one.opinions])),
    )


def to_json(comparison: Comparison) -> str:
    """A comparison as JSON, with a line break at its end."""
    counts = [{"judgements": pair, "responses": number} for pair, number in comparison.counts.items()]
    return json.dumps(asdict(comparison) | {"counts": counts}, indent=2, ensure_ascii=False) + "\n"


_FORM = "NAME:key=value,key=value"


def _resolved(task: Task | Mixture, text: str) -> list[WeightedVerifier]:
    """A verifier for each part of a task, with the part's options for it under those that are given."""
    name, _, options = text.partition(":")
    plugins.installed().verifier(name)  # known? before the options are read
    changed = _options(text, options)
    resolved = []
    for part, _ in task.parts:
        own = next((entry.options for entry in part.verifiers if entry.name == name), {})
        resolved.append(weighted(VerifierConfig(name=name, options={**own, **changed}), part.task))
    return resolved


def _options(text: str, options: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for option in re.split(r",(?=\w+=)", options) if options else ():  # a value may have commas
        key, sign, value = option.partition("=")
        if not sign or not key.isidentifier():
            raise ReasonRLError(f"{text}: {option!r} is no option; write {_FORM}")
        try:
            found[key] = yamltext.parse_value(value)
        except ValueError:
            raise ReasonRLError(f"{text}: {value!r} is no YAML value") from None
    return found


def _opinion(verdict: Verdict) -> Opinion:
    judgement: Judgement = "unjudged" if verdict.reward is None else "right" if verdict.reward >= 1 else "wrong"
    return Opinion(judgement, verdict.reward, verdict.reason, verdict.evidence)


def _differ(opinions: Sequence[Opinion]) -> bool:
    return opinions[0].judgement != opinions[1].judgement


def _reasons(opinions: Sequence[Sequence[Opinion]], place: int) -> dict[str, int]:
    return dict(Counter(pair[place].reason for pair in opinions).most_common())


def _difference(one: Verified, opinions: Sequence[Opinion]) -> Difference:
    problem, given = one.problem, one.given
    pair = opinions[0], opinions[1]
    return Difference(problem.id, problem.row, given.sample, problem.reference, given.text[-TAIL:], pair)
