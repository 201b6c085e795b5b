"""A task's verifiers put to the test: can they use every reference, and does the judge tell right from wrong?"""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from reasonrl import plugins
from reasonrl.checking.kinds import Tally, cut
from reasonrl.checking.records import Examined, Tried
from reasonrl.errors import ReasonRLError
from reasonrl.scoring import Scored, Scorer
from reasonrl.scoring.resolve import check_problems, weighted
from reasonrl.tasks import Task
from reasonrl.types import Problem, Response
from reasonrl.verifier import Verifier

_QUOTED = 120  # characters of a response or a reference in an example
Numbered = tuple[int, Problem]


class Judging:
    """The installed verifiers of a task, in worker processes as in training; the others are left out.

    The judge's `right_response`, `wrong_response` and `cheats` run in this process and have no deadline: they must
    return.

    Args:
        task: whose verifiers.
        workers, deadline: as of `Scorer`.
        tally: where it is counted that they cannot start.

    Raises:
        ReasonRLError: the options of a verifier are wrong.
    """

    def __init__(self, task: Task, workers: int, deadline: float, tally: Tally) -> None:
        known = plugins.installed().verifiers
        self._verifiers = [weighted(entry, task.task) for entry in task.verifiers if entry.name in known]
        self._scorers: list[Scorer] = []
        self._judge: Verifier | None = None
        self._tally = tally
        judged = task.verifiers[0].name in known
        # The judge has a scorer of its own: only it is shown made responses, which have no tokens for others to count.
        groups = (self._verifiers[:1], self._verifiers[1:]) if judged else (self._verifiers,)
        try:
            for group in filter(None, groups):
                self._scorers.append(Scorer(group, workers=workers, deadline=deadline))
            if judged:
                self._judge = self._verifiers[0].verifier(self._verifiers[0].options)
        except Exception as error:  # noqa: BLE001  of a verifier, which may raise anything as it is made
            self._stop(error)

    def examine(self, problems: Sequence[Numbered], tally: Tally, cheated: int) -> Examined:
        """Let the verifiers look at problems, given with their rows; cheats are tried on so many of the usable ones."""
        complete = [one for one in problems if self._complete(one, tally)]
        usable = complete
        try:
            for scorer in self._scorers:
                usable = _audited(scorer, usable, tally)
            right, wrong = self._try(usable, tally)
            cheats = self._cheat(usable[:cheated], tally)
        except ReasonRLError as error:
            self._stop(error)
        if not self._scorers:
            return Examined()
        return Examined(len(complete), len(usable), right, wrong, cheats)

    def close(self) -> None:
        """Kill the workers."""
        for scorer in self._scorers:
            scorer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _stop(self, error: Exception) -> None:
        self.close()
        self._scorers.clear()
        self._judge = None
        self._tally.add("start", None, str(error) or type(error).__name__)

    def _complete(self, numbered: Numbered, tally: Tally) -> bool:
        row, problem = numbered
        try:
            check_problems(self._verifiers, [problem])
        except ReasonRLError as error:
            tally.add("needs", row, str(error))
            return False
        return True

    def _try(self, problems: Sequence[Numbered], tally: Tally) -> tuple[Tried, Tried]:
        """Submit what the judge makes right and wrong of each problem, and see whether it says so."""
        if self._judge is None:
            return Tried(), Tried()
        scorer = self._scorers[0]
        made = _responses(self._judge, problems, tally)
        by_row = dict(problems)
        for (row, right), text in made.items():
            scorer.submit((row, right), by_row[row], Response(text))
        scored = scorer.collect()
        for (row, right), text in made.items():
            _count(scored[row, right], row, right, text, by_row[row], tally)
        of_right, of_wrong = ([scored[key] for key in made if key[1] is side] for side in (True, False))
        return _tried(of_right, True, len(problems)), _tried(of_wrong, False, len(problems))

    def _cheat(self, problems: Sequence[Numbered], tally: Tally) -> Tried:
        """Submit the judge's cheats on each problem, and see that none is rewarded."""
        if self._judge is None:
            return Tried()
        scorer, texts = self._scorers[0], _cheats(self._judge, problems, tally)
        by_row = dict(problems)
        for (row, at), text in texts.items():
            scorer.submit((row, at), by_row[row], Response(text))
        rewards = {key: scored.verdicts[0].reward for key, scored in scorer.collect().items()}
        for (row, at), text in texts.items():
            if (reward := rewards[row, at]) is None or reward > 0:
                kind = "unjudged" if reward is None else "cheat"
                tally.add(kind, row, f"cheat {at + 1}, {cut(text, _QUOTED)!r}: reward {reward}")
        kept = [reward is not None and reward <= 0 for reward in rewards.values()]
        return Tried(len(kept), sum(kept), sum(reward is None for reward in rewards.values()))


def _audited(scorer: Scorer, problems: Sequence[Numbered], tally: Tally) -> list[Numbered]:
    """The problems whose reference all verifiers can use."""
    rows = {id(problem): row for row, problem in problems}
    faulty = set()
    for problem, fault in scorer.audit([problem for _, problem in problems]):
        row = rows[id(problem)]
        faulty.add(row)
        reference = "" if problem.reference is None else f"reference {cut(problem.reference, _QUOTED)!r}: "
        tally.add("reference", row, reference + cut(fault))
    return [(row, problem) for row, problem in problems if row not in faulty]


def _responses(judge: Verifier, problems: Sequence[Numbered], tally: Tally) -> dict[tuple[int, bool], str]:
    """What the judge makes of each problem, by row and by whether it is right."""
    makers = {True: judge.right_response, False: judge.wrong_response}
    asked = {(row, right): _made(makers[right], row, problem, tally) for row, problem in problems for right in makers}
    return {key: text for key, text in asked.items() if text is not None}


def _made(maker: Callable[[Problem], str | None], row: int, problem: Problem, tally: Tally) -> str | None:
    try:
        text = maker(problem)
        if text is not None and not isinstance(text, str):
            raise TypeError(f"expected text or None, not {type(text).__name__}")
    except Exception as error:  # noqa: BLE001  of a verifier, which may raise anything
        tally.add("making", row, cut(f"{maker.__name__}: {type(error).__name__}: {error}"))
        return None
    return text


def _cheats(judge: Verifier, problems: Sequence[Numbered], tally: Tally) -> dict[tuple[int, int], str]:
    """The judge's cheats, by row and number."""
    texts: dict[tuple[int, int], str] = {}
    for row, problem in problems:
        try:
            texts.update({(row, at): str(text) for at, text in enumerate(judge.cheats(problem))})
        except Exception as error:  # noqa: BLE001  of a verifier, which may raise anything
            tally.add("making", row, cut(f"cheats: {type(error).__name__}: {error}"))
    return texts


def _count(scored: Scored, row: int, right: bool, text: str, problem: Problem, tally: Tally) -> None:
    if scored.correct is right:
        return
    kind = "unjudged" if scored.correct is None else "right" if right else "wrong"
    verdict = scored.verdicts[0]
    evidence = ", ".join(f"{key}: {_last_line(value)}" for key, value in verdict.evidence.items())
    told = f"made {'right' if right else 'wrong'}, {cut(text, _QUOTED)!r}: {verdict.reason}"
    reference = "" if problem.reference is None else f"; the reference is {cut(problem.reference, _QUOTED)!r}"
    tally.add(kind, row, told + reference + (cut(f" ({evidence})") if evidence else ""))


def _last_line(value: object) -> str:
    """Of a traceback, the line that says it."""
    return (str(value).strip().splitlines() or [""])[-1]


def _tried(scored: Sequence[Scored], right: bool, problems: int) -> Tried:
    return Tried(
        tried=len(scored),
        as_expected=sum(one.correct is right for one in scored),
        unjudged=sum(one.correct is None for one in scored),
        not_tried=problems - len(scored),
    )
