"""The verifier gives one answer in a thread, a process and an event loop, and lives within the scorer's deadline."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from scoring_processes import weighted

from reasonrl import Problem, Response
from reasonrl.scoring import Scorer
from reasonrl_math import Math

ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parents[1] / "data" / "math_cases.jsonl").read_text().splitlines()
]
DEADLINE = 5.0  # seconds, of one check on a busy machine; a bomb that is not refused needs far longer


def verdict(row: dict[str, Any]) -> tuple[float | None, str]:
    found = Math().verify(Problem(row["id"], "", row["gold"]), Response(row["response"]))
    return found.reward, found.reason


@pytest.fixture(scope="module")
def here() -> list[tuple[float | None, str]]:
    Math().warm_up()
    rows = [row for row in ROWS if row["kind"] != "bomb"]
    return [verdict(row) for row in rows]


def test_threads_say_the_same(here: list[tuple[float | None, str]]) -> None:
    rows = [row for row in ROWS if row["kind"] != "bomb"]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(verdict, rows)) == here


def test_an_event_loop_says_the_same(here: list[tuple[float | None, str]]) -> None:
    rows = [row for row in ROWS if row["kind"] != "bomb"]

    async def judge() -> list[tuple[float | None, str]]:
        return await asyncio.gather(*(asyncio.to_thread(verdict, row) for row in rows[::2]), *map(directly, rows[1::2]))

    async def directly(row: dict[str, Any]) -> tuple[float | None, str]:
        return verdict(row)

    found = asyncio.run(judge())
    assert found == [*here[::2], *here[1::2]]


def test_every_case_is_judged_right_under_the_scorers_deadline(here: list[tuple[float | None, str]]) -> None:
    with Scorer([weighted(Math)], workers=1, deadline=DEADLINE) as scorer:
        for row in ROWS:
            scorer.submit(row["id"], Problem(row["id"], "", row["gold"]), Response(row["response"]))
        scored = scorer.collect()
    judged = [scored[row["id"]] for row in ROWS if row["kind"] != "bomb"]
    assert [(one.verdicts[0].reward, one.verdicts[0].reason) for one in judged] == here
    wrong = [row["id"] for row in ROWS if row["kind"] != "bomb" and scored[row["id"]].reward != float(row["equal"])]
    # a bomb as the reference is a fault of the data, which is unjudged and earns nothing either
    bombs = [row["id"] for row in ROWS if row["kind"] == "bomb" and scored[row["id"]].reward not in (0.0, None)]
    late = [key for key, one in scored.items() if any(v.reason == "timeout" for v in one.verdicts)]
    assert (wrong, bombs, late) == ([], [], [])
