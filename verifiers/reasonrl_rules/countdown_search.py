"""Searches an expression over given numbers that equals a target."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

MOST_NUMBERS = 6
MOST_STATES = 50_000  # collections of numbers looked at, a few seconds' work; four numbers have some thousands


@dataclass(frozen=True)
class _Term:
    value: int | Fraction  # whole numbers as int, which is many times faster
    text: str


@dataclass
class _Search:
    target: Fraction
    use_all: bool
    seen: set[tuple[int | Fraction, ...]] = field(default_factory=set)

    def run(self, terms: Sequence[_Term]) -> str | None:
        """Depth first; every collection of values is looked at once, however it came about."""
        if not self.use_all or len(terms) == 1:
            for term in terms:
                if term.value == self.target:
                    return term.text
        values = tuple(sorted(term.value for term in terms))
        if values in self.seen or len(self.seen) >= MOST_STATES:
            return None
        self.seen.add(values)
        for i in range(len(terms)):
            for j in range(i):
                rest = [term for at, term in enumerate(terms) if at not in (i, j)]
                for joined in _joined(terms[i], terms[j]):
                    found = self.run([*rest, joined])
                    if found is not None:
                        return found
        return None


def find_expression(numbers: Sequence[int], target: Fraction, use_all: bool) -> str | None:
    """An expression with each number at most once (with `use_all`: exactly once), or None if none was found.

    Negative values on the way are left out: signs can be moved to the outside, so a target of at least 0 never needs
    them. Bounded: at most MOST_NUMBERS numbers and MOST_STATES states.
    """
    if not 0 < len(numbers) <= MOST_NUMBERS or target < 0:
        return None
    found = _Search(target, use_all).run([_Term(number, str(number)) for number in numbers])
    return found[1:-1] if found is not None and found.startswith("(") else found  # the outermost pair


def _joined(one: _Term, other: _Term) -> Iterator[_Term]:
    """The two as one, in every way that makes a difference."""
    small, large = sorted((one, other), key=lambda term: term.value)
    yield _Term(large.value + small.value, f"({large.text} + {small.text})")
    yield _Term(large.value - small.value, f"({large.text} - {small.text})")
    yield _Term(large.value * small.value, f"({large.text} * {small.text})")
    if small.value:
        yield _Term(_ratio(large.value, small.value), f"({large.text} / {small.text})")
    if large.value:
        yield _Term(_ratio(small.value, large.value), f"({small.text} / {large.text})")


def _ratio(top: int | Fraction, bottom: int | Fraction) -> int | Fraction:
    ratio = Fraction(top) / bottom
    return ratio.numerator if ratio.denominator == 1 else ratio
