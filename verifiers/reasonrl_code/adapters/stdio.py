"""Programs that read standard input and write standard output: CodeContests and APPS.

CodeContests: `public_tests`, `private_tests`, `generated_tests` (or `tests`), each with the lists `input` and `output`,
or a list of {input, output}. APPS: `input_output`, JSON of the lists `inputs` and `outputs`; with `fn_name`, inputs are
arguments of that function, a method of `Solution` where `starter_code` has such a class.
"""

from typing import Any

from reasonrl import Problem
from reasonrl_code.adapters.columns import decoded, entries, optional_text, shown
from reasonrl_code.headers import TYPING
from reasonrl_code.records import CallTest, StdioTest, Test
from reasonrl_code.suite import Suite, Unreadable

COLUMNS = ("public_tests", "private_tests", "generated_tests", "tests")


def stdio(problem: Problem) -> Suite:
    """The suite of a row of CodeContests or of APPS."""
    tests: list[Test] = []
    for name in COLUMNS:
        for entry in entries(decoded(problem.metadata.get(name), name), name):
            tests.append(StdioTest(lines(entry.get("input"), name), lines(entry.get("output"), name)))
    header = entry_point = ""
    pairs = decoded(problem.metadata.get("input_output"), "input_output") or {}
    if not isinstance(pairs, dict):
        raise Unreadable(f"'input_output' must be a mapping, not {shown(pairs)}")
    if function := pairs.get("fn_name"):
        method = "class Solution" in optional_text(problem, "starter_code")
        entry_point = "Solution" if method else str(function)
        tests += _calls(f"Solution.{function}" if method else str(function), pairs)
        header = TYPING if method else ""
    else:
        read = entries({"input": pairs.get("inputs"), "output": pairs.get("outputs")}, "input_output")
        tests += [StdioTest(lines(one.get("input"), "inputs"), lines(one.get("output"), "outputs")) for one in read]
    if not tests:
        raise Unreadable(f"there is no test in {', '.join(COLUMNS)} or input_output")
    return Suite(tuple(tests), entry_point, header=header)


def lines(value: Any, name: str) -> str:
    """The text of an input or output, which APPS has as a list of lines at times.

    Raises:
        Unreadable: it is neither.
    """
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return "\n".join(value)
    if not isinstance(value, str):
        raise Unreadable(f"{name!r}: an input or output must be text, not {shown(value)}")
    return value


def _calls(function: str, pairs: dict[str, Any]) -> list[CallTest]:
    """Call tests; a result that stands in a list of one, in every output, is what is in the list, as APPS has it."""
    read = entries({"args": pairs.get("inputs"), "expected": pairs.get("outputs")}, "input_output")
    if not all(isinstance(one.get("args"), list) for one in read):
        raise Unreadable("'input_output': with fn_name, each of the inputs must be a list of arguments")
    wrapped = all(isinstance(one["expected"], list) and len(one["expected"]) == 1 for one in read)
    return [CallTest(function, tuple(one["args"]), one["expected"][0] if wrapped else one["expected"]) for one in read]
