"""Which problems are the same: not by case, spacing or punctuation, but by every sign of mathematics."""

import pytest

from reasonrl.checking.fingerprints import Fingerprints, normalised


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What is 2+2?", "what is  2 + 2"),
        ("Ein Maß, bitte.", "EIN MASS BITTE"),
        ("x² − 1", "x2 - 1"),  # NFKC writes the power as a digit
        ("“Go”, she said: now!", '"Go" she said now!'),
        ("cost: $5.50.", "cost 5.50"),
        ("ﬁnd ½", "find 1⁄2"),
        ("a\n\nb\t c", "a b c"),
        ("f’(x)", "f'(x)"),
    ],
)
def test_the_same_problem_written_differently(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("3 - 2", "3 * 2"),
        ("3 + 2", "3 2"),
        ("3.5 m", "35 m"),
        ("3.5 m", "3 5 m"),
        ("1, 2", "12"),
        ("(0, 1)", "[0, 1]"),
        ("5!", "5"),
        ("f'(x)", "f(x)"),
        ("3:2", "3 2"),
        ("a b", "ab"),
        ("x < y", "x > y"),
    ],
)
def test_another_problem(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)


def prints(*texts: str, start: int = 0) -> Fingerprints:
    found = Fingerprints()
    for row, text in enumerate(texts, start):
        found.add(row, text)
    return found


def test_repeats_are_counted_against_the_first_row_of_their_text() -> None:
    assert prints("a", "b", "a", "c", "a", "b", start=10).repeats(2) == (3, [(12, 10), (14, 10)])
    assert prints("a", "b").repeats(5) == prints().repeats(5) == (0, [])


def test_what_two_have_in_common_is_found_with_both_rows() -> None:
    one, other = prints("x", "b", "a", "b"), prints("a", "c", "b", "b", start=100)
    assert one.common(other, 5) == (3, [(1, 102), (2, 100), (3, 102)])
    assert one.common(other, 1) == (3, [(1, 102)])
    assert one.common(prints(), 5) == prints().common(one, 5) == (0, [])
