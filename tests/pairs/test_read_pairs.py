"""Files of pairs in the forms of the ecosystem, and what is wrong with some."""

import json
from pathlib import Path
from typing import Any

import pytest

from reasonrl import ReasonRLError
from reasonrl.pairs.read import EMPTY, IDENTICAL, Preference, read_preferences

USER, OTHER = {"role": "user", "content": "2+2?"}, {"role": "user", "content": "3+3?"}
FOUR, FIVE = {"role": "assistant", "content": "4"}, {"role": "assistant", "content": "5"}


def written(folder: Path, *rows: Any) -> Path:
    file = folder / "pairs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"prompt": "2+2=", "chosen": "4", "rejected": "5"}, Preference("2+2=", "4", "5")),
        ({"prompt": [USER], "chosen": [FOUR], "rejected": [FIVE]}, Preference((USER,), "4", "5")),  # type: ignore[arg-type]
        ({"chosen": [USER, FOUR], "rejected": [USER, FIVE]}, Preference((USER,), "4", "5")),  # type: ignore[arg-type]
        # the prompt as a text beside the whole conversations
        ({"prompt": "2+2?", "chosen": [USER, FOUR], "rejected": [USER, FIVE]}, Preference((USER,), "4", "5")),  # type: ignore[arg-type]
        ({"prompt": "2+2=", "chosen": [FOUR], "rejected": [FIVE]}, Preference("2+2=", "4", "5")),
        ({"prompt": [USER], "chosen": "4", "rejected": "5"}, Preference((USER,), "4", "5")),  # type: ignore[arg-type]
        ({"chosen": "It is blue.", "rejected": "It is green."}, Preference("It is", " blue.", " green.")),
        ({"prompt": "p", "chosen": "4", "rejected": "5", "score_chosen": 9}, Preference("p", "4", "5")),
    ],
)  # fmt: skip
def test_a_form_of_the_ecosystem(tmp_path: Path, row: dict[str, Any], expected: Preference) -> None:
    assert read_preferences([written(tmp_path, row)]).pairs == [expected]


def test_what_teaches_nothing_is_counted_and_said_in_one_line(tmp_path: Path) -> None:
    rows = [
        {"prompt": "p", "chosen": "4", "rejected": "5"},
        {"prompt": "p", "chosen": "", "rejected": "5"},
        {"prompt": "p", "chosen": "4", "rejected": " \n"},
        {"prompt": "p", "chosen": "4", "rejected": "4"},
        {"prompt": "p", "chosen": None, "rejected": "4"},
    ]
    found = read_preferences([written(tmp_path, *rows)])
    assert len(found.pairs) == 1
    assert found.skipped == {EMPTY: 3, IDENTICAL: 1}
    assert found.line() == f"4 of 5 pairs are left out: {EMPTY} (3), {IDENTICAL} (1)"


@pytest.mark.parametrize("identical", [[USER, FOUR], "the same text"])
def test_identical_conversations_are_skipped_too(tmp_path: Path, identical: Any) -> None:
    row = {"prompt": "p", "chosen": identical, "rejected": identical}
    good = {"prompt": "p", "chosen": "4", "rejected": "5"}
    assert read_preferences([written(tmp_path, good, row)]).skipped == {IDENTICAL: 1}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": "p", "chosen": "4"}, "no column 'rejected'; the data has: chosen, prompt"),
        ({"prompt": "p", "accepted": "4", "rejected": "5"}, "no column 'chosen'"),
        ({"prompt": "p", "chosen": 4, "rejected": "5"}, "chosen holds 4, expected a text"),
        ({"prompt": "", "chosen": "4", "rejected": "5"}, "prompt is empty"),
        ({"prompt": 7, "chosen": "4", "rejected": "5"}, "prompt holds 7, expected a text or chat"),
        ({"chosen": "four", "rejected": "five and"}, None),
        ({"chosen": "4", "rejected": "5"}, "no column 'prompt', and chosen and rejected do not begin alike"),
        ({"chosen": [USER, FOUR], "rejected": [OTHER, FIVE]}, "no first message in common"),
        ({"chosen": [USER, FOUR, USER], "rejected": [USER, FIVE]}, "roles behind the prompt: assistant, user"),
        ({"prompt": [USER], "chosen": [{"role": "assistant"}], "rejected": [FIVE]}, "expected a message with role"),
        ({"prompt": "p", "chosen": "4", "rejected": "4"}, "no pair to learn from; 1 of 1 pairs"),
    ],
)  # fmt: skip
def test_a_fault_is_said_in_one_line(tmp_path: Path, row: dict[str, Any], message: str | None) -> None:
    file = written(tmp_path, row)
    if message is None:
        assert read_preferences([file]).pairs == [Preference("f", "our", "ive and")]
        return
    with pytest.raises(ReasonRLError) as error:
        read_preferences([file])
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert str(file) in str(error.value)


def test_an_empty_file_has_no_pair(tmp_path: Path) -> None:
    with pytest.raises(ReasonRLError, match="no pair to learn from"):
        read_preferences([written(tmp_path)])
