"""The judge's policy: when it stops, what reward it gives, and what it shows. The sandbox here only replays endings."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from reasonrl_code.judge import cut, judge
from reasonrl_code.records import Call, CallTest, Ending, Limits, Program, Run, ScriptTest, StdioTest, Test, Use

PROGRAM = Program("…")
USE = Use(seconds=1.5, cpu_seconds=0.5, memory=1000)


class Replay:
    """A sandbox that answers with what it was given, one after another."""

    tier = "replay"
    warning = ""

    def __init__(self, *answers: Run | Call) -> None:
        self.answers = list(answers)

    def run(self, program: Program, stdin: str, limits: Limits) -> Run:
        answer = self.answers.pop(0)
        assert isinstance(answer, Run)
        return answer

    def call(
        self, program: Program, function: str, args: Sequence[Any], kwargs: Mapping[str, Any], limits: Limits
    ) -> Call:
        return self.script(program, "", (), "", limits)

    def script(self, program: Program, code: str, names: Sequence[str], setup: str, limits: Limits) -> Call:
        answer = self.answers.pop(0)
        assert isinstance(answer, Call)
        return answer


def squares(*weights: float) -> list[Test]:
    return [CallTest("sq", (n,), n * n, weight=weight) for n, weight in enumerate(weights)]


def returned(*values: Any) -> Replay:
    return Replay(*(Call("pass", value, use=USE) for value in values))


@pytest.mark.parametrize(
    ("reward", "values", "expected"),
    [
        ("all", (0, 1, 4), 1.0),
        ("all", (0, 1, 5), 0.0),
        ("fraction", (0, 1, 4), 1.0),
        ("fraction", (0, 2, 4), 2 / 3),
        ("fraction", (9, 9, 9), 0.0),
        ("weighted", (0, 1, 4), 1.0),
        ("weighted", (0, 1, 5), 3 / 8),
        ("weighted", (1, 1, 4), 7 / 8),
    ],
)
def test_rewards(reward: Any, values: tuple[int, ...], expected: float) -> None:
    verdict = judge(returned(*values), PROGRAM, squares(1, 2, 5), Limits(), reward=reward)
    assert verdict.reward == pytest.approx(expected)
    assert verdict.reason == ("correct" if expected == 1 else "wrong")


def test_all_but_a_hair_is_not_correct() -> None:
    verdict = judge(returned(0, 9), PROGRAM, squares(1, 1e-30), Limits(), reward="weighted")
    assert verdict.reward is not None
    assert 0.999 < verdict.reward < 1


def test_for_all_or_nothing_it_stops_at_the_first_test_that_does_not_pass() -> None:
    sandbox = returned(0, 5, 4)
    verdict = judge(sandbox, PROGRAM, squares(1, 1, 1), Limits())
    assert len(sandbox.answers) == 1
    assert (verdict.evidence["tests"], verdict.evidence["run"], verdict.evidence["passed"]) == (3, 2, 1)
    sandbox = returned(0, 5, 4)
    verdict = judge(sandbox, PROGRAM, squares(1, 1, 1), Limits(), reward="fraction")
    assert sandbox.answers == []
    assert (verdict.evidence["tests"], verdict.evidence["run"], verdict.evidence["passed"]) == (3, 3, 2)


@pytest.mark.parametrize(
    ("ending", "reason", "reward"),
    [
        ("fail", "wrong", 0.0),
        ("timeout", "timeout", 0.0),
        ("memory", "memory", 0.0),
        ("error", "error", 0.0),
        ("blocked", "blocked", 0.0),
        ("infra", "infra", None),
    ],
)
@pytest.mark.parametrize("kind", ["stdio", "call", "script"])
def test_the_ending_of_the_first_failure_is_the_reason(
    ending: Ending, reason: str, reward: float | None, kind: str
) -> None:
    tests: dict[str, Test] = {
        "stdio": StdioTest("1", "1"),
        "call": CallTest("f", (), 1),
        "script": ScriptTest("assert f()", ("f",)),
    }
    answer = Run(ending, "1", "log", "why", USE) if kind == "stdio" else Call(ending, 1, True, False, "log", "why", USE)
    verdict = judge(Replay(answer), PROGRAM, [tests[kind]], Limits())
    assert (verdict.reason, verdict.reward) == (reason, reward)
    failed = verdict.evidence["failed"]
    assert (failed["test"], failed["ending"], failed["detail"], failed["stderr"]) == (0, ending, "why", "log")


def test_a_broken_sandbox_leaves_the_program_unjudged_even_after_a_failure() -> None:
    sandbox = Replay(Call("fail"), Call("infra", detail="gone"), Call("pass", 4))
    verdict = judge(sandbox, PROGRAM, squares(1, 1, 1), Limits(), reward="fraction")
    assert (verdict.reward, verdict.reason) == (None, "infra")
    assert verdict.evidence["failed"]["detail"] == "gone"
    assert len(sandbox.answers) == 1  # there is nothing to gain from the rest


@pytest.mark.parametrize(
    ("test", "answer", "passes"),
    [
        (StdioTest("3", "9\n"), Run("pass", "9"), True),
        (StdioTest("3", "9\n"), Run("pass", " 9"), False),
        (StdioTest("3", "9\n"), Run("error", "9"), False),  # an exception after the right output
        (CallTest("f", (), 1), Call("pass", 1), True),
        (CallTest("f", (), None), Call("pass", None, plain=False), False),  # no value is not None
        (CallTest("f", (), 1.0), Call("pass", float("nan")), False),
        (ScriptTest("assert f()", ("f",)), Call("pass"), True),
    ],
)
def test_outputs_and_values_are_compared_outside(test: Test, answer: Run | Call, passes: bool) -> None:
    verdict = judge(Replay(answer), PROGRAM, [test], Limits())
    assert verdict.reward == float(passes)


def test_white_space_between_words_may_be_left_out_of_account() -> None:
    tests = [StdioTest("", "  1 2")]
    assert judge(Replay(Run("pass", "1\n2")), PROGRAM, tests, Limits()).reward == 0
    assert judge(Replay(Run("pass", "1\n2")), PROGRAM, tests, Limits(), spaces="any").reward == 1


def test_weak_passes_are_counted_or_refused() -> None:
    tests: list[Test] = [ScriptTest("assert f() > 1", ("f",)), CallTest("f", (), 2)]
    answers = (Call("pass", weak=True), Call("pass", 2))
    verdict = judge(Replay(*answers), PROGRAM, tests, Limits(), weak=True)
    assert (verdict.reward, verdict.evidence["weak"]) == (1, 1)
    verdict = judge(Replay(*answers), PROGRAM, tests, Limits())
    assert (verdict.reward, verdict.evidence["weak"]) == (0, 0)
    assert "beside the program" in verdict.evidence["failed"]["detail"]


def test_the_seconds_of_all_tests_are_bounded() -> None:
    sandbox = returned(0, 1, 4, 9)  # 1.5 s each
    verdict = judge(sandbox, PROGRAM, squares(1, 1, 1, 1), Limits(), reward="fraction", total_seconds=3)
    assert (verdict.reward, verdict.reason) == (0.5, "timeout")
    assert len(sandbox.answers) == 2
    assert verdict.evidence["failed"] == {
        "test": 2,
        "ending": "timeout",
        "input": "sq(2)",
        "expected": "4",
        "detail": "the 3 s of all tests ended after 2 of them",
    }


def test_the_evidence() -> None:
    test = CallTest("join", ("x" * 1000,), "y", {"by": 2})
    verdict = judge(returned("z" * 900), PROGRAM, [test], Limits())
    failed = dict(verdict.evidence["failed"])
    assert failed.pop("input").startswith("join('xxx")
    assert failed.pop("got") == cut(repr("z" * 900))
    assert failed == {"test": 0, "ending": "fail", "expected": "'y'", "detail": "another value than expected"}
    rest = {key: value for key, value in verdict.evidence.items() if key != "failed"}
    assert rest == {
        "tests": 1,
        "run": 1,
        "passed": 0,
        "seconds": 1.5,
        "cpu_seconds": 0.5,
        "slowest": 1.5,
        "memory": 1000,
        "tier": "replay",
        "weak": 0,
    }


def test_the_warning_of_a_weak_sandbox_is_in_each_verdict() -> None:
    for value in (0, 9):
        sandbox = returned(value)
        sandbox.warning = "it leaks"
        assert judge(sandbox, PROGRAM, squares(1), Limits()).evidence["warning"] == "it leaks"


def test_values_without_a_text_can_be_shown() -> None:
    verdict = judge(returned(10**6000), PROGRAM, squares(1), Limits())
    assert verdict.evidence["failed"]["got"] == "a int that cannot be shown"


def test_long_texts_are_cut_in_the_middle() -> None:
    assert cut("x" * 400) == "x" * 400
    assert cut("a" * 300 + "b" * 300) == "a" * 200 + " … 200 characters … " + "b" * 200


def test_no_tests_never_pass() -> None:
    with pytest.raises(ValueError, match="no tests"):
        judge(Replay(), PROGRAM, [], Limits())
