r"""New numbers and expressions of each family, made with a known truth, in the spellings that models use."""

import re
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from math_families import examples, fractions, numbers, right


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


@given(st.integers(2, 9), st.integers(0, 5000), st.integers(1, 9))
@examples
def test_a_number_beside_its_digits_in_a_base(base: int, number: int, more: int) -> None:
    digits, rest = "", number
    while rest or not digits:
        digits, rest = str(rest % base) + digits, rest // base
    assert right(f"{digits}_{base}", rf"{number} = {digits}_{{{base}}}")
    assert right(f"{digits}_{base}", rf"{digits} \text{{ (base {base})}}")
    assert right(str(number), f"{digits}_{base} = {number}")
    assert not right(f"{digits}_{base}", rf"{number + more} = {digits}_{{{base}}}")
    assert not right(f"{digits}_{base}", str(number))
    assert not right(f"{digits}_{base}", f"{digits}{base}_{base}")


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


@given(st.integers(1, 999), st.sampled_from([("thousand", 3), ("million", 6), ("billion", 9)]), st.integers(1, 3))
@examples
def test_words_of_magnitude(number: int, word: tuple[str, int], shift: int) -> None:
    answer = rf"{number} \text{{ {word[0]}}}"
    assert right(str(number * 10 ** word[1]), answer)
    assert right(rf"\${number}{'0' * word[1]}", rf"\${answer}")
    assert not right(str(number * 10 ** (word[1] + shift)), answer)
    assert not right(str(number), answer)


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 9), st.integers(1, 9))
@examples
def test_a_ratio_equals_a_ratio_and_no_number(a: int, b: int, factor: int, more: int) -> None:
    for answer in (
        f"{factor * a}:{factor * b}",
        rf"{a} \text{{ to }} {b}",
        rf"\frac{{{a}}}{{{factor}}} : {b}/{factor}",
    ):
        assert right(f"{a} : {b}", answer)
    assert not right(f"{a} : {b}", f"{a + more} : {b}")
    assert not right(f"{a} : {b}", f"{a}/{b}")
    assert not right(f"{a}/{b}", f"{a} : {b}")
    assert right(f"{a} : {b} : {more}", f"{factor * a} : {factor * b} : {factor * more}")
    assert not right(f"{a} : {b} : {more}", f"{a} : {b}")


@given(st.integers(1, 11), st.integers(0, 59), st.integers(1, 11))
@examples
def test_times_of_day(hour: int, minute: int, later: int) -> None:
    time, other = f"{hour}:{minute:02d}", f"{(hour + later - 1) % 12 + 1}:{minute:02d}"
    assert right(rf"{time} \text{{ p.m.}}", f"{time} PM")
    assert right(rf"{time} \text{{ p.m.}}", time)
    assert right(rf"\text{{{time} p.m.}}", f"{hour + 12}:{minute:02d}")
    assert not right(rf"{time} \text{{ a.m.}}", rf"{time} \text{{ p.m.}}")
    assert right(time, other) == (time == other)


SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


@given(st.integers(2, 12), st.integers(-15, 15))
@examples
def test_raised_digits(base: int, exponent: int) -> None:
    raised = f"{base}{str(exponent).translate(SUPERSCRIPTS)}"
    assert right(f"{base}^{{{exponent}}}", raised)
    assert not right(f"{base}^{{{exponent + 1}}}", raised)


@pytest.mark.parametrize(
    ("text", "value"), [(r"0.\dot{3}", "1/3"), (r"0.1\dot6", "1/6"), (r"0.\dot{1}4285\dot{7}", "1/7")]
)
def test_dots_over_repeating_digits(text: str, value: str) -> None:
    assert right(value, text)
    assert right(text, value)
    assert not right(value, re.sub(r"\\dot|[{}]", "", text))
