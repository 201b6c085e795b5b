r"""New collections, relations and choices of each family, made with a known truth, in the spellings that models use."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from math_families import examples, fractions, numbers, right

LETTERS = "xyzt"


Interval = tuple[str, Fraction, Fraction, str]
intervals = st.builds(
    lambda opened, low, width, closed: (opened, low, low + width, closed),
    st.sampled_from("[("), fractions, st.fractions(Fraction(1, 9), 20, max_denominator=12), st.sampled_from("])"),
)  # fmt: skip


@st.composite
def written(draw: st.DrawFn, interval: Interval) -> str:
    """An interval in brackets or as an inequality."""
    opened, low, high, closed = interval
    ends = f"{low.numerator}/{low.denominator}", rf"\frac{{{high.numerator}}}{{{high.denominator}}}"
    less = [r"\leq" if bracket in "[]" else "<" for bracket in (opened, closed)]
    more = [r"\ge" if bracket in "[]" else ">" for bracket in (closed, opened)]
    letter = draw(st.sampled_from(LETTERS))
    return draw(
        st.sampled_from(
            [
                rf"\left{opened}{ends[0]}, {ends[1]}\right{closed}",
                rf"{letter} \in {opened}{ends[0]},{ends[1]}{closed}",
                f"{ends[0]} {less[0]} {letter} {less[1]} {ends[1]}",
                f"{ends[1]} {more[0]} {letter} {more[1]} {ends[0]}",
                rf"{letter} {more[1]} {ends[0]} \text{{ and }} {letter} {less[1]} {ends[1]}",
                f"-2{letter} {less[0].replace('leq', 'le')} -2({ends[0]}), {letter} {less[1]} {ends[1]}",
            ]
        )
    )


@given(st.data(), intervals, intervals, st.sampled_from(["same", "other", "ends"]))
@examples
def test_intervals_and_inequalities(data: st.DataObject, one: Interval, other: Interval, how: str) -> None:
    flipped: Interval = ("(" if one[0] == "[" else "[", *one[1:])
    other = {"same": one, "other": other, "ends": flipped}[how]
    assert right(data.draw(written(one)), data.draw(written(other))) == (one == other)


@given(st.integers(-30, 30), st.integers(1, 30), st.booleans())
@settings(examples, max_examples=20)
def test_distances_and_what_is_left_out(middle: int, size: int, closed: bool) -> None:
    low, high = middle - size, middle + size
    within, beyond = (r"\leq", ">") if closed else ("<", r"\geq")
    inner = f"|x - ({middle})|"
    inside = f"[{low}, {high}]" if closed else f"({low}, {high})"
    assert right(inside, f"{inner} {within} {size}")
    assert right(rf"\mathbb{{R}} \setminus {inside}", f"{inner} {beyond} {size}")
    assert not right(inside, f"{inner} {within} {size + 1}")
    assert not right(inside, f"{inner} {beyond} {size}")
    left_out = rf"\mathbb{{R}} \setminus \{{{-size}, {size}\}}"
    assert right(left_out, rf"x \neq \pm {size}")
    assert right(left_out, rf"x \neq {size}, -{size}")
    assert not right(left_out, rf"x \neq {size}")


@given(st.data(), st.lists(numbers, min_size=4, max_size=4, unique=True))
@examples
def test_unions_in_any_order(data: st.DataObject, ends: list[int]) -> None:
    a, b, c, d = sorted(ends)
    assume(b < c)
    reference = rf"({a},{b}] \cup [{c},{d})"
    assert right(reference, rf"[{c},{d}) \cup ({a},{b}]")
    assert right(reference, rf"({a},{d}) \setminus ({b},{c})")
    assert right(reference, rf"{a} < x \leq {b} \text{{ or }} {c} \leq x < {d}")
    assert not right(reference, rf"({a},{b}) \cup [{c},{d})")
    assert not right(reference, f"({a},{d})")
    assert right(
        rf"(-\infty,{a}) \cup ({a}, \infty)",
        data.draw(st.sampled_from([rf"x \neq {a}", rf"\mathbb{{R}} \setminus \{{{a}\}}"])),
    )


@given(st.data(), st.lists(numbers, min_size=2, max_size=5), st.lists(numbers, min_size=2, max_size=5), st.booleans())
@examples
def test_sets_and_lists_have_no_order(data: st.DataObject, one: list[int], other: list[int], same: bool) -> None:
    other = data.draw(st.permutations(one)) if same else other
    forms = [", ".join(map(str, other)), r"\{" + ",".join(map(str, other)) + r"\}"]
    forms.append(", ".join(map(str, other[:-1])) + rf" \text{{ and }} {other[-1]}")
    forms.append(" or ".join(f"x={item}" for item in other))
    reference = data.draw(st.sampled_from([", ".join(map(str, one)), r"\{" + ", ".join(map(str, one)) + r"\}"]))
    assert right(reference, data.draw(st.sampled_from(forms))) == (Counter(one) == Counter(other))


@given(
    st.data(), st.lists(fractions, min_size=2, max_size=4), st.lists(fractions, min_size=2, max_size=4), st.booleans()
)
@examples
def test_tuples_are_ordered(data: st.DataObject, one: list[Fraction], other: list[Fraction], same: bool) -> None:
    other = one if same else other
    reference, answer = (
        rf"\left({', '.join(f'{item.numerator}/{item.denominator}' for item in items)}\right)" for items in (one, other)
    )
    assert right(reference, answer) == (one == other)
    names = ", ".join(f"{name} = {item}" for name, item in zip("abcd", other, strict=False))
    assert right(reference, names) == (one == other)
    if one[0] != one[-1]:
        turned = [*one[1:-1], one[0]] if len(one) == 2 else [one[-1], *one[1:-1], one[0]]
        assert not right(reference, f"({', '.join(map(str, turned))})")


entries = st.lists(st.lists(numbers, min_size=2, max_size=2), min_size=1, max_size=3)


@given(st.data(), entries, entries, st.booleans(), st.integers(2, 5))
@examples
def test_matrices(data: st.DataObject, one: list[list[int]], other: list[list[int]], same: bool, factor: int) -> None:
    other = one if same else other

    def matrix(rows: list[list[int]], kind: str) -> str:
        lines = r" \\ ".join(" & ".join(map(str, row)) for row in rows)
        name = kind.partition("}")[0]
        return rf"\begin{{{name}}}{kind[len(name) + 1 :]} {lines} \end{{{name}}}"

    answers = [
        matrix(other, "bmatrix"),
        rf"\left[{matrix(other, 'array}{cc}')}\right]",
        rf"\frac{{1}}{{{factor}}} {matrix([[factor * item for item in row] for row in other], 'pmatrix')}",
    ]
    assert right(matrix(one, "pmatrix"), data.draw(st.sampled_from(answers))) == (one == other)


@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(-20, 20), st.sampled_from([-6, -1, 2, 7]), st.integers(1, 9))
@examples
def test_equations_up_to_a_factor(a: int, b: int, c: int, factor: int, more: int) -> None:
    assume(a)
    assume(b)
    reference = f"{a}x + {b}y + {c} = 0".replace("+ -", "- ")
    assert right(reference, f"{factor * a}x + {factor * b}y = {-factor * c}".replace("+ -", "- "))
    assert right(reference, rf"{a}x = -({b}y) - ({c})")
    assert right(reference, rf"y = \frac{{{-a}x - ({c})}}{{{b}}}")
    assert not right(reference, f"{a}x + {b}y + {c + more} = 0")
    assert not right(reference, f"{a}x - ({b})y + {c} = 0")
    assert not right(reference, str(c))


@given(st.sampled_from("xyk"), fractions, st.integers(1, 9))
@examples
def test_a_chain_must_hold(name: str, value: Fraction, part: int) -> None:
    text = f"{value.numerator}/{value.denominator}"
    rest = value - part
    assert right(text, f"{name} = {rest.numerator}/{rest.denominator} + {part} = {text}")
    assert not right(text, f"{name} = {part} + {text} = {text}")
    assert not right(text, f"{rest.numerator}/{rest.denominator} = {text}")


@given(st.integers(-30, 30), st.integers(2, 60), st.integers(1, 9))
@examples
def test_plus_and_minus(p: int, q: int, r: int) -> None:
    reference = rf"x = \frac{{{p} \pm \sqrt{{{q}}}}}{{{r}}}"
    plus, minus = (rf"\frac{{{p} {sign} \sqrt{{{q}}}}}{{{r}}}" for sign in "+-")
    assert right(reference, f"{minus}, {plus}")
    assert right(rf"\{{{plus}, {minus}\}}", reference)
    assert right(reference, rf"x = {plus} \text{{ or }} x = {minus}")
    assert not right(reference, plus)
    assert not right(reference, f"{plus}, {plus}")


CHOICES = ["{}", "({})", r"\text{{({})}}", r"\textbf{{{}}}", "{}. 14", "{}: it doubles", "Option {}"]


@given(st.sampled_from("ABCDE"), st.sampled_from("ABCDE"), st.sampled_from(CHOICES))
@examples
def test_choices(one: str, other: str, form: str) -> None:
    assert right(one, form.format(other)) == (one == other)
    assert not right(one, f"{one}, {'A' if one != 'A' else 'B'}")


@pytest.mark.parametrize(
    "answer", [r"3 \text{ or } 4", r"\{3, 5\}", "(2, 4)", "n", r"\pm 3", r"3 < 4", r"x \in \mathbb{R}"]
)
def test_a_number_is_expected(answer: str) -> None:
    assert not right("3", answer, expect="number")
    assert right("3", "x = 3", expect="number")


@pytest.mark.parametrize(
    ("reference", "answer", "expect", "equal"),
    [
        ("B", "(B) 12", "choice", True),
        ("B", "b", "choice", True),
        ("B", "12", "choice", False),
        ("B", "A or B", "choice", False),
        ("x + y", r"\text{X + Y}", "words", True),
        ("1 + 1", "2", "words", False),
    ],
)
def test_the_kind_that_is_expected(reference: str, answer: str, expect: str, equal: bool) -> None:
    assert right(reference, answer, expect=expect) == equal


@pytest.mark.parametrize(
    ("reference", "answer"), [("[1, 5]", "1, 5"), (r"\{\{1, 2\}\}", r"\{1, 2\}"), (r"\emptyset", r"\{\{\}\}")]
)
def test_collections_that_are_not_their_items(reference: str, answer: str) -> None:
    assert right(reference, reference)
    assert not right(reference, answer)
    assert not right(answer, reference)
