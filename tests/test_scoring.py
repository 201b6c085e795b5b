"""Scoring: right verdicts, whatever verifiers return; rewards, the judge, and when too much is unjudged."""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from scoring_processes import DEADLINE, ask, nothing_left_behind, problem, read_pid, weighted, workers_of
from scoring_verifiers import Acting, Marks, Weak

from reasonrl import Problem, ReasonRLError, Response, Verdict
from reasonrl.scoring import Scored, Scorer, WeightedVerifier, check_unjudged
from reasonrl.scoring.wire import decode_verdict, parse_line

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
    pytest.mark.timeout(60),
]


@pytest.fixture(autouse=True)
def _leaves_nothing() -> Iterator[None]:
    with nothing_left_behind():
        yield


@pytest.fixture
def scorer() -> Iterator[Scorer]:
    with Scorer([weighted(Acting)], workers=1, deadline=DEADLINE) as scorer:
        yield scorer


# Right verdicts


def test_a_thousand_at_once_all_score_right() -> None:
    with Scorer([weighted(Acting), weighted(Weak, 0.5)], workers=2) as scorer:
        for group in range(250):
            shared = Problem(str(group), "say it", str(group))
            for sample in range(4):
                scorer.submit((group, sample), shared, Response(str(group if sample else "no")))
        scored = scorer.collect()
        submitted = [(group, sample) for group in range(250) for sample in range(4)]
        assert list(scored) == submitted
        for (group, sample), one in zip(submitted, scored.values(), strict=True):
            assert one.verdicts[0].evidence == {"answer": str(group) if sample else "no"}
            assert one.correct is bool(sample)
            assert one.reward == (1.25 if sample else 0.25)
        assert scorer.collect() == {}


def test_verification_starts_before_collect(scorer: Scorer, tmp_path: Path) -> None:
    scorer.submit("early", problem(pid=str(tmp_path / "pid")), Response("touch"))
    assert read_pid(tmp_path / "pid") in workers_of(os.getpid())
    scorer.submit("late", problem(), Response("2"))
    assert [one.correct for one in scorer.collect().values()] == [True, True]


def test_the_clock_starts_with_the_check_not_with_the_queue() -> None:
    with Scorer([weighted(Acting)], workers=1, deadline=2.0) as scorer:
        for key in range(8):
            scorer.submit(key, problem(seconds=0.4), Response("sleep_a_little"))
        assert [one.reason for one in scorer.collect().values()] == ["correct"] * 8


def test_a_big_problem_reaches_the_worker_whole(scorer: Scorer) -> None:
    one = Problem("big", "", "2", {"tests": "x" * 5_000_000})
    scorer.submit("a", one, Response("2"))
    scorer.submit("b", one, Response("3"))
    assert [scored.correct for scored in scorer.collect().values()] == [True, False]


def test_a_key_submitted_twice_is_refused(scorer: Scorer) -> None:
    scorer.submit("a", problem(), Response("2"))
    with pytest.raises(ValueError, match="'a' was submitted twice"):
        scorer.submit("a", problem(), Response("3"))
    assert scorer.collect()["a"].correct


def test_evidence_comes_back_as_json_of_bounded_size(scorer: Scorer) -> None:
    evidence = ask(scorer, "odd_evidence").verdicts[0].evidence
    assert evidence["set"] == "{1}"
    assert evidence["nan"] == "nan"
    assert evidence["loop"] == "[[...]]"
    assert evidence["huge"] == "<int that cannot be shown>"
    assert evidence["lone"] == "?"
    assert evidence["tuple"] == [1, "é"]
    assert evidence["long"].startswith("xxx")
    assert sum(len(str(value)) for value in evidence.values()) < 10_100
    assert "more entries were cut" in evidence["…"]


def test_a_worker_has_its_own_channel_session_and_the_users_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/users/own")
    with Scorer([weighted(Acting)], workers=3) as scorer:
        for key in range(50):
            scorer.submit(key, problem(), Response("tell_surroundings"))
        seen = [one.verdicts[0].evidence for one in scorer.collect().values()]
    assert all(evidence["sockets"] == 1 for evidence in seen)
    assert all(evidence["session"] != os.getsid(0) for evidence in seen)
    assert all(evidence["path"] == [os.path.abspath(entry) for entry in sys.path] for evidence in seen)
    assert all(evidence["PYTHONPATH"] == "/users/own" for evidence in seen)
    assert all(evidence["OMP_NUM_THREADS"] == "1" for evidence in seen)
    assert not any(evidence["torch"] for evidence in seen)


@pytest.mark.parametrize(
    "line",
    [
        '[NaN, "correct", [], {}]',
        '[1e999, "correct", [], {}]',
        '[true, "correct", [], {}]',
        '["1", "correct", [], {}]',
        '[1.0, "", [], {}]',
        "[1.0, 5, [], {}]",
        '[1.0, "correct", [[2, 1, 0.5]], {}]',
        '[1.0, "correct", [[0, 1, null]], {}]',
        '[1.0, "correct", [], []]',
        '[1.0, "correct", []]',
        "[1" + "0" * 400 + ', "correct", [], {}]',
        "{}",
    ],
)
def test_only_valid_verdicts_are_taken_from_a_worker(line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_verdict(parse_line(line.encode()))


# Inline verifiers


def inline(texts: Mapping[str, str], *verifiers: WeightedVerifier) -> list[Scored]:
    with Scorer(verifiers) as scorer:
        for key, text in texts.items():
            scorer.submit(key, problem(), Response(text))
        scored = scorer.collect()
        assert workers_of(os.getpid()) == set()
        assert list(scored) == list(texts)
        return list(scored.values())


def test_inline_verifiers_run_in_this_process() -> None:
    first, second = inline({"a": "0.25", "b": "none"}, weighted(Marks))
    assert first.verdicts == (Verdict(0.25, "marked", evidence={"who": "{'marks'}", "pid": os.getpid()}),)
    assert (second.reason, second.reward) == ("error", None)


@pytest.mark.parametrize("options", [{"extra": -1}, {"extra": 2}, {"broken": True}])
def test_a_broken_inline_batch_is_unjudged(options: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    scored = inline({"a": "1", "b": "0"}, weighted(Marks, **options))
    assert [(one.reason, one.reward, one.correct) for one in scored] == [("error", None, None)] * 2
    assert "verifier 'marks' broke on a batch of 2" in caplog.text


# Weights and the judge


@pytest.mark.parametrize(
    ("text", "weights", "reward", "correct", "reason"),
    [
        ("2", (1.0, 0.5), 1.25, True, "correct"),
        ("3", (1.0, 0.5), 0.25, False, "wrong"),
        ("2", (0.0, 0.5), 0.25, True, "correct"),  # the judge need not have weight
        ("unreadable", (1.0, 0.5), None, False, "error"),  # masks the sum, but not the judge
        ("unreadable", (1.0, 0.0), 0.0, False, "wrong"),  # without weight it masks nothing
        ("fail", (1.0, 0.5), None, None, "error"),
        ("fail", (0.0, 0.5), 0.25, None, "error"),
    ],
)
def test_weights_and_the_judge(
    text: str, weights: tuple[float, float], reward: float | None, correct: bool | None, reason: str
) -> None:
    with Scorer([weighted(Acting, weights[0]), weighted(Weak, weights[1])], workers=1) as scorer:
        one = ask(scorer, text)
    assert (one.reward, one.correct, one.reason) == (reward, correct, reason)


def test_inline_and_process_verifiers_keep_the_tasks_order() -> None:
    with Scorer([weighted(Marks, 2.0), weighted(Acting), weighted(Marks, 0.5)], workers=1) as scorer:
        one = ask(scorer, "2")
    assert [verdict.reason for verdict in one.verdicts] == ["marked", "correct", "marked"]
    assert one.reward == 2.0 * 2 + 1.0 + 0.5 * 2


# Too many unjudged


def scored(reward: float | None, reason: str, **evidence: Any) -> Scored:
    verdicts = (Verdict(0.0, "wrong"), Verdict(reward, reason, evidence=evidence))
    return Scored(
        (weighted(Acting), weighted(Weak)), verdicts, reward, correct=False, decisive=1 if reward is None else 0
    )


def test_check_unjudged_names_share_offender_example_and_cure() -> None:
    batch = {("p", i): scored(0.5, "partly") for i in range(6)}
    batch |= {("q", i): scored(None, "error", error=f"Traceback\nKeyError: {i}") for i in range(3)}
    batch |= {("r", 0): scored(None, "timeout", deadline=10.0)}
    check_unjudged(batch, max_unjudged=0.4)
    with pytest.raises(ReasonRLError) as raised:
        check_unjudged(batch, max_unjudged=0.39)
    message = str(raised.value)
    assert "4 of 10 responses (40.0%) could not be judged; max_unjudged allows 39.0%" in message
    assert "(3 of 4) verifier 'weak' gave the reason 'error', for example on ('q', 0)" in message
    assert "KeyError: 0" in message
    assert "Fix the verifier" in message


def test_check_unjudged_of_nothing_is_fine() -> None:
    check_unjudged({}, max_unjudged=0.0)
    check_unjudged({"a": scored(1.0, "correct")}, max_unjudged=0.0)
