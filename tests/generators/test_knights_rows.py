"""Knights and knaves: the answer is the only one, found by a reader of the English sentences that shares no code."""

import itertools
import re
from collections.abc import Sequence

import pytest

from reasonrl.generators.drawing import Row
from reasonrl.generators.knights_and_knaves import KnightsOptions, rows
from reasonrl.generators.statements import Statement, shape, solutions

SAYS = re.compile(r'^(\w+) says: "(.*)\."$', re.MULTILINE)
COUNTS = {"None": 0, "Exactly one": 1, "Exactly two": 2, "Exactly three": 3, "Exactly four": 4}


def is_true(sentence: str, speaker: str, knight: dict[str, bool]) -> bool:
    """Whether an English sentence holds; `knight` says who is one."""
    words: list[str] = re.findall(r"\b(?:I|me|[A-Z]\w+)\b", sentence)
    people = [speaker if word in ("I", "me") else word for word in words]
    kinds: list[bool] = [word == "knight" for word in re.findall(r"\b(knight|knave)s?\b", sentence)]
    people = [person for person in people if person in knight]
    truths = [knight[person] for person in people]
    if found := re.fullmatch(r"(.*) of us (?:is a knight|are knights)", sentence):
        return sum(knight.values()) == COUNTS.get(found[1], len(knight))
    if sentence.startswith("If "):
        return truths[0] != kinds[0] or truths[1] == kinds[1]
    if sentence.startswith("Both "):
        return all(truth == kinds[0] for truth in truths)
    if sentence.startswith("At least one of "):
        return any(truth == kinds[0] for truth in truths)
    if "of the same kind" in sentence:
        return truths[0] == truths[1]
    if "of different kinds" in sentence:
        return truths[0] != truths[1]
    assert re.fullmatch(r"\w+ is a (knight|knave)", sentence), sentence
    return truths[0] == kinds[0]


def check(row: Row) -> None:
    said = SAYS.findall(row["question"])
    names = [name for name, _ in said]
    assert names == row["people"]
    fitting = []
    for kinds in itertools.product((True, False), repeat=len(names)):
        knight = dict(zip(names, kinds, strict=True))
        if all(is_true(sentence, name, knight) == knight[name] for name, sentence in said):
            fitting.append(", ".join(f"{name} is a {'knight' if knight[name] else 'knave'}" for name in names))
    assert fitting == [row["answer"]]
    form = ", ".join(f"{name} is a …" for name in names)
    assert f'"Answer: {form}"' in row["question"]
    assert set(row) == {"id", "question", "answer", "people"}


@pytest.mark.parametrize("people", [2, 3, 4, 5])
def test_exactly_one_answer_fits_what_was_said(people: int) -> None:
    options = KnightsOptions(min_people=people, max_people=people, train_rows=300, eval_rows=60)
    for row in rows("train", 3, options) + rows("eval", 3, options):
        check(row)
        assert len(row["people"]) == people


def test_neither_kind_and_no_person_is_the_safe_guess() -> None:
    made = rows("train", 0, KnightsOptions(min_people=3, max_people=3, train_rows=1000))
    for person in range(3):
        knights = sum(row["answer"].split(", ")[person].endswith("knight") for row in made) / len(made)
        assert 0.3 < knights < 0.7


def test_every_kind_of_statement_is_made() -> None:
    text = " ".join(row["question"] for row in rows("train", 0, KnightsOptions(train_rows=500)))
    for words in (
        "Both ",
        "At least one of ",
        "same kind",
        "different kinds",
        "If ",
        "of us are",
        "of us is",
        " and me",
    ):
        assert words in text


NAMES = ("Ann", "Ben", "Cy")


@pytest.mark.parametrize(
    ("statement", "worded", "worlds"),
    [
        (Statement("is", (1,), (False,)), "Ben is a knave.", "00 10"),
        (Statement("alike", (0, 1), (True,)), "Ben and I are of the same kind.", "00 11"),
        (Statement("alike", (1, 0), (False,)), "Ben and I are of different kinds.", "01 10"),
        (Statement("all", (0, 1), (False, False)), "Both Ben and I are knaves.", "00"),
        (Statement("any", (0, 1), (True, True)), "At least one of Ben and me is a knight.", "01 10 11"),
        (Statement("if", (0, 1), (True, False)), "If I am a knight, then Ben is a knave.", "00 01 10"),
        (Statement("if", (1, 0), (False, True)), "If Ben is a knave, then I am a knight.", "01 10 11"),
        (Statement("count", count=1), "Exactly one of us is a knight.", "01 10"),
        (Statement("count", count=0), "None of us are knights.", "00"),
        (Statement("count", count=2), "All of us are knights.", "11"),
    ],
)
def test_statements_by_hand(statement: Statement, worded: str, worlds: str) -> None:
    assert statement.worded(0, NAMES[:2]) == worded
    true = [f"{a}{b}" for a in (0, 1) for b in (0, 1) if statement.holds((bool(a), bool(b)))]
    assert " ".join(true) == worlds


def test_a_classic_by_hand() -> None:
    """Ann: "At least one of us is a knave" (Smullyan): were she a knave, it would be true, so Ben is the knave."""
    said = (Statement("any", (0, 1), (False, False)), Statement("count", count=2))
    assert solutions(said) == [(True, False)]


def test_the_shape_forgets_who_is_called_what_and_nothing_else() -> None:
    def turned(statements: Sequence[Statement]) -> list[Statement]:
        return [
            Statement(said.kind, tuple(1 - person for person in said.people), said.knights, said.count)
            for said in reversed(statements)
        ]

    said = [Statement("is", (1,), (False,)), Statement("if", (0, 1), (True, False))]
    assert shape(said) == shape(turned(said))
    assert shape([Statement("all", (0, 1), (True, True)), said[1]]) == shape(
        [Statement("all", (1, 0), (True, True)), said[1]]
    )
    assert shape(said) != shape([said[0], Statement("if", (1, 0), (True, False))])
    assert shape(said) != shape([said[0], Statement("if", (0, 1), (False, True))])
