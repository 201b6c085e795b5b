"""The kinds of things a check can find, and the tally of them: every case counted, the first few kept."""

from collections import Counter
from dataclasses import dataclass

from reasonrl.checking.records import Example, Finding
from reasonrl.generators import Split

KEPT = 5  # examples of each kind
_SHOWN = 300  # characters of what is quoted in an example
_LEAVE_OUT = "correct them, or leave such rows out with dataset.where"


@dataclass(frozen=True)
class Kind:
    """A kind of finding: what it is, what to do about it, and whether the task is unfit for use with it."""

    what: str
    cure: str
    fault: bool = True


KINDS: dict[str, Kind] = {
    "missing": Kind(
        "verifiers that are not installed",
        "install the plugin that brings it (`reasonrl verifiers list` shows what is there), or name another",
    ),
    "start": Kind("verifiers that cannot run", "nothing was judged from there on; mend the verifier, then check again"),
    "data": Kind("data that cannot be had", ""),
    "row": Kind("rows that cannot become a problem", f"{_LEAVE_OUT} or dataset.skip_faulty: true"),
    "skipped": Kind("rows left out because they cannot become a problem (dataset.skip_faulty)", "", fault=False),
    "empty": Kind("a split without a usable row", "give it data, or leave the split out of the task"),
    "needs": Kind("problems without what a verifier reads", ""),
    "reference": Kind("problems whose reference a verifier cannot use", _LEAVE_OUT),
    "right": Kind("right responses that the judge refuses", "correct the reference, or the judge's options"),
    "wrong": Kind("wrong responses that the judge accepts", "make the judge stricter by its options, or take another"),
    "unjudged": Kind("responses made by the judge that it cannot judge", "raise --deadline if they are timeouts"),
    "cheat": Kind(
        "cheats that the judge rewards: responses that solve nothing",
        "whatever rewards them will be found in training; make the judge stricter, or mend the tests",
    ),
    "making": Kind("problems for which the judge breaks as it makes a response", "mend the verifier"),
    "tokens": Kind("prompts that this model's tokenizer does not take", ""),
    "ids": Kind("problems with the id of an earlier row", "choose another `id` column, or none: rows are numbered"),
    "overlap": Kind(
        "held-out problems that are in the training split, too",
        "leave them out of one of the two with dataset.where; else the evaluation measures memory",
    ),
    "shown": Kind(
        "held-out problems that prompts show with their solution, as few-shot examples",
        "take other examples (prompt.few_shot), or leave such problems out with dataset.where",
    ),
    "duplicates": Kind(
        "problems whose text stands in an earlier row",
        "the model sees them more often than the others; leave them out if that is not meant",
        fault=False,
    ),
    "context": Kind(
        "prompts that do not fit the model's context together with the longest response",
        "lower sampling.max_tokens, or leave them out of a run with task.max_prompt_tokens",
        fault=False,
    ),
}


class Tally:
    """What is found in one split of one task."""

    def __init__(self, task: str, split: Split | None) -> None:
        self._task, self._split = task, split
        self.counts: Counter[str] = Counter()
        self._examples: dict[str, list[Example]] = {}

    def add(self, kind: str, row: int | None, text: str, count: int = 1) -> None:
        """One more case of a kind; or `count` of them, of which the text tells."""
        self.counts[kind] += count
        examples = self._examples.setdefault(kind, [])
        if len(examples) < KEPT:
            examples.append(Example(row, text))

    def findings(self) -> list[Finding]:
        """One finding for each kind there are cases of, in the order of KINDS."""
        return [
            Finding(
                self._task,
                self._split,
                kind,
                about.what,
                self.counts[kind],
                about.cure,
                tuple(sorted(self._examples[kind], key=lambda one: -1 if one.row is None else one.row)),
            )
            for kind, about in KINDS.items()
            if self.counts[kind]
        ]


def cut(text: str, most: int = _SHOWN) -> str:
    """The text, or its beginning with an ellipsis, for an example."""
    return text if len(text) <= most else text[:most] + "…"
