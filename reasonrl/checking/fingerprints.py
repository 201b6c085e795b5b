"""Which texts say the same? Found by a fingerprint of 8 bytes each, so that data larger than memory can be compared."""

import hashlib
import re
import unicodedata
from array import array
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

# One sign for what is written in several ways.
_PLAIN = str.maketrans(
    {**dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"), **dict.fromkeys("‘’‚‛", "'")}
)
_PLAIN |= str.maketrans(dict.fromkeys("“”„‟«»", '"'))
# What stands before characters that Unicode's NFKC writes as plain ones: else 3² were 32, and 3½ were 31/2.
_BEFORE = {"<super>": "^", "<sub>": "_", "<fraction>": " ", "<circle>": " "}
_WORD = re.compile(r"[^\W\d_]{2,}")
# The stops of sentences stand after a word or quote, or at the end; others may be of mathematics: .5, (0, 1), f(x, y).
_STOPS = re.compile(r"""[.,:;?\s]+$|\$|(?:(?<=[^\W\d_][^\W\d_])|(?<=")) ?[.,:;?]+(?!\d)""")
_AROUND_SIGNS = re.compile(r" ?([^\w\s.,:;?]) ?")


def normalised(text: str) -> str:
    """The text without what two copies of one problem may differ in: white space, width, case of words, punctuation.

    What may be mathematics stays: signs (3 - 2 is not 3 * 2), powers and indices (3² is 3^2, not 32), the case of
    single letters (A + a), and stops but at the end of the text, or after a word of two or more letters or a closing
    quote, with no digit right after them (.5 is not 5, and 12, 3 not 12 3). The sign $ goes, for it also encloses TeX.
    """
    text = "".join(_BEFORE.get(kind, "") + "".join(same) for kind, same in groupby(text, _kind))
    text = _WORD.sub(lambda word: word[0].casefold(), unicodedata.normalize("NFKC", text)).translate(_PLAIN)
    text = _AROUND_SIGNS.sub(r"\1", " ".join(text.split()))
    return _AROUND_SIGNS.sub(r"\1", " ".join(_STOPS.sub(" ", text).split())).strip()


def _kind(character: str) -> str:
    """How Unicode makes a character of plain ones, if it does."""
    return "" if character.isascii() else unicodedata.decomposition(character).partition(" ")[0]


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

    def common(self, other: "Fingerprints") -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """The rows here whose text the other has, too, and for each the first row there."""
        (prints, rows), (others, other_rows) = self._arrays(), other._arrays()
        known, first = np.unique(others, return_index=True)
        here = np.flatnonzero(np.isin(prints, known))
        return rows[here], other_rows[first[np.searchsorted(known, prints[here])]]

    def _arrays(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        return np.array(self._prints, dtype=np.uint64), np.array(self._rows, dtype=np.uint64)
