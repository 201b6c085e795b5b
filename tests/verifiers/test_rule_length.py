"""length: DAPO's soft overlong punishment, against values made by an independent implementation."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from reasonrl import Problem, Response
from reasonrl_rules import Length
from reasonrl_rules.length import LengthOptions, overlong_penalty

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "data" / "overlong_penalty.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_oracle(case: dict[str, Any]) -> None:
    inputs = case["inputs"]
    found = overlong_penalty(inputs["length"], inputs["l_max"], inputs["l_cache"])
    assert found == pytest.approx(case["expected"], abs=1e-12)


@pytest.mark.parametrize(
    ("tokens", "reward", "reason"),
    [(1, 0.0, "within"), (12, 0.0, "within"), (13, -0.25, "buffer"), (16, -1.0, "buffer"), (17, -1.0, "overlong")],
)
def test_reasons(tokens: int, reward: float, reason: str) -> None:
    verifier = Length(LengthOptions(max_tokens=16, buffer=4))
    found = verifier.verify(Problem("p", ""), Response("text", tokens=tokens))
    assert (found.reward, found.reason, found.evidence) == (reward, reason, {"tokens": tokens})


def test_text_without_a_token_count_is_not_judged() -> None:
    with pytest.raises(ValueError, match="no token count"):
        Length(LengthOptions(max_tokens=16, buffer=4)).verify(Problem("p", ""), Response("text"))


@pytest.mark.parametrize("options", [{}, {"max_tokens": 4, "buffer": 5}, {"max_tokens": 4, "buffer": 0}])
def test_options_that_make_no_sense(options: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        LengthOptions.model_validate(options)
