"""Which problems are the same: not by case, spacing or punctuation, but by every sign of mathematics."""

import pytest

from reasonrl.checking.fingerprints import Fingerprints, normalised


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What is 2+2?", "what is  2 + 2"),
        ("Ein Maß, bitte.", "EIN MASS BITTE"),
        ("x² − 1", "x^2 - 1"),
        ("10¹² + log₂ 8", "10^12 + log_2 8"),
        ("3½", "3 1⁄2"),
        ("What is 12.", "what is 12"),
        ("f(x) = 3, g(x) = .5;", "f( x )=3, g(x) = .5"),
        ("The cat; a dog... and I:", "THE CAT a DOG and I"),
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
        ("3² + 1", "32 + 1"),  # NFKC by itself writes a power as a digit
        ("x² − 1", "x2 - 1"),
        ("log₂ 8", "log2 8"),
        ("3½", "31⁄2"),
        ("3①", "31"),
        (".5 + 1", "5 + 1"),
        ("log .5", "log 5"),
        ("12, 3", "12 3"),
        ("1, 234", "1,234"),
        ("5. 3", "5.3"),
        ("f(a, 3)", "f(a 3)"),
        ("x, y", "x y"),
        ("f(x), g(x)", "f(x) g(x)"),
        ("1; 2", "1 2"),
        ("5 ? 3", "5 3"),
        ("A + a", "a + a"),
        ("If X is 2x", "if x is 2x"),
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
    rows, others = one.common(other)
    assert (rows.tolist(), others.tolist()) == ([1, 2, 3], [102, 100, 102])
    for none, some in ((one, prints()), (prints(), one)):
        rows, others = none.common(some)
        assert rows.size == others.size == 0
