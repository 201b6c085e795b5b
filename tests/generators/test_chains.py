"""Chains of arithmetic: every annotation evaluated anew, every number where the story has it."""

import re
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reasonrl.generators.chains import ChainsOptions, rows
from reasonrl.generators.drawing import Row
from reasonrl.generators.stories import LEADS, NAMES, STORIES, Story

ANNOTATION = re.compile(r"(\d+)([-+*/])(\d+) = <<(\d+)([-+*/])(\d+)=(\d+)>>(\d+) ")


def computed(a: str, operation: str, b: str) -> Fraction:
    x, y = Fraction(a), Fraction(b)
    return {"+": x + y, "-": x - y, "*": x * y, "/": x / y if y else Fraction(-1)}[operation]


def check(row: Row, options: ChainsOptions) -> None:
    *lines, last = row["answer"].split("\n")
    assert options.min_steps <= len(lines) <= options.max_steps
    in_question = [int(number) for number in re.findall(r"\d+", row["question"])]
    given: list[int] = []
    value = None
    for line in lines:
        found = ANNOTATION.search(line)
        assert found is not None, line
        a, operation, b, *again, result, shown = found.groups()
        assert again == [a, operation, b]
        assert computed(a, operation, b) == int(result) == int(shown)
        assert value in (None, a), "a step goes on with the result of the one before"
        given += [int(b)] if given else [int(a), int(b)]
        value = result
        assert all(2 <= int(number) <= options.largest for number in (a, b, result))
    assert last == f"#### {value}"
    assert in_question == given, "the story has the numbers of the solution, in order"


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(0, 4), st.sampled_from([15, 100, 10_000, 10**9]))
@settings(max_examples=40, deadline=None)
def test_every_solution_is_right_and_within_bounds(seed: int, fewest: int, more: int, largest: int) -> None:
    options = ChainsOptions(min_steps=fewest, max_steps=fewest + more, largest=largest, train_rows=15, eval_rows=5)
    for row in rows("train", seed, options) + rows("eval", seed, options):
        check(row, options)
        assert set(row) == {"id", "question", "answer"}


def test_the_fields_and_annotations_are_those_of_gsm8k() -> None:
    assert rows("eval", 0, ChainsOptions(eval_rows=20))[1] == {
        "id": "55-21*2",
        "question": "Ines begins a board game with 55 points. Ines pays Hana 21 points. A bonus field multiplies the "
        "score of Ines by 2. How many points does Ines have at the end of the game?",
        "answer": "That leaves 55-21 = <<55-21=34>>34 points.\nThat makes 34*2 = <<34*2=68>>68 points.\n#### 68",
    }


def test_all_operations_stories_and_numbers_of_steps_occur() -> None:
    made = rows("train", 0, ChainsOptions(train_rows=2000))
    assert all(sum(operation in row["id"] for row in made) > 200 for operation in "+-*/")
    assert {row["answer"].count("<<") for row in made} == {2, 3, 4, 5}
    things = [thing for story in STORIES for thing in story.things]
    assert all(any(thing in row["question"] for row in made) for thing in things)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.things[0])
def test_every_sentence_has_its_number_once_and_no_other(story: Story) -> None:
    sentences = [story.opening, *(event for events in story.events.values() for event in events)]
    assert all(sentence.count("{n}") == 1 and not re.search(r"\d", sentence) for sentence in sentences)
    assert "{n}" not in story.ask
    assert set(story.events) == set(LEADS)


def test_names_are_different() -> None:
    assert len(set(NAMES)) == len(NAMES)
