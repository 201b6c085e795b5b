"""Responses that say nearly the same."""

from collections.abc import Sequence

from reasonrl.pairs.candidates import Candidate

_SHINGLE = 5  # characters: words would be too coarse for formulas


def shingles(text: str) -> frozenset[str]:
    """The pieces of five characters of a text, white space counted as one blank; a shorter text is one piece."""
    plain = " ".join(text.split())
    return frozenset(plain[at : at + _SHINGLE] for at in range(max(1, len(plain) - _SHINGLE + 1)))


def likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Jaccard's index of two sets of pieces: shared by all, from 0 to 1."""
    return len(one & other) / len(one | other)


def without_near_duplicates(candidates: Sequence[Candidate], similarity: float) -> list[Candidate]:
    """The responses to a problem without those that are at least so alike to one that stands before and is kept.

    What is right is compared with what is right, and what is wrong with what is wrong: that a wrong response is nearly
    the right one makes it a better pair.

    Args:
        candidates: of one problem.
        similarity: from 0 to 1 by `likeness`; with 1 only those go that have the same pieces.
    """
    kept: list[tuple[Candidate, frozenset[str]]] = []
    for one in candidates:
        pieces = shingles(one.text)
        if not any(one.correct == other.correct and likeness(pieces, known) >= similarity for other, known in kept):
            kept.append((one, pieces))
    return [one for one, _ in kept]
