"""Which texts say the same? Found by a fingerprint of 8 bytes each, so that data larger than memory can be compared."""

import hashlib
import re
import unicodedata
from array import array

import numpy as np
from numpy.typing import NDArray

# One sign for what is written in several ways.
_PLAIN = str.maketrans(
    {**dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"), **dict.fromkeys("‘’‚‛", "'")}
)
_PLAIN |= str.maketrans(dict.fromkeys("“”„‟«»", '"'))
# Punctuation of sentences; but none within a number or ratio (3.5, 1,000, 3:2), and no sign of mathematics (5!, f').
_STOPS = re.compile(r"[;?$]+|(?<!\d)[.,:]+|[.,:]+(?!\d)")
_AROUND_SIGNS = re.compile(r" ?([^\w\s]) ?")


def normalised(text: str) -> str:
    """The text without what two copies of one problem may differ in: case, width, white space, punctuation.

    Signs of mathematics stay: 3 - 2 is another problem than 3 * 2, and (0, 1) another interval than [0, 1].
    """
    text = unicodedata.normalize("NFKC", text).casefold().translate(_PLAIN)
    return _AROUND_SIGNS.sub(r"\1", " ".join(_STOPS.sub(" ", text).split())).strip()


class Fingerprints:
    """Fingerprints of texts with the row each stands in: 16 bytes a text. Two texts of 2^64 may share one."""

    def __init__(self) -> None:
        self._prints = array("Q")
        self._rows = array("Q")

    def add(self, row: int, text: str) -> None:
        """Take a text in, as it is."""
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        self._prints.append(int.from_bytes(digest, "little"))
        self._rows.append(row)

    def repeats(self, most: int) -> tuple[int, list[tuple[int, int]]]:
        """How many texts were there before; and of the first so many of them the row, and the row of the first one."""
        prints, rows = self._arrays()
        _, first, which = np.unique(prints, return_index=True, return_inverse=True)
        again = np.flatnonzero(first[which] != np.arange(len(prints)))
        return len(again), [(int(rows[at]), int(rows[first[which[at]]])) for at in again[:most]]

    def common(self, other: "Fingerprints", most: int) -> tuple[int, list[tuple[int, int]]]:
        """How many texts the other has, too; and of the first so many the row here and the first row there."""
        (prints, rows), (others, other_rows) = self._arrays(), other._arrays()
        known, first = np.unique(others, return_index=True)
        here = np.flatnonzero(np.isin(prints, known))
        there = first[np.searchsorted(known, prints[here[:most]])]
        return len(here), [(int(rows[a]), int(other_rows[b])) for a, b in zip(here[:most], there, strict=True)]

    def _arrays(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        return np.array(self._prints, dtype=np.uint64), np.array(self._rows, dtype=np.uint64)
