"""Files of solutions with labelled steps, ours and the ecosystem's.

| columns | whose | labels |
|---|---|---|
| prompt, completions, labels | `reasonrl build steps`, TRL | true or false, a number from 0 to 1, or null |
| problem, steps, label | ProcessBench | the first wrong step from 0, or −1; none behind a wrong step |
| input, label | Math-Shepherd | one text twice, with the tag ки, and + or −, at the end of each step |
| question, label.steps | PRM800K | the rating of the completion that was gone on with; 0 and 1 are good |
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reasonrl.columns import names
from reasonrl.examples import left_out, read_examples

NO_LABELS = "no step has a label"
_TAG = "ки"
_FIRST = "Step 1:"


@dataclass(frozen=True)
class Solution:
    """A solution with labelled steps.

    Attributes:
        question: the problem.
        steps: in order, without white space around them.
        labels: of each step from 0 (bad) to 1 (good); None where it has none.
    """

    question: str
    steps: tuple[str, ...]
    labels: tuple[float | None, ...]


@dataclass
class Solutions:
    """What files of labelled steps hold.

    Attributes:
        solutions: those that can be used, in order.
        skipped: how many cannot, by the reason.
    """

    solutions: list[Solution] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    def line(self) -> str:
        """What was skipped, in one line."""
        return left_out(self.skipped, len(self.solutions), "solutions")


def read_solutions(files: Sequence[str | Path]) -> Solutions:
    """The solutions of files (JSON Lines, JSON, CSV, Parquet), in any of the forms above.

    Raises:
        ReasonRLError: a row has none of these forms, a value is of another kind, or nothing is left to learn from.
    """
    return Solutions(*read_examples(files, solution_of, _useless, kind="solutions", lacking="labelled steps"))


def _useless(solution: Solution) -> str | None:
    return NO_LABELS if all(label is None for label in solution.labels) else None


def solution_of(row: Mapping[str, Any]) -> Solution:
    """A solution from a row; empty steps are left out with their labels.

    Raises:
        ValueError: it has none of the forms, or holds something else than they do.
    """
    for columns, read in _FORMS.items():
        if all(column in row for column in columns):
            question, steps, labels = read(row)
            kept = [(step.strip(), label) for step, label in zip(steps, labels, strict=True) if step.strip()]
            if not question.strip():
                raise ValueError("the question is empty")
            return Solution(question, tuple(step for step, _ in kept), tuple(label for _, label in kept))
    forms = "; ".join(" and ".join(columns) for columns in _FORMS)
    raise ValueError(f"no labelled steps: the data has {names(row)}; expected one of these: {forms}")


_Read = tuple[str, Sequence[str], Sequence[float | None]]


def _trl(row: Mapping[str, Any]) -> _Read:
    prompt, steps, labels = row["prompt"], _texts(row["completions"], "completions"), row["labels"]
    if isinstance(prompt, list) and all(isinstance(one, dict) for one in prompt):
        prompt = next((one.get("content") for one in reversed(prompt) if one.get("role") == "user"), None)
    if not isinstance(labels, list) or len(labels) != len(steps):
        raise ValueError(f"labels holds {labels!r:.80}, expected {len(steps)}, one for each of the completions")
    return _text(prompt, "prompt"), steps, [_label(one) for one in labels]


def _processbench(row: Mapping[str, Any]) -> _Read:
    steps, first = _texts(row["steps"], "steps"), row["label"]
    if isinstance(first, bool) or not isinstance(first, int) or not -1 <= first < len(steps):
        raise ValueError(f"label holds {first!r:.80}, expected a step from 0 to {len(steps) - 1}, or -1")
    right = len(steps) if first < 0 else first
    labels = [1.0 if at < right else 0.0 if at == right else None for at in range(len(steps))]
    return _text(row["problem"], "problem"), steps, labels


def _math_shepherd(row: Mapping[str, Any]) -> _Read:
    pieces, labelled = _text(row["input"], "input").split(_TAG), _text(row["label"], "label")
    steps, labels, at = [], list[float | None](), 0
    for piece in pieces[:-1]:
        end = at + len(piece)
        sign = labelled[end : end + 1]
        if labelled[at:end] != piece or sign not in ("+", "-"):
            raise ValueError(f"label is not input with + or - in place of {_TAG}, from {labelled[at:][:40]!r} on")
        steps.append(piece)
        labels.append(float(sign == "+"))
        at = end + 1
    start = steps[0].find(_FIRST) if steps else -1
    if start < 0:
        raise ValueError(f"input has no {_FIRST!r} before the first {_TAG}, where its question would end")
    return steps[0][:start].strip(), [steps[0][start:], *steps[1:]], labels


def _prm800k(row: Mapping[str, Any]) -> _Read:
    steps, labels = [], list[float | None]()
    for step in row["label"]["steps"]:
        chosen, written = step.get("chosen_completion"), step.get("human_completion")
        completions = step.get("completions") or []
        if chosen is None and written is not None:  # written by a labeller, where no completion was good
            one = {"rating": 1} | (written if isinstance(written, dict) else {"text": written})
        elif completions:
            one = completions[chosen or 0]
        else:
            break
        rating = one.get("rating")
        steps.append(_text(one.get("text"), "label.steps"))
        labels.append(None if rating is None else float(rating >= 0))
    return _text(row["question"].get("problem"), "question.problem"), steps, labels


def _text(value: Any, column: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{column} holds {value!r:.80}, expected a text")
    return value


def _texts(value: Any, column: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{column} holds {value!r:.80}, expected a list of texts")
    return value


def _label(value: Any) -> float | None:
    if value is not None and (not isinstance(value, bool | int | float) or not 0 <= value <= 1):
        raise ValueError(f"labels holds {value!r:.80}, expected true, false, a number from 0 to 1, or null")
    return None if value is None else float(value)


_FORMS: dict[tuple[str, ...], Callable[[Mapping[str, Any]], _Read]] = {
    ("prompt", "completions", "labels"): _trl,
    ("problem", "steps", "label"): _processbench,
    ("input", "label"): _math_shepherd,
    ("question", "label"): _prm800k,
}
