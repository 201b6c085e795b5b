r"""New members of each family of answers, made with a known truth, in the spellings that models use.

Each is judged through the tree alone: the rule that looks at the text is not asked.
"""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from reasonrl_math import equality
from reasonrl_math.equality import Policy

pytestmark = pytest.mark.usefixtures("by_tree")
examples = settings(deadline=None, max_examples=60, phases=[Phase.explicit, Phase.generate])
fractions = st.fractions(-50, 50, max_denominator=60)
numbers = st.integers(-60, 60)
LETTERS = "xyzt"


@pytest.fixture(scope="module")
def by_tree() -> object:
    """Without the shortcut for equal texts, which would hide the parser."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(equality, "same_text", lambda reference, answer: False)
        yield


def right(reference: str, answer: str, **policy: str) -> bool:
    ruling = equality.judge(reference, answer, Policy(**policy))  # type: ignore[arg-type]
    assert ruling.rule != "math-verify", (reference, answer)
    return ruling.right


def signed(number: Fraction, body: str) -> str:
    return f"-{body}" if number < 0 else body


@st.composite
def spelled(draw: st.DrawFn, number: Fraction) -> str:
    """One of the ways to write a rational number."""
    size, times = abs(number), draw(st.integers(1, 4))
    top, bottom = size.numerator, size.denominator
    ways = [
        signed(number, rf"\frac{{{top * times}}}{{{bottom * times}}}"),
        rf"\dfrac{{{signed(number, str(top))}}}{{{bottom}}}",
        signed(number, f"{top}/{bottom}"),
        "x = " + signed(number, rf"\tfrac{{{top}}}{{{bottom}}}"),
        rf"\frac{{{top}}}{{{bottom}}} \cdot ({1 if number >= 0 else -1})",
    ]
    if bottom == 1:
        ways += [signed(number, str(top)), signed(number, f"{top}.0"), rf"\text{{{signed(number, str(top))}}}"]
    if bottom in (2, 4, 5, 8, 10, 16, 20, 25, 40, 50):
        decimal = f"{top * 10**6 // bottom:07d}"
        ways.append(signed(number, f"{decimal[:-6]}.{decimal[-6:].rstrip('0') or '0'}"))
        ways.append(signed(number, f"{float(size * 100):.10g}") + r"\%")
    if size > 1 and bottom > 1:
        whole, rest = divmod(top, bottom)
        ways += [signed(number, rf"{whole}\frac{{{rest}}}{{{bottom}}}"), signed(number, f"{whole} {rest}/{bottom}")]
    return draw(st.sampled_from(ways))


@given(st.data(), fractions, fractions, st.booleans())
@examples
def test_fractions_decimals_percents_and_mixed_numbers(
    data: st.DataObject, one: Fraction, other: Fraction, same: bool
) -> None:
    other = one if same else other
    assert right(data.draw(spelled(one)), data.draw(spelled(other))) == (one == other)


@given(st.integers(1, 99), st.integers(0, 999), st.integers(0, 999), st.sampled_from([",", "{,}", r"\,", r",\!", " "]))
@examples
def test_thousands(first: int, second: int, third: int, mark: str) -> None:
    grouped = f"{first}{mark}{second:03d}{mark}{third:03d}"
    number = first * 10**6 + second * 1000 + third
    assert right(str(number), grouped)
    assert not right(str(number + 1), grouped)
    assert not right(f"{first},{second},{third},5", str(number))


@given(st.integers(1, 99), st.integers(1000, 9999))
@examples
def test_groups_of_other_sizes_are_a_list(first: int, second: int) -> None:
    assert not right(f"{first},{second}", f"{first}{second}")
    assert not right(f"{first}{second}", f"{first},{second}")


@given(st.integers(0, 99), st.integers(0, 99), st.integers(1, 999), st.sampled_from([r"\overline", r"\bar"]))
@examples
def test_repeating_decimals(whole: int, fixed: int, repeated: int, bar: str) -> None:
    assume(repeated != 999)
    text = rf"{whole}.{fixed:02d}{bar}{{{repeated:03d}}}"
    value = whole + Fraction(fixed, 100) + Fraction(repeated, 99900)
    assert right(rf"\frac{{{value.numerator}}}{{{value.denominator}}}", text)
    assert not right(text, f"{whole}.{fixed:02d}{repeated:03d}")
    assert not right(rf"\frac{{{value.numerator + 1}}}{{{value.denominator}}}", text)


@given(st.integers(2, 40), st.integers(1, 40), st.integers(0, 40))
@examples
def test_an_improper_part_makes_no_number(whole: int, bottom: int, more: int) -> None:
    value = whole + Fraction(bottom + more, bottom)
    for text in (f"{whole} {bottom + more}/{bottom}", rf"{whole}\frac{{{bottom + more}}}{{{bottom}}}"):
        assert not right(f"{value.numerator}/{value.denominator}", text)


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


UNITS = [
    (r"\text{ cm}", Fraction(1, 100), "m"), (r"\text{ m}", Fraction(1), "m"),
    (r"\text{ kilometers}", Fraction(1000), "m"),
    (r" \mathrm{mm}", Fraction(1, 1000), "m"), (r"\text{ cm}^2", Fraction(1, 10**4), "m2"),
    (r"\text{ square meters}", Fraction(1), "m2"), (r"\text{ hours}", Fraction(3600), "s"),
    (r"\mbox{ minutes}", Fraction(60), "s"), (r"\text{ kg}", Fraction(1000), "g"), (r"\text{ grams}", Fraction(1), "g"),
    (r"\text{ km/h}", Fraction(5, 18), "v"), (r"\text{ m/s}", Fraction(1), "v"),
    (r"\text{ dollars}", Fraction(100), "$"), (r"\text{ cents}", Fraction(1), "$"), (r"^\circ", Fraction(1), "°"),
]  # fmt: skip


@given(st.integers(1, 500), st.sampled_from(UNITS), st.sampled_from(UNITS))
@examples
def test_units(number: int, one: tuple[str, Fraction, str], other: tuple[str, Fraction, str]) -> None:
    converted = number * one[1] / other[1]
    answer = f"{converted.numerator}/{converted.denominator}{other[0]}"
    assert right(f"{number}{one[0]}", answer) == (one[2] == other[2])
    assert right(f"{number}{one[0]}", f"{number}{other[0]}") == (one[1:] == other[1:])
    assert right(f"{number}{one[0]}", str(number))
    assert right(str(number), f"{number}{one[0]}")
    assert not right(f"{number}{one[0]}", str(number), units="required")
    assert not right(f"{number}{one[0]}", f"{number + 1}{one[0]}")


@given(st.integers(2, 9), st.integers(2, 9), st.integers(0, 5000), st.integers(0, 5000))
@examples
def test_bases(base: int, other: int, number: int, wrong: int) -> None:
    def digits(value: int, base: int) -> str:
        return (digits(value // base, base) if value >= base else "") + str(value % base)

    text = digits(number, base)
    assert right(f"{text}_{base}", rf"({text})_{{{base}}}")
    assert right(f"{text}_{base}", rf"{digits(wrong, base)}_{{{base}}}") == (number == wrong)
    assert right(f"{text}_{base}", f"{digits(number, other)}_{other}") == (base == other)


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


@given(numbers, numbers, numbers, numbers)
@examples
def test_polynomials(a: int, b: int, c: int, d: int) -> None:
    """(ax + b)(cx + d), multiplied out."""
    factored = f"({a}x + {b})({c}x + {d})".replace("+ -", "- ")
    assert right(f"{a * c}x^2 + ({a * d + b * c})x + {b * d}", factored)
    assert not right(f"{a * c}x^2 + ({a * d + b * c + 1})x + {b * d}", factored)
    assert not right(f"{a * c}x^2 + ({a * d + b * c})x + {b * d}", factored.replace("x", "y") + " + y^3")


@given(st.integers(1, 9999), st.integers(-12, 12), st.integers(1, 3))
@examples
def test_scientific_notation(digits: int, exponent: int, shift: int) -> None:
    reference = rf"{digits} \times 10^{{{exponent}}}"
    for answer in (
        rf"{digits}0\cdot 10^{{{exponent - 1}}}",
        f"{digits}e{exponent}",
        rf"{digits}.0 * 10^{{{exponent}}}",
    ):
        assert right(reference, answer)
    assert not right(reference, rf"{digits} \times 10^{{{exponent + shift}}}")


@given(st.integers(2, 10**9), st.integers(2, 97), st.integers(20, 300))
@examples
def test_near_and_tiny_numbers_differ(number: int, root: int, digits: int) -> None:
    assume(round(root**0.5) ** 2 != root)
    assert not right(str(number), str(number + 1))
    assert not right(rf"\sqrt{{{root}}}", rf"\sqrt{{{root}}} + 10^{{-{digits}}}")
    assert not right(rf"\frac{{1}}{{2^{{{digits}}}}}", rf"\frac{{1}}{{2^{{{digits + 1}}}}}")
    assert right("0", rf"\sqrt{{{root}}} \cdot \sqrt{{2}} - \sqrt{{{2 * root}}}")


@pytest.mark.parametrize(
    ("answer", "policy", "equal"),
    [
        ("0.3333", {"decimals": "rounded"}, True),
        ("0.333", {"decimals": "rounded"}, False),
        ("0.3334", {"decimals": "rounded"}, False),
        ("0.3333", {}, False),
    ],
)
def test_rounded_decimals(answer: str, policy: dict[str, str], equal: bool) -> None:
    assert right(r"\frac13", answer, **policy) == equal
    assert not right("0.33331", answer, **policy)


def test_percent_policy() -> None:
    assert not right(r"60\%", "60")
    assert right(r"60\%", "60", percent="bare")
    assert not right("60", r"60\%", percent="bare")
    assert not right("0.6", "60", percent="bare")


@pytest.mark.parametrize(
    "answer", [r"3 \text{ or } 4", r"\{3, 5\}", "(2, 4)", "n", r"\pm 3", r"3 < 4", r"x \in \mathbb{R}"]
)
def test_a_number_is_expected(answer: str) -> None:
    assert not right("3", answer, expect="number")
    assert right("3", "x = 3", expect="number")
