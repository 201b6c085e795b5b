"""What all drawing generators promise: the same rows for a seed, no problem on both sides, no more than there are."""

import hashlib
import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from reasonrl import ReasonRLError
from reasonrl.generators import GENERATORS, Row, Split, generate
from reasonrl.generators.drawing import is_held_out

DRAWN = ["chains", "countdown", "knights_and_knaves", "labelled_chains"]
SMALL = {"train_rows": 300, "eval_rows": 60}


def rows(name: str, split: Split, seed: int = 0, **options: Any) -> list[Row]:
    return generate(name, split, seed, GENERATORS[name].options.model_validate(SMALL | options))


def fingerprint(rows: list[Row]) -> str:
    return hashlib.sha256(json.dumps(rows, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]


def problem_of(row: Row) -> str:
    """The problem without regard to capitals and spacing."""
    text = row.get("question") or row.get("problem") or f"{sorted(row['nums'])} {row['target']}"
    return re.sub(r"\W+", " ", text.lower()).strip()


FINGERPRINTS: dict[tuple[str, Split], str] = {
    ("arithmetic", "train"): "e19509998c106549",
    ("arithmetic", "eval"): "721b08a8927cbc3a",
    ("chains", "train"): "24e28af549e239bf",
    ("chains", "eval"): "e624d693281ffac9",
    ("countdown", "train"): "e91ac3eb58cdff6d",
    ("countdown", "eval"): "de0403e1b30cfedb",
    ("knights_and_knaves", "train"): "eee3097af3ba21ca",
    ("knights_and_knaves", "eval"): "6b80ab4e0f251001",
    ("labelled_chains", "train"): "9b0a4f6656d97519",
    ("labelled_chains", "eval"): "b6ad6398de2301e6",
}


@pytest.mark.parametrize(("name", "split"), FINGERPRINTS)
def test_a_seed_gives_the_rows_it_gave_when_this_was_written(name: str, split: Split) -> None:
    options = {} if name == "arithmetic" else SMALL
    made = generate(name, split, 0, GENERATORS[name].options.model_validate(options))
    assert fingerprint(made) == FINGERPRINTS[name, split]


@pytest.mark.parametrize("name", DRAWN)
def test_another_seed_gives_other_rows(name: str) -> None:
    assert rows(name, "eval", 7) == rows(name, "eval", 7)
    assert rows(name, "eval", 7) != rows(name, "eval", 8)


def test_the_order_of_hashes_has_no_say() -> None:
    code = (
        "import json; from reasonrl.generators import GENERATORS as g, generate\n"
        f"for n in {DRAWN}: print(json.dumps(generate(n, 'eval', 0, g[n].options(eval_rows=60))))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize("name", DRAWN)
def test_more_rows_are_the_same_rows_and_more(name: str) -> None:
    assert rows(name, "train", train_rows=400)[:300] == rows(name, "train", eval_rows=5)


@pytest.mark.parametrize("name", DRAWN)
def test_no_problem_is_on_both_sides_whatever_the_seeds(name: str) -> None:
    train, held_out = rows(name, "train", seed=0), rows(name, "eval", seed=1)
    assert (len(train), len(held_out)) == (300, 60)
    assert not {problem_of(row) for row in train} & {problem_of(row) for row in held_out}
    assert len({row["id"] for row in train}) == 300
    assert len({row["id"] for row in held_out}) == 60
    assert len({problem_of(row) for row in train}) == 300


def test_one_family_in_five_is_held_out() -> None:
    share = sum(is_held_out(str(number)) for number in range(10_000)) / 10_000
    assert 0.18 < share < 0.22


@pytest.mark.parametrize(
    ("name", "options", "split"),
    [
        ("chains", {"min_steps": 1, "max_steps": 1, "largest": 10, "eval_rows": 60}, "eval"),
        ("countdown", {"min_numbers": 2, "max_numbers": 2, "largest": 3}, "eval"),
        ("countdown", {"largest": 2, "largest_target": 1}, "train"),
        ("labelled_chains", {"min_steps": 1, "max_steps": 1, "largest": 10, "lucky": 0}, "eval"),
    ],
)
def test_more_rows_than_there_are_problems_are_refused(name: str, options: dict[str, Any], split: Split) -> None:
    with pytest.raises(ReasonRLError, match=rf"^{split}_rows is \d+, but .* give only about \d+ different problems"):
        rows(name, split, **options)


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("chains", {"min_steps": 4, "max_steps": 3}, "min_steps 4 is more than max_steps 3"),
        ("chains", {"largest": 9}, "greater than or equal to 10"),
        ("chains", {"min_steps": 0}, "greater than or equal to 1"),
        ("chains", {"max_steps": 21}, "less than or equal to 20"),
        ("chains", {"train_rows": 0}, "greater than or equal to 1"),
        ("countdown", {"min_numbers": 5, "max_numbers": 4}, "min_numbers 5 is more than max_numbers 4"),
        ("countdown", {"min_numbers": 1}, "greater than or equal to 2"),
        ("countdown", {"max_numbers": 7}, "less than or equal to 6"),
        ("countdown", {"largest": 1}, "greater than or equal to 2"),
        ("countdown", {"largest_target": 0}, "greater than or equal to 1"),
        ("knights_and_knaves", {"min_people": 4}, "min_people 4 is more than max_people 3"),
        ("knights_and_knaves", {"min_people": 1}, "greater than or equal to 2"),
        ("knights_and_knaves", {"max_people": 6}, "less than or equal to 5"),
        ("labelled_chains", {"right": 1.5}, "less than or equal to 1"),
        ("labelled_chains", {"min_steps": 1, "max_steps": 1}, "lucky 0.1 needs max_steps of at least 2, not 1"),
        ("labelled_chains", {"min_steps": 3, "max_steps": 2}, "min_steps 3 is more than max_steps 2"),
    ],
)
def test_options_that_make_no_sense_are_refused(name: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        GENERATORS[name].options.model_validate(options)
