"""Templates: what they can do, and that none can hang or flood a run, neither as it is loaded nor on a row."""

import time
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasonrl.tasks.budget import STEP, WORK
from reasonrl.tasks.templates import Template, checked

DOUBLED = "{% set ns = namespace(x='a', y='a') %}{% for i in range(60) %}BODY{% endfor %}"
TREES = DOUBLED.replace("BODY", "{% set ns.x = (ns.x, ns.x) %}{% set ns.y = (ns.y, ns.y) %}")


@pytest.mark.parametrize(
    ("text", "row", "expected"),
    [
        ("{{ a }}-{{ b }}\n", {"a": 3, "b": None}, "3-\n"),
        ("{{ 'ABCD'[a] ~ a ~ none }}{{ x[1:] }}", {"a": 1, "x": "xyz"}, "B1Noneyz"),
        (
            "{{ x | join(', ') }}|{{ y | join('; ', attribute='a') }}",
            {"x": [1, "b"], "y": [{"a": 1}, {"a": 2}]},
            "1, b|1; 2",
        ),
        (
            "{% for s in x %}{{ loop.index }}/{{ loop.length }}: {{ s }} {% endfor %}",
            {"x": ["a", "b"]},
            "1/2: a 2/2: b ",
        ),
        ("{% for k, v in x.items() %}{{ k }}{{ v }}{% endfor %}{{ x.get('b', 0) }}", {"x": {"a": 1}}, "a10"),
        (
            "{{ x | map('upper') | join }}{{ y | map(attribute='a') | sum }}",
            {"x": ["a"], "y": [{"a": 1}, {"a": 2}]},
            "A3",
        ),
        (
            "{{ y | selectattr('a', 'gt', 1) | list }}{{ x | slice(2) | list }}",
            {"x": [1, 2], "y": [{"a": 2}]},
            "[{'a': 2}][[1], [2]]",
        ),
        ("{{ '%s: %05.1f%%' % ('a', 2.5) }}{{ '%d' | format(3) }}", {}, "a: 002.5%3"),
        (
            "{{ '%(a)s' % {'a': 1} }}{{ '{:>4}{x!r}'.format(1, x='y') }}{{ '{a}'.format_map({'a': 1}) }}",
            {},
            "1   1'y'1",
        ),
        (
            "{{ x.replace('\r\n', '\n').rstrip() }}{{ x | replace('a', 'b', 1) }}{{ x | trim }}",
            {"x": "aa\r\n"},
            "aaba\r\naa",
        ),
        (
            "{{ x.split(',') | length }}{{ ','.join(['a', 'b']) }}{{ 'a'.zfill(3) }}{{ ' a'.strip() }}",
            {"x": "a,b"},
            "2a,b00aa",
        ),
        (
            "{{ x | indent(2) }}|{{ 'a' | center(3) }}|{{ 1.25 | round(1) }}|{{ [1] | batch(2, 0) | list }}",
            {"x": "a\nb"},
            "a\n  b| a |1.2|[[1, 0]]",
        ),
        (
            "{{ {'b': [1, {}]} | tojson }}{{ [1] | tojson(indent=1) }}{{ '' | default('d', true) }}",
            {},
            '{"b": [1, {}]}[\n 1\n]d',
        ),
        (
            "{{ 2 ** 10 * 3 % 7 // 2 }}{{ [0] * 2 + [1] }}{{ 'ab' * 2 }}{{ 3 in [3] and 1 < 2 }}",
            {},
            "3[0, 0, 1]ababTrue",
        ),
        (
            "{% set ns = namespace(n=0) %}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
            {},
            "3",
        ),
        ("{% macro m(n) %}{{ n }}{% if n %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) }}", {}, "3210"),
        ("{% for x in [[[1], [2]]] recursive %}{{ x if x is number else loop(x) }}{% endfor %}", {}, "12"),
        (
            "{% filter upper %}a{{ x is defined }}{% endfilter %}{{ d.strftime('%Y') }}",
            {"d": date(2024, 1, 2)},
            "AFALSE2024",
        ),
    ],
)
def test_what_templates_are_for(text: str, row: dict[str, Any], expected: str) -> None:
    assert Template(checked(text)).render(row) == expected


# One a line. `x` is a text of 100,000 letters a, `y` a list of 5,000 numbers, `width` a thousand millions.
BOMBS = r"""
{{ 9 ** (9 ** 9) }}
{{ 9 ** (9 ** 9) % 3 }}
{% if 9 ** (9 ** 9) %}{% endif %}
{% autoescape 9 ** (9 ** 9) %}{{ 9 ** (9 ** 9) }}{% endautoescape %}
{{ 10 ** 3000 * 10 ** 3000 * 10 ** 3000 }}
{{ ('f' * 99999) | int(0, 16) ** 2 }}
{{ 'a' * 10 ** 10 }}
{{ 10 ** 10 * 'a' }}
{{ [0] * 10 ** 10 }}
{{ ('a' * 10 ** 6) * 10 ** 6 }}
{{ '%0999999999d' % 3 }}
{{ '%.999999999f' % 3 }}
{{ '%*d' % (999999999, 3) }}
{{ '%(a(b)c)999999999d' % {'a(b)c': 3} }}
{{ '%0999999999d' | format(3) }}
{{ ('%s' * 99999) % ((x,) * 99999) }}
{{ '{:0999999999d}'.format(3) }}
{{ '{:{}}'.format(3, 999999999) }}
{{ ('{0}' * 99999).format(x) }}
{% set f = '{:0999999999d}'.format %}{{ f(3) }}
{{ range(10 ** 9) | list }}
{{ range(10 ** 9) }}
{{ lipsum(10 ** 9) }}
{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}
{% for a in y %}{% for b in y %}{% for c in y %}{% endfor %}{% endfor %}{% endfor %}
{% for a in y if y | select('eq', y) | list %}{% endfor %}
{{ 'a' | center(10 ** 10) }}
{{ 'a'.ljust(10 ** 10) }}
{{ 'a'.zfill(width) }}
{{ y | map('center', width) | list }}
{{ x | indent(width) }}
{{ ('\n' * 9999) | indent(9999, true, true) }}
{{ y | join(x) }}
{{ x.join(y | map('string')) }}
{{ x | replace('a', x) }}
{{ x.replace('', x) }}
{{ x.expandtabs(width) }}
{{ x.translate({97: x}) }}
{{ [1] | batch(width, 0) | list }}
{{ [1] | slice(width) | list }}
{{ 5 | round(-width) }}
{{ y | tojson(indent=width) }}
{{ [y] * 999 | sum(start=[]) }}
{{ x.encode('punycode') }}
{{ (5).to_bytes(width) }}
{{ x.rfind('b' + x) }}
{{ x | trim('b' * 99999 + 'a') }}
{% for i in range(99999) %}{% if 'b' in x %}{% endif %}{% endfor %}
{% for i in range(99999) %}{% set z = x[1:] %}{% endfor %}
{% for i in range(99999) %}{{ x | length }}{{ x is upper }}{% endfor %}
{% for i in range(99999) %}{% set z = x.count('b') %}{% endfor %}
{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}
{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}
""".strip().splitlines()
BOMBS += [
    f"{TREES}{{{{ {used} }}}}" for used in ("ns.x", "[ns.x] | tojson", "ns.x == ns.y", "'%s' % [ns.x]", "{}[ns.x]")
]
BOMBS += [
    f"{TREES}{{{{ {used} }}}}" for used in ("{ns.x: 1}", "dict(a=ns.x).values()", "'{}'.format(ns.x)", "ns.x in [1]")
]
BOMBS += [
    DOUBLED.replace("BODY", f"{{% set ns.x = {twice} %}}")
    for twice in ("ns.x ~ ns.x", "ns.x + ns.x", "ns.x * 2", "'%s%s' % (ns.x, ns.x)", "[ns.x, ns.x] | join")
]
BOMBS += [
    DOUBLED.replace("BODY", "{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}"),
    "{% set t %}{% for i in range(99999) %}" + "t" * 9999 + "{% endfor %}{% endset %}",
    "{% for i in range(99999) %}" + "t" * 9999 + "{% endfor %}",
]


@pytest.mark.parametrize("text", BOMBS)
def test_bombs_are_errors_and_cost_little(text: str) -> None:
    start = time.monotonic()
    checked(text)
    template = Template(text)
    assert time.monotonic() - start < 1, "loading computes nothing large"
    with pytest.raises(ValueError, match=r"\w \w"):
        template.render({"x": "a" * 100_000, "y": list(range(5_000)), "width": 10**9})
    assert time.monotonic() - start < 20  # seconds; the longest takes two


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{{ x ~ x }}", "renders to more than 1,000,000 characters"),
        ("{% set y = [x] * 20 %}{{ y | join | length }}", "does too much: it .* more than 10,000,000 characters"),
        ("{{ 9 ** (9 ** 9) }}", r"\*\*: a number of more than 10,000 bits"),
        ("{{ '%99999d' % 1 }}", "a width is a number of at most four digits"),
        ("{{ x.encode() }}", r"encode\(\) cannot be called in a template"),
        ("{{ [[1]] | sum(start=[]) }}", "sum: only numbers are added up"),
        ("{{ x.__class__ }}", "is unsafe"),
    ],
)
def test_the_error_is_a_sentence(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        Template(text).render({"x": "a" * 600_000})


def test_each_rendering_has_a_budget_of_its_own() -> None:
    most = WORK // STEP // 4
    template = Template(f"{{% for i in range({most}) %}}{{% endfor %}}x")
    assert [template.render({}) for _ in range(5)] == ["x"] * 5


def test_a_namespace_does_not_show_what_it_holds() -> None:
    assert Template(f"{TREES}{{{{ ns }}}}").render({}) == "<namespace>"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a\n{{ b", "unexpected end of template.* \\(line 2 of the template\\)"),
        ("{{ x | nofilter }}", "No filter named 'nofilter'"),
        ("{{ x | random }}", "No filter named 'random'"),
        ("{{ " + "(" * 9999 + "1" + ")" * 9999 + " }}", "the template is nested too deeply"),
        ("{% for a in b %}" * 40 + "{% endfor %}" * 40, "the template is nested too deeply"),
        ("{{ " + "9" * 5000 + " }}", "."),
    ],
)
def test_what_is_no_template_is_told_at_load(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        checked(text)


@given(st.text(), st.text())
def test_a_column_is_rendered_as_it_is(before: str, column: str) -> None:
    before = before.replace("{", "").replace("\r", "")
    assert Template(before + "{{ x }}").render({"x": column}) == before + column
