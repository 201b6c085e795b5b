"""The processes of scoring: whatever a check does to its worker, only that check suffers; nothing is left behind."""

import gc
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from scoring_processes import (
    DEADLINE,
    alive,
    ask,
    nothing_left_behind,
    problem,
    read_pid,
    still_works,
    until,
    weighted,
    workers_of,
)
from scoring_verifiers import Acting, Patient, Starting, StartingInline

from reasonrl import ReasonRLError, Response, Verdict
from reasonrl.scoring import Scorer, WeightedVerifier

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


# Hanging


@pytest.mark.parametrize("act", ["spin", "big_power"])
def test_a_hanging_check_is_killed_at_its_deadline(act: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Scorer([weighted(Acting)], workers=2, deadline=DEADLINE) as scorer, caplog.at_level(logging.WARNING):
        assert still_works(scorer)
        started = time.monotonic()
        scorer.submit("hangs", problem(pid=str(tmp_path / "pid")), Response(act))
        for key in range(100):
            scorer.submit(key, problem(), Response("2"))
        scored = scorer.collect()
        assert DEADLINE <= time.monotonic() - started < DEADLINE + 10
        assert scored.pop("hangs").verdicts == (Verdict(None, "timeout", evidence={"deadline": DEADLINE}),)
        assert all(one.correct for one in scored.values())
        assert not alive(read_pid(tmp_path / "pid"))
        assert "verifier 'acting' on problem 'p7'" in caplog.text
        assert still_works(scorer)


def test_a_check_has_the_seconds_its_verifier_asks_for_if_they_are_more() -> None:
    def verdict(seconds: float) -> Verdict:
        patient = WeightedVerifier(Patient, Patient.Options(seconds=seconds), 1.0, "1.0")
        with Scorer([patient], workers=1, deadline=1.0) as scorer:
            return ask(scorer, "sleep_a_little", seconds=2.0).verdicts[0]

    assert verdict(30.0).reason == "correct"
    assert verdict(0.1) == Verdict(None, "timeout", evidence={"deadline": 1.0})  # never fewer than are configured


def test_grandchildren_that_ignore_signals_are_killed_too(tmp_path: Path) -> None:
    paths = {name: str(tmp_path / name) for name in ("pid", "group", "session")}
    with Scorer([weighted(Acting)], workers=1, deadline=3.0) as scorer:
        scorer.submit("hangs", problem(**paths), Response("start_stubborn_children"))
        pids = [read_pid(Path(path)) for path in paths.values()]
        assert all(alive(pid) for pid in pids)
        assert scorer.collect()["hangs"].reason == "timeout"
        until(lambda: not any(alive(pid) for pid in pids))


def test_a_stopped_worker_that_takes_no_more_bytes_is_a_timeout(scorer: Scorer) -> None:
    assert still_works(scorer)
    (worker,) = workers_of(os.getpid())
    os.kill(worker, signal.SIGSTOP)
    assert ask(scorer, "2", tests="x" * 5_000_000).reason == "timeout"
    assert still_works(scorer)


# Breaking


@pytest.mark.parametrize(
    ("act", "error"),
    [
        ("fail", "RuntimeError: cannot read 2"),
        ("quit_python", "SystemExit: enough"),
        ("nan", "ValueError: a reward must be finite"),
        ("smuggled_nan", "ValueError"),
        ("wrong_type", "TypeError: verify must return a Verdict, not float"),
    ],
)
def test_a_verifier_that_breaks_leaves_the_response_unjudged(scorer: Scorer, act: str, error: str) -> None:
    assert still_works(scorer)
    workers = workers_of(os.getpid())
    one = ask(scorer, act)
    assert (one.reward, one.correct, one.reason) == (None, None, "error")
    assert error in one.verdicts[0].evidence["error"]
    assert workers_of(os.getpid()) == workers  # an exception does not cost the worker


@pytest.mark.parametrize(("act", "exit_code"), [("exit", 3), ("segfault", -signal.SIGSEGV)])
def test_a_worker_that_dies_loses_only_its_check(scorer: Scorer, act: str, exit_code: int) -> None:
    for key, text in enumerate(["2", act, "2", act, "2"]):
        scorer.submit(key, problem(), Response(text))
    died = Verdict(None, "worker_died", evidence={"exit_code": exit_code})
    right = Verdict(1.0, "correct", evidence={"answer": "2"})
    assert [one.verdicts[0] for one in scorer.collect().values()] == [right, died, right, died, right]


def test_a_worker_killed_from_outside_during_a_check(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Scorer([weighted(Acting)], workers=1, deadline=30.0) as scorer, caplog.at_level(logging.WARNING):
        scorer.submit("killed", problem(pid=str(tmp_path / "pid")), Response("spin"))
        scorer.submit("next", problem(), Response("2"))
        os.kill(read_pid(tmp_path / "pid"), signal.SIGKILL)
        scored = scorer.collect()
    assert scored["killed"].verdicts == (Verdict(None, "worker_died", evidence={"exit_code": -signal.SIGKILL}),)
    assert scored["next"].correct
    assert "verifier 'acting' on problem 'p7'" in caplog.text


def test_a_worker_killed_while_idle_costs_no_verdict(scorer: Scorer) -> None:
    assert still_works(scorer)
    (worker,) = workers_of(os.getpid())
    os.kill(worker, signal.SIGKILL)
    until(lambda: workers_of(os.getpid()) - {worker})
    assert still_works(scorer)


def test_printing_does_not_disturb_the_protocol(scorer: Scorer) -> None:
    assert ask(scorer, "print_a_lot").verdicts == (Verdict(1.0, "correct"),)
    assert still_works(scorer)


def test_a_fork_of_the_worker_does_not_answer(scorer: Scorer) -> None:
    for _ in range(5):
        assert ask(scorer, "let_a_fork_return").verdicts == (Verdict(1.0, "correct"),)


@pytest.mark.parametrize("line", ["garbage", '["verdict", 999, [1.0, "correct", [], {}]]', '["ready"]', "[" * 10_000])
def test_a_worker_that_breaks_the_protocol_is_replaced(scorer: Scorer, tmp_path: Path, line: str) -> None:
    one = ask(scorer, "break_protocol", line=line, pid=str(tmp_path / "pid"))
    assert (one.reward, one.reason) == (None, "worker_died")
    assert "malformed reply" in one.verdicts[0].evidence["error"]
    assert still_works(scorer)


# Starting and ending


@pytest.mark.parametrize(
    ("act", "error", "workers"),
    [
        ("fail", "ImportError: no module named 'sympy'", 1),
        ("fail", "ImportError: no module named 'sympy'", 2),
        ("exit", "exit code 7", 1),
        ("exit", "exit code 7", 2),
        ("hang", "not ready after 5 s", 1),  # long enough for a busy machine to come to the verifier
    ],
)
def test_a_verifier_that_cannot_start_is_a_clear_error(act: str, error: str, workers: int) -> None:
    verifiers = [weighted(Acting), weighted(Starting, act=act)]
    with Scorer(verifiers, workers=workers, startup_deadline=5.0 if act == "hang" else 60.0) as scorer:
        with pytest.raises(ReasonRLError, match="verifier 'starting' failed to load") as raised:
            ask(scorer, "2")
        assert error in str(raised.value)
        with pytest.raises(ReasonRLError, match="verifier 'starting' failed to load"):
            scorer.submit("again", problem(), Response("2"))


def test_a_worker_that_starts_the_second_time_is_fine(tmp_path: Path) -> None:
    verifier = weighted(Starting, act="fail_once", marker=str(tmp_path / "marker"))
    with Scorer([verifier], workers=1) as scorer:
        assert ask(scorer, "2").correct


def test_an_inline_verifier_that_cannot_start_is_a_clear_error() -> None:
    with pytest.raises(ReasonRLError, match=r"(?s)verifier 'starting_inline' failed to start.*pip install sympy"):
        Scorer([weighted(StartingInline, act="fail")])


def test_classes_a_worker_cannot_import_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Local(Acting):
        name = "local"

    with pytest.raises(ReasonRLError, match="verifier 'local' cannot be sent to a worker process"):
        Scorer([weighted(Local)])
    monkeypatch.setattr(Local, "__module__", "__main__")
    with pytest.raises(ReasonRLError, match="defined in the script being run; move it into a module"):
        Scorer([weighted(Local)])


def test_a_problem_that_cannot_be_sent_is_named(scorer: Scorer) -> None:
    with pytest.raises(ReasonRLError, match="problem 'p7' cannot be sent to a worker process"):
        scorer.submit("a", problem(tests=lambda: 0), Response("2"))
    assert still_works(scorer)


def test_no_interpreter_to_start_is_an_error_not_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with Scorer([weighted(Acting)]) as scorer, pytest.raises(ReasonRLError, match="nonexistent"):
        ask(scorer, "2")


def test_close_may_be_called_again_and_ends_hanging_workers(tmp_path: Path) -> None:
    scorer = Scorer([weighted(Acting)], workers=2, deadline=60.0)
    scorer.submit("a", problem(pid=str(tmp_path / "pid")), Response("spin"))
    pid = read_pid(tmp_path / "pid")
    scorer.close()
    scorer.close()
    assert not alive(pid)
    assert workers_of(os.getpid()) == set()
    with pytest.raises(ReasonRLError, match="closed"):
        scorer.collect()
    with pytest.raises(ReasonRLError, match="closed"):
        scorer.submit("b", problem(), Response("2"))


def test_a_forgotten_scorer_ends_its_workers() -> None:
    scorer = Scorer([weighted(Acting)], workers=2)
    assert still_works(scorer)
    del scorer
    gc.collect()
    assert workers_of(os.getpid()) == set()


PARENT = """
import sys
from scoring_verifiers import Acting
from reasonrl import Problem, Response
from reasonrl.scoring import Scorer, WeightedVerifier

scorer = Scorer([WeightedVerifier(Acting, Acting.Options(), 1.0, "1.0")], workers=2, deadline=600.0)
scorer.submit("hangs", Problem("p", "", "2", {"pid": sys.argv[1]}), Response(sys.argv[2]))
if sys.argv[3] == "wait":
    scorer.collect()
scorer.submit("right", Problem("p", "", "2"), Response("2"))
"""


@pytest.mark.parametrize("act", ["spin", "big_power"])
def test_workers_die_with_a_killed_parent_even_when_they_hang(act: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PARENT, str(tmp_path / "pid"), act, "wait"]
    with subprocess.Popen(command, env=environment) as parent:
        hung = read_pid(tmp_path / "pid")
        until(lambda: len(workers_of(parent.pid)) == 2)
        workers = workers_of(parent.pid)
        assert hung in workers
        parent.kill()
    until(lambda: not any(alive(worker) for worker in workers))


def test_a_parent_that_ends_without_close_leaves_no_worker(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-c", PARENT, str(tmp_path / "pid"), "spin", "end"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as parent:
        _, printed = parent.communicate(timeout=30)
        assert (parent.returncode, printed) == (0, b"")
    until(lambda: not workers_of(parent.pid))
