"""Steps of a response, found in its text."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from step_texts import TEXTS, spans

from reasonrl.steps import SEPARATORS, split_steps


@pytest.mark.parametrize(
    ("how", "text", "steps"),
    [
        ("paragraphs", "one\nstill one\n\ntwo\n \t\n\n three \n", ["one\nstill one", "two", "three"]),
        ("paragraphs", "one\r\n\r\ntwo", ["one", "two"]),
        ("lines", "one\n\n  two \r\nthree\r \nfour", ["one", "two", "three", "four"]),
        ("numbered", "Step 1: a\nb\n\nStep 2: c\n", ["Step 1: a\nb", "Step 2: c"]),
        ("numbered", "Let us see.\n\n1. a\n2. b", ["Let us see.\n\n1. a", "2. b"]),
        ("numbered", "1) a\n (2) b\n10. c", ["1) a", "(2) b", "10. c"]),
        ("numbered", "**Step 1:** a\n### Step 2\nb\nstep 3 - c", ["**Step 1:** a", "### Step 2\nb", "step 3 - c"]),
        ("numbered", "**1.** a\n**2. b**", ["**1.** a", "**2. b**"]),
        # Numbers within steps, further in, or of something else, begin no step.
        ("numbered", "Step 1: a\n1. b\n2. c\nStep 2: d", ["Step 1: a\n1. b\n2. c", "Step 2: d"]),
        ("numbered", "1. a\n   1. b\n   2. c\n2. d", ["1. a\n   1. b\n   2. c", "2. d"]),
        ("numbered", "1. a\n2.5 is more\n2024. x\nStep 2 is next", ["1. a\n2.5 is more\n2024. x\nStep 2 is next"]),
        ("numbered", " no number \n", ["no number"]),
        ("numbered", "Step 1\r\na\r\nStep 2\r\nb", ["Step 1\r\na", "Step 2\r\nb"]),
    ],
)
def test_steps_of_a_text(how: str, text: str, steps: list[str]) -> None:
    assert spans(text, split_steps(text, how)) == steps


@pytest.mark.parametrize(
    ("separator", "text", "steps"),
    [
        (r"\s*;\s*", "a ; b;;c;", ["a", "b", "c"]),
        (r"(?=Therefore|Hence)", "x. Therefore y. Hence z.", ["x.", "Therefore y.", "Hence z."]),
        (r"<step>|</step>", "<step>a</step><step> b </step>", ["a", "b"]),
        ("ki", "no such thing", ["no such thing"]),
        ("", "a b", ["a", "b"]),
    ],
)
def test_steps_between_matches_of_an_expression(separator: str, text: str, steps: list[str]) -> None:
    assert spans(text, split_steps(text, "separator", separator)) == steps


@pytest.mark.parametrize("how", ["paragraphs", "lines", "numbered"])
@pytest.mark.parametrize("text", ["", " \n\n\t\r\n "])
def test_no_step_in_what_is_not_visible(how: str, text: str) -> None:
    assert split_steps(text, how) == ()


@pytest.mark.parametrize(
    ("how", "separator", "message"),
    [
        ("sentences", None, "split by paragraphs, lines, numbered, separator, not 'sentences'"),
        ("lines", ";", "steps split by 'lines' take no separator"),
        ("separator", None, "steps split by 'separator' take a separator"),
        ("separator", "(", r"the separator of steps '\(' is not a regular expression: "),
        ("separator", "(a|aa)+$", r"takes longer than 1 s on 'a{80}'; make it simpler"),
    ],
)
def test_a_split_that_cannot_be_made(how: str, separator: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        split_steps("a" * 200 + "b", how, separator)


@given(TEXTS, st.sampled_from(sorted(SEPARATORS)))
@settings(deadline=None)
def test_steps_are_visible_apart_and_hold_all_but_separators(text: str, how: str) -> None:
    found = split_steps(text, how, "[.,]" if how == "separator" else None)
    assert all(0 <= span.start < span.end <= len(text) for span in found)
    assert all(before.end <= after.start for before, after in pairwise(found))
    assert all(step == step.strip() for step in spans(text, found))
    taken = ".," if how == "separator" else ""
    kept = [character for character in text if not character.isspace() and character not in taken]
    assert "".join("".join(spans(text, found)).split()) == "".join(kept)
