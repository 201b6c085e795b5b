"""What was built from what: counts, and warnings about what training would learn beside the task."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from reasonrl.pairs.candidates import Candidate, Problems
from reasonrl.pairs.choices import Pair, length_bias

_FEW = 100
_BIAS = 0.1


@dataclass
class Summary:
    """Counts of responses, problems and what was built.

    Attributes:
        responses, unjudged, truncated, empty, duplicates: responses read, and those left out, by the reason.
        problems, all_right, all_wrong: problems with a judged response, and those whose responses all agree.
        built, covered: pairs or demonstrations, and the problems that have one.
        chosen_tokens, rejected_tokens: mean lengths; 0 where there are none.
        bias: see `choices.length_bias`.
        longer: share of the pairs whose chosen response is the longer one.
        kind: "pairs" or "demonstrations".
    """

    responses: int
    unjudged: int
    problems: int
    all_right: int
    all_wrong: int
    truncated: int = 0
    empty: int = 0
    duplicates: int = 0
    built: int = 0
    covered: int = 0
    chosen_tokens: float = 0.0
    rejected_tokens: float = 0.0
    bias: float = 0.0
    longer: float = 0.0
    kind: str = "pairs"

    @classmethod
    def of(cls, problems: Problems) -> "Summary":
        """What there is to begin with."""
        correct = [[one.correct for one in group] for group in problems.groups]
        return cls(
            responses=problems.responses,
            unjudged=problems.unjudged,
            problems=len(correct),
            all_right=sum(all(group) for group in correct),
            all_wrong=sum(not any(group) for group in correct),
        )

    def of_pairs(self, pairs: Sequence[Pair]) -> None:
        """Count the pairs."""
        self._count([pair.chosen for pair in pairs], "pairs")
        if pairs:
            self.rejected_tokens = fmean(pair.rejected.tokens for pair in pairs)
            self.longer = fmean(pair.gap > 0 for pair in pairs)
        self.bias = length_bias(pairs)

    def of_demonstrations(self, demonstrations: Sequence[Candidate]) -> None:
        """Count the demonstrations."""
        self._count(demonstrations, "demonstrations")

    def _count(self, chosen: Sequence[Candidate], kind: str) -> None:
        self.kind, self.built = kind, len(chosen)
        self.covered = len({(one.problem_id, one.source.run) for one in chosen})
        if chosen:
            self.chosen_tokens = fmean(one.tokens for one in chosen)

    def lines(self) -> list[str]:
        """The counts as lines of text."""
        mixed = self.problems - self.all_right - self.all_wrong
        lines = [
            f"{self.responses:,} responses: {self.unjudged:,} unjudged, {self.truncated:,} cut at the limit, "
            f"{self.empty:,} empty and {self.duplicates:,} nearly the same as another, which are left out",
            f"{self.problems:,} problems: {mixed:,} with right and wrong responses, {self.all_right:,} all right, "
            f"{self.all_wrong:,} all wrong",
            f"{self.built:,} {self.kind} of {self.covered:,} problems",
        ]
        if self.kind == "pairs" and self.built:
            lines.append(
                f"tokens in the mean: {self.chosen_tokens:.1f} chosen, {self.rejected_tokens:.1f} rejected; the chosen "
                f"one is longer in {self.longer:.0%} of the pairs"
            )
        elif self.built:
            lines.append(f"tokens in the mean: {self.chosen_tokens:.1f}")
        return lines

    def warnings(self) -> list[str]:
        """What should be looked at before training, each with a cure."""
        found = []
        if self.built < _FEW:
            found.append(
                f"{self.built} {self.kind} are few; sample more responses a problem, raise --per-problem, or take "
                "problems that are neither all right nor all wrong"
            )
        if abs(self.bias) > _BIAS:
            longer = "longer" if self.bias > 0 else "shorter"
            found.append(
                f"length bias: chosen responses are {abs(self.bias):.0%} {longer} than rejected ones, and {longer} is "
                "what would be learnt first; take --choice balanced or --length-bias 0.05"
            )
        return found
