"""math: 1442 more answers, equal and unequal, of the kinds of math_cases.jsonl; each kind is a test."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from reasonrl import Problem, Response
from reasonrl_math import Math

BY_KIND: dict[str, list[dict[str, Any]]] = defaultdict(list)
for line in (Path(__file__).parents[1] / "data" / "math_more_cases.jsonl").read_text().splitlines():
    row = json.loads(line)
    BY_KIND[row["kind"]].append(row)


@pytest.mark.parametrize("kind", BY_KIND)
def test_kind(kind: str) -> None:
    rows = BY_KIND[kind]
    rewards = [Math().verify(Problem(row["id"], "", row["gold"]), Response(row["response"])).reward for row in rows]
    wrong = [row for row, reward in zip(rows, rewards, strict=True) if reward != float(row["equal"])]
    assert wrong == []
