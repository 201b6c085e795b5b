"""The verifier `code` with its sandbox: honest programs pass, cheats do not, and a verdict shows why."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from reasonrl import Problem, Response, Verdict
from reasonrl_code.cheats import CHEATS, cheat
from reasonrl_code.near_miss import near_miss
from reasonrl_code.verifier import Code, CodeOptions

SQUARES = [{"type": "call", "fn": "sq", "args": [n], "expected": n * n} for n in (3, -2, 11)]
ASSERTS = [{"type": "assert", "code": f"assert sq({n}) == {n * n}"} for n in (3, -2, 11)]
LOOSE = [{"type": "assert", "code": f"assert abs(sq({n}) - {n * n}) < 1e-6"} for n in (3, -2, 11)]
SUMS = [{"type": "stdio", "input": f"{n} 4\n", "output": f"{n + 4}\n"} for n in (3, -2, 11)]
SQ = "def sq(x):\n    return x * x\n"
SUM = "a, b = map(int, input().split())\nprint(a + b)\n"


class Kept:
    """One verifier for the tests of this file, its options set anew for each."""

    def __init__(self) -> None:
        self.code = Code()

    def __call__(self, tests: list[dict[str, Any]], text: str, **options: Any) -> Verdict:
        self.code.options = CodeOptions.model_validate(options)
        return self.code.verify(problem(tests), Response(text))


@pytest.fixture(scope="module")
def verdict() -> Iterator[Kept]:
    kept = Kept()
    kept.code.warm_up()
    yield kept
    kept.code.close()


def problem(tests: list[dict[str, Any]], **columns: Any) -> Problem:
    return Problem("p", "", metadata={"tests": tests, **columns})


def fenced(source: str) -> str:
    return f"Here it is:\n```python\n{source}```\n"


@pytest.mark.parametrize("tests", [SQUARES, ASSERTS, LOOSE], ids=["call", "assert", "script"])
def test_a_right_function_passes_and_a_wrong_one_does_not(verdict: Kept, tests: list[dict[str, Any]]) -> None:
    right = verdict(tests, fenced(SQ))
    assert (right.reward, right.reason) == (1.0, "correct")
    assert (right.evidence["tests"], right.evidence["run"], right.evidence["passed"]) == (3, 3, 3)
    wrong = verdict(tests, fenced("def sq(x):\n    return x * x if x > 0 else 0\n"))
    assert (wrong.reward, wrong.reason) == (0.0, "wrong")
    assert (wrong.evidence["run"], wrong.evidence["passed"], wrong.evidence["failed"]["test"]) == (2, 1, 1)


def test_a_program_reads_standard_input(verdict: Kept) -> None:
    assert verdict(SUMS, fenced(SUM)).reward == 1
    wrong = verdict(SUMS, fenced(SUM.replace("+", "-")))
    assert wrong.evidence["failed"]["input"] == "3 4\n"
    assert (wrong.evidence["failed"]["expected"], wrong.evidence["failed"]["got"]) == ("7\n", "-1\n")
    assert wrong.evidence["tier"].startswith("bwrap")
    assert wrong.evidence["memory"] > 0
    assert wrong.evidence["seconds"] > 0


def test_part_of_the_tests_is_part_of_the_reward(verdict: Kept) -> None:
    half = fenced("def sq(x):\n    return x * x if x > 0 else 0\n")
    assert verdict(SQUARES, half, reward="fraction").reward == pytest.approx(2 / 3)
    weighted = [{**test, "weight": weight} for test, weight in zip(SQUARES, (1, 6, 1), strict=True)]
    assert verdict(weighted, half, reward="weighted").reward == pytest.approx(1 / 4)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SQ, "correct"),  # no block, but a program
        ("The square of x is x times x.", "no_answer"),
        ("```text\n9\n```", "no_answer"),
        ("<think>" + fenced(SQ) + "</think>" + fenced("sq = abs\n"), "wrong"),
        (fenced("def sq(x):\n    return x * x x\n"), "error"),
        (fenced("def sq(x):\n    return 1 / 0\n"), "error"),
        (fenced("def other(x):\n    return x * x\n"), "error"),
        (fenced("def sq(x):\n    while True: pass\n"), "timeout"),
        (fenced("def sq(x):\n    return bytearray(2**33)\n"), "memory"),
    ],
)
def test_reasons(verdict: Kept, text: str, reason: str) -> None:
    assert verdict(SQUARES, text, seconds=0.2).reason == reason


def test_the_error_is_shown(verdict: Kept) -> None:
    failed = verdict(SQUARES, fenced("def sq(x):\n    raise KeyError('gone')\n")).evidence["failed"]
    assert failed["input"] == "sq(3)"
    assert "KeyError" in failed["detail"]
    assert "KeyError: 'gone'" in failed["stderr"]


def test_raw_text_may_be_refused(verdict: Kept) -> None:
    assert verdict(SQUARES, SQ, raw=False).reason == "no_answer"


@pytest.mark.parametrize("tests", [SQUARES, ASSERTS, LOOSE, SUMS], ids=["call", "assert", "script", "stdio"])
@pytest.mark.parametrize("name", CHEATS)
def test_no_cheat_is_rewarded(verdict: Kept, tests: list[dict[str, Any]], name: str) -> None:
    entry_point = "" if tests is SUMS else "sq"
    found = verdict(tests, cheat(CHEATS[name], entry_point), reward="fraction")
    assert found.reward == 0, found


def test_cpp_programs_are_compiled_and_run(verdict: Kept) -> None:
    source = '#include <cstdio>\nint main() { int a, b; std::scanf("%d%d", &a, &b); std::printf("%d\\n", a + b); }\n'
    assert verdict(SUMS, f"```cpp\n{source}```", language="cpp").reward == 1
    assert verdict(SUMS, f"```cpp\n{source.replace('a + b', 'a - b')}```", language="cpp").reason == "wrong"
    assert verdict(SUMS, f"```cpp\n{source.replace(';', '')}```", language="cpp").reason == "error"
    assert verdict(SUMS, fenced(SUM), language="cpp").reason == "no_answer"


def test_a_completion_of_a_prompt(verdict: Kept) -> None:
    prompt = 'from typing import List\n\n\ndef total(xs: List[int]) -> int:\n    """Add."""\n'
    columns = {"prompt": prompt, "entry_point": "total", "canonical_solution": "    return sum(xs)\n"}
    columns["test"] = "def check(candidate):\n    assert candidate([1, 2]) == 3\n"
    verdict.code.options = CodeOptions(adapter="humaneval")
    one = Problem("p", "", metadata=columns)
    for text in (
        "    return sum(xs)\n",
        "```python\nreturn sum(xs)\n```",
        fenced("def total(xs: List[int]):\n    return sum(xs)\n"),
    ):
        assert verdict.code.verify(one, Response(text)).reward == 1, text
    right, wrong = verdict.code.right_response(one), verdict.code.wrong_response(one)
    assert verdict.code.verify(one, Response(right or "")).reward == 1
    assert verdict.code.verify(one, Response(wrong or "")).reward == 0


# Without a sandbox


def test_a_row_without_tests_is_a_fault_and_is_not_judged() -> None:
    code = Code()
    assert code.audit(problem([])) == "'tests' is empty"
    assert code.audit(problem(SQUARES)) is None
    with pytest.raises(ValueError, match="empty"):
        code.verify(problem([]), Response(fenced(SQ)))


def test_made_responses() -> None:
    code = Code()
    assert code.right_response(problem(SQUARES)) is None
    assert code.wrong_response(problem(SQUARES)) is None
    assert code.right_response(problem(SQUARES, solution=SQ)) == f"```python\n{SQ}```"
    assert code.cheats(problem(SQUARES))[2] == "```python\nimport os\ndef sq(*args, **kwargs):\n    os._exit(0)\n```\n"
    more = Code(CodeOptions(cheats=("NAME = int\n",)))
    assert more.cheats(problem(SQUARES))[-1] == "```python\nsq = int\n```\n"
    assert len(more.cheats(problem(SQUARES))) == len(CHEATS) + 1


@pytest.mark.parametrize(
    ("solution", "entry_point", "value", "other"),
    [
        ("def f(x):\n    return x", "f", 3, None),
        ("def f(x):\n    return x", "f", True, False),
        ("def f(x):\n    return x", "f", None, "another"),
        ("class S:\n    def f(self, x):\n        return x", "S.f", 3, None),
    ],
)
def test_a_near_miss_returns_another_value(solution: str, entry_point: str, value: Any, other: Any) -> None:
    namespace: dict[str, Any] = {}
    exec(compile(near_miss(solution, entry_point), "near miss", "exec"), namespace)  # our own text
    function = namespace["f"] if entry_point == "f" else namespace["S"]().f
    assert function(value) is other


def test_a_near_miss_of_a_program_writes_more() -> None:
    assert near_miss("print(1)\n", "") == 'print(1)\nprint("another")\n'


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"adapter": "apps"}, "no adapter 'apps'; there are tests, humaneval"),
        ({"language": "java"}, "no language 'java'; there are python, cpp"),
        ({"tier": "docker"}, "tier"),
        ({"reward": "some"}, "reward"),
        ({"seconds": 0}, "seconds"),
        ({"timeout": 3}, "timeout"),
    ],
)
def test_wrong_options(options: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        CodeOptions.model_validate(options)


def test_a_check_may_take_what_its_tests_may() -> None:
    assert Code.check_seconds(CodeOptions(seconds=4, total_seconds=30)) == 2 * (30 + 2 * 4 + 1)


def test_the_evidence_is_json(verdict: Kept) -> None:
    found = verdict(SQUARES, fenced("def sq(x):\n    return {1: {2}, (3,): b'4'}\n"))
    assert json.loads(json.dumps(found.evidence))["failed"]["got"] == "{1: {2}, (3,): b'4'}"
