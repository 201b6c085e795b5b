r"""References: text and numbers of columns, the last box of a worked solution."""

import datetime
import time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasonrl.tasks.config import ReferenceConfig
from reasonrl.tasks.references import Reference, last_box

# Text without a backslash and with braces that are balanced.
FLAT = st.text(st.characters(exclude_characters="\\{}"), max_size=8)
BALANCED = st.recursive(FLAT, lambda inner: st.builds("{}{{{}}}{}".format, FLAT, inner, FLAT), max_leaves=4)


def of(row: dict[str, Any], **config: Any) -> str:
    return Reference(ReferenceConfig(**config)).of(row)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (7, "7"),
        (27.0, "27"),
        (-0.5, "-0.5"),
        (0.00001, "0.00001"),
        (2.0**53 - 1, "9007199254740991"),
        (10**24 + 1, "1000000000000000000000001"),
        (Decimal("1.10"), "1.10"),
        (Decimal("27.00"), "27.00"),
        (Decimal("0.00000001"), "0.00000001"),
        (" 7 ", " 7 "),
        (True, "True"),
        (datetime.date(2024, 8, 31), "2024-08-31"),
        (datetime.datetime(2024, 8, 31, 12), "2024-08-31T12:00:00"),
    ],
)
def test_numbers_and_dates_are_written_plainly(value: Any, expected: str) -> None:
    assert of({"answer": value}, column="answer") == expected


@pytest.mark.parametrize("value", [2.0**53, -1e20])
def test_a_float_that_may_have_lost_digits_is_no_reference(value: float) -> None:
    with pytest.raises(ValueError, match="float so large that digits may be lost; store it as a whole number or as te"):
        of({"answer": value}, column="answer")


@pytest.mark.parametrize(
    "value", [None, "", " ", ["7"], {"a": 1}, float("nan"), float("inf"), -float("inf"), Decimal("NaN"), b"7"]
)
def test_what_is_no_text_and_no_number_is_no_reference(value: Any) -> None:
    with pytest.raises(ValueError, match=r"reference.column: column 'answer' holds .*, expected text or a number"):
        of({"answer": value}, column="answer")


def test_nested_columns_and_templates() -> None:
    row = {"reward_model": {"ground_truth": "34"}, "final_answer": ["1", "2"], "answer": 2}
    assert of(row, column="reward_model.ground_truth") == "34"
    assert of(row, column="final_answer.1") == "2"
    assert of(row, template="{{ final_answer | join(', ') }}") == "1, 2"
    assert of(row, template=" {{ 'ABCD'[answer] }} ") == "C"
    for template, fault in (("{{ nothing }}", "'nothing' is undefined"), ("{{ '' }}", "renders to nothing")):
        with pytest.raises(ValueError, match=f"reference.template: {fault}"):
            of(row, template=template)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"so \boxed{5}.", "5"),
        (r"\boxed{1} or rather \boxed{2}", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\fbox{ 3 }", "3"),
        (r"\boxed {4}", "4"),
        (r"\boxed{\{1,2\}}", r"\{1,2\}"),
        (r"\boxed{a \boxed{b}}", r"a \boxed{b}"),
        (r"\boxed{1} then \boxed{2", "1"),
        (r"\boxed{}", ""),
        (r"\boxed 7", None),
        ("none", None),
    ],
)
def test_the_last_box(text: str, expected: str | None) -> None:
    assert last_box(text) == expected


@given(BALANCED, FLAT, FLAT)
def test_a_box_gives_back_what_was_put_into_it(content: str, before: str, after: str) -> None:
    assert last_box(f"{before}\\boxed{{{content}}}{after}") == content.strip()


def test_a_solution_without_a_box_is_named() -> None:
    assert of({"solution": r"\boxed{6}"}, column="solution", last_box=True) == "6"
    for solution in ("six", r"\boxed{ }"):
        with pytest.raises(ValueError, match=r"reference\.last_box: no .* with content in"):
            of({"solution": solution}, column="solution", last_box=True)


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        ({}, "needs either `column` or `template`"),
        ({"column": "a", "template": "b"}, "needs either `column` or `template`"),
        ({"column": "a", "regex": "(a)", "last_box": True}, "exclude each other"),
        ({"template": "{{ a"}, "unexpected end of template"),
    ],
)
def test_a_reference_is_found_in_one_way(config: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        ReferenceConfig(**config)


@pytest.mark.parametrize(("text", "expected"), [("so #### 7", "7"), ("#### 1\n#### 2", "1"), ("####   8 ", "8")])
def test_a_regex_finds_its_group_where_it_first_matches(text: str, expected: str) -> None:
    assert of({"a": text}, column="a", regex=r"####\s*(.+)") == expected


def test_a_regex_that_finds_nothing_is_a_fault() -> None:
    for text in ("7", "####"):
        with pytest.raises(ValueError, match=r"reference\.regex: finds nothing in"):
            of({"a": text}, column="a", regex=r"####(.*)")


@pytest.mark.parametrize("regex", [r"(a|aa)+$", r"(?:(a+)+)$", r"(?:.*)*x(?:.*)*x(.*)*y"])
def test_a_regex_that_backtracks_for_ever_is_a_fault_of_the_row(regex: str) -> None:
    start = time.monotonic()
    with pytest.raises(ValueError, match=r"reference\.regex: takes longer than 1 s on '[ax]*'; make it simpler"):
        of({"a": "ax" * 20 + "a" * 5000 + "x" * 5000}, column="a", regex=regex)
    assert time.monotonic() - start < 20
