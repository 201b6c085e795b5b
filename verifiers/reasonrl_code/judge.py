"""A program × its tests → how each ended, and from that a verdict. The sandbox runs; all comparing is done here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from reasonrl import Verdict
from reasonrl_code.compare import Spaces, same_output, same_value
from reasonrl_code.records import (
    Call,
    CallTest,
    Ending,
    Limits,
    Program,
    Run,
    ScriptTest,
    StdioTest,
    Test,
    Use,
    text_of,
)

Reward = Literal["all", "fraction", "weighted"]
REASONS = {"pass": "correct", "fail": "wrong"}  # of the other endings, the reason is their name
SHOWN = 400  # characters of an input, an expected or a given value in the evidence
STDERR = 800  # characters of the tail of standard error


class Sandbox(Protocol):
    """What runs programs; see `reasonrl_code.sandbox`."""

    @property
    def tier(self) -> str:
        """Its name, stored with each verdict."""

    @property
    def warning(self) -> str:
        """What it is too weak for, stored with each verdict; empty if it holds."""

    def run(self, program: Program, stdin: str, limits: Limits) -> Run:
        """Run the program on an input."""

    def call(
        self, program: Program, function: str, args: Sequence[Any], kwargs: Mapping[str, Any], limits: Limits
    ) -> Call:
        """Call a function of the program."""

    def script(self, program: Program, code: str, names: Sequence[str], setup: str, limits: Limits) -> Call:
        """Run test code that calls functions of the program."""


@dataclass(frozen=True)
class Outcome:
    """How one test ended.

    Attributes:
        ending: as in records; "fail" also where it ended well with another output or value than expected.
        got: what the program gave, for reports; empty where it gave nothing.
        detail, stderr, use, weak: as in `Run` and `Call`.
    """

    ending: Ending
    got: str = ""
    detail: str = ""
    stderr: str = ""
    use: Use = field(default_factory=Use)
    weak: bool = False


def run_test(
    sandbox: Sandbox, program: Program, test: Test, limits: Limits, spaces: Spaces = "trailing", weak: bool = False
) -> Outcome:
    """Run one test.

    Args:
        spaces: as of `compare.same_output`.
        weak: does a pass count that was found beside the program, where it may cheat?
    """
    match test:
        case StdioTest():
            run = sandbox.run(program, test.input, limits)
            outcome = Outcome(run.ending, run.output, run.detail, run.stderr, run.use)
            if outcome.ending == "pass" and not same_output(test.output, run.output, spaces):
                outcome = replace(outcome, ending="fail", detail="another output than expected")
            return outcome
        case CallTest():
            call = sandbox.call(program, test.function, test.args, test.kwargs, limits)
            outcome = _of_call(call)
            if outcome.ending == "pass" and not call.plain:
                return replace(outcome, ending="fail", detail=call.detail or "the value is no plain data")
            if outcome.ending == "pass" and not same_value(test.expected, call.value):
                return replace(outcome, ending="fail", got=text_of(call.value), detail="another value than expected")
            return outcome
        case ScriptTest():
            outcome = _of_call(sandbox.script(program, test.code, test.names, test.setup, limits))
            if outcome.ending == "pass" and outcome.weak and not weak:
                return replace(outcome, ending="fail", detail="it passed only beside the program, which does not count")
            return outcome


def judge(
    sandbox: Sandbox,
    program: Program,
    tests: Sequence[Test],
    limits: Limits,
    *,
    reward: Reward = "all",
    total_seconds: float = float("inf"),
    spaces: Spaces = "trailing",
    weak: bool = False,
) -> Verdict:
    """Run tests until the reward is known, and say what it is.

    Args:
        reward: "all": 1 if all tests pass, else 0; stops at the first that does not. "fraction": how many pass.
            "weighted": the same by the tests' weights.
        total_seconds: of all tests together, as the sandbox counts them; what is left then counts as a timeout.

    Raises:
        ValueError: there are no tests, which must never pass.
    """
    if not tests:
        raise ValueError("there are no tests, and none is not all")
    outcomes: list[Outcome] = []
    used = 0.0
    for at, test in enumerate(tests):
        if used >= total_seconds:
            outcomes.append(Outcome("timeout", detail=f"the {total_seconds:g} s of all tests ended after {at} of them"))
            break
        outcomes.append(run_test(sandbox, program, test, limits, spaces, weak))
        used += outcomes[-1].use.seconds
        if outcomes[-1].ending == "infra" or (reward == "all" and outcomes[-1].ending != "pass"):
            break
    return _verdict(tests, outcomes, reward, sandbox)


def _verdict(tests: Sequence[Test], outcomes: Sequence[Outcome], reward: Reward, sandbox: Sandbox) -> Verdict:
    passed = [outcome.ending == "pass" for outcome in outcomes]
    bad = next((at for at, outcome in enumerate(outcomes) if outcome.ending != "pass"), None)
    bad = next((at for at, outcome in enumerate(outcomes) if outcome.ending == "infra"), bad)
    evidence = {
        "tests": len(tests),
        "run": len(outcomes),
        "passed": sum(passed),
        **({} if bad is None else {"failed": shown(tests[bad], outcomes[bad], bad)}),
        "seconds": round(sum(outcome.use.seconds for outcome in outcomes), 3),
        "cpu_seconds": round(sum(outcome.use.cpu_seconds for outcome in outcomes), 3),
        "slowest": round(max(outcome.use.seconds for outcome in outcomes), 3),
        "memory": max(outcome.use.memory for outcome in outcomes),
        "tier": sandbox.tier,
        **({"warning": sandbox.warning} if sandbox.warning else {}),
        "weak": sum(outcome.weak and outcome.ending == "pass" for outcome in outcomes),
    }
    if bad is None:
        return Verdict(1.0, "correct", evidence=evidence)
    ending = outcomes[bad].ending
    reason = REASONS.get(ending, ending)
    if ending == "infra":
        return Verdict(None, reason, evidence=evidence)
    if reward == "all":
        return Verdict(0.0, reason, evidence=evidence)
    weights = [test.weight if reward == "weighted" else 1.0 for test in tests]
    won = sum(weight for weight, well in zip(weights, passed, strict=False) if well)
    # A hair below 1 at most: rounding must not turn "all but one" into "correct".
    return Verdict(min(won / sum(weights), 1.0 - 1e-9), reason, evidence=evidence)


def shown(test: Test, outcome: Outcome, at: int) -> dict[str, Any]:
    """A test that did not pass, for reports: what went in, what should have come out, and what did."""
    match test:
        case StdioTest():
            asked = {"input": cut(test.input), "expected": cut(test.output)}
        case CallTest():
            text = test.text or f"{test.function}({_arguments(test)})"
            asked = {"input": cut(text), "expected": cut(text_of(test.expected))}
        case ScriptTest():
            asked = {"input": cut(test.code)}
    told = {"got": cut(outcome.got), "detail": cut(outcome.detail), "stderr": outcome.stderr[-STDERR:]}
    return {"test": at, "ending": outcome.ending, **asked, **{key: text for key, text in told.items() if text}}


def cut(text: str, most: int = SHOWN) -> str:
    """The text, or its beginning and its end with how much is left out between them."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} … {len(text) - 2 * half} characters … {text[-half:]}"


def _of_call(call: Call) -> Outcome:
    return Outcome(call.ending, "", call.detail, call.stderr, call.use, call.weak)


def _arguments(test: CallTest) -> str:
    return ", ".join([*map(text_of, test.args), *(f"{key}={text_of(one)}" for key, one in test.kwargs.items())])
