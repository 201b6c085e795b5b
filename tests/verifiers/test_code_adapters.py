"""Rows of data sets → suites of tests: each form by hand, over the rows of bundled tasks, and rows with a fault."""

import json
from pathlib import Path
from typing import Any

import pytest
from code_suites import suite

from reasonrl_code.asserts import on_copies
from reasonrl_code.records import CallTest, ScriptTest, StdioTest, Test
from reasonrl_code.suite import Suite, Unreadable

ROWS = Path(__file__).parents[1] / "data" / "tasks"
PROMPT = 'import math\n\n\ndef helper(x):\n    return x + 1\n\n\ndef f(x):\n    """Do it."""\n'
CHECK = "METADATA = {}\n\n\ndef check(candidate):\n"


def humaneval(check: str) -> tuple[Test, ...]:
    body = "".join(f"    {line}\n" for line in check.splitlines())
    return suite("humaneval", prompt=PROMPT, entry_point="f", test=CHECK + body).tests


@pytest.mark.parametrize(
    ("task", "adapter", "kinds"),
    [
        ("humaneval", "humaneval", [(1, 2), (3, 0), (5, 1), (3, 0)]),
        ("humaneval_plus", "humaneval", [(0, 1), (0, 1), (0, 1)]),
        ("mbpp", "mbpp", [(5, 0), (3, 0), (3, 0), (3, 0)]),
        ("mbpp_plus", "mbpp", [(0, 1), (0, 1), (0, 1)]),
        ("mbpp_sanitized", "mbpp", [(3, 0), (3, 0), (0, 3), (3, 0)]),
        ("code_contests", "stdio", [(4, 0), (4, 0), (2, 0)]),
        ("livecodebench", "livecodebench", [(3, 0), (3, 0), (2, 0)]),
    ],
)
def test_the_rows_of_bundled_tasks(task: str, adapter: str, kinds: list[tuple[int, int]]) -> None:
    rows = [json.loads(line) for line in (ROWS / f"{task}.jsonl").read_text().splitlines()]
    suites = [suite(adapter, **row) for row in rows]
    scripts = [sum(isinstance(test, ScriptTest) for test in one.tests) for one in suites]
    assert [(len(one.tests) - few, few) for one, few in zip(suites, scripts, strict=True)] == kinds
    for row, one in zip(rows, suites, strict=True):
        if "canonical_solution" in row:
            assert (one.entry_point, one.solution) == (row["entry_point"], row["prompt"] + row["canonical_solution"])
        if "code" in row:
            assert one.solution == row["code"].replace("\r\n", "\n")
            assert f"def {one.entry_point}(" in row["code"]
        if "test" in row and "numpy" in row["test"]:
            assert one.entry_point in one.tests[0].names  # type: ignore[union-attr]


# HumanEval


def test_each_assertion_of_a_check_is_a_test_with_what_stands_before_it() -> None:
    tests = humaneval(
        "assert candidate(1) == 2\nassert True, 'debug'\nn = 3\nassert candidate(n) == n\nassert f(2) == 3"
    )
    assert tests[0] == CallTest("f", (1,), 2, text="assert candidate(1) == 2")
    assert tests[1] == ScriptTest(
        "candidate = f\nassert candidate(n) == n",
        ("f",),
        "import math\ndef helper(x):\n    return x + 1\nn = 3",
    )
    assert tests[2] == CallTest("f", (2,), 3, text="assert f(2) == 3")
    assert len(tests) == 3


def test_a_helper_of_the_prompt_is_never_the_responses() -> None:
    (test,) = humaneval("for x in range(9):\n    assert candidate(helper(x)) == x\nassert True")
    assert isinstance(test, ScriptTest)
    assert test.names == ("f",)
    assert "def helper" in test.setup
    assert "def f" not in test.setup  # nor the stub in place of the response's


def test_statements_that_lean_on_one_another_stay_together() -> None:
    tests = humaneval("assert candidate(1) == 2\nx = candidate(2)\nassert x == 3\nassert candidate(3) == 4")
    assert len(tests) == 2
    assert isinstance(tests[1], ScriptTest)
    assert tests[1].code == "candidate = f\nx = candidate(2)\nassert x == 3\nassert candidate(3) == 4"


def test_a_check_without_assertions_is_one_script() -> None:
    rest = "def check(candidate):\n    for x in [1]:\n        same(candidate(x), x)\n"
    test = "def same(a, b):\n    assert a == b\n" + rest
    found = suite("humaneval", prompt=PROMPT, entry_point="f", test=test).tests
    setup = "import math\ndef helper(x):\n    return x + 1"
    assert found == (ScriptTest(on_copies("f") + test + "\ncheck(f)\n", ("f",), setup),)


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ({"test": "def check(candidate):\n    assert True\n"}, "no assertion that calls"),
        ({"test": "def check():\n    assert f(1)\n"}, r"check\(candidate\)"),
        ({"test": "assert f(1) == 2"}, r"check\(candidate\)"),
        ({"test": "def check(candidate:\n"}, r"check\(candidate\)"),
        ({"test": ""}, "column 'test' must hold text"),
        ({"test": None}, "column 'test' must hold text"),
        ({"prompt": "def f(x"}, "`prompt` is no Python"),
        ({"entry_point": 3}, "column 'entry_point' must hold text, not 3"),
    ],
)
def test_rows_of_humaneval_that_cannot_be_read(columns: dict[str, Any], fault: str) -> None:
    good = {"prompt": PROMPT, "entry_point": "f", "test": CHECK + "    assert candidate(1) == 2\n"}
    assert len(suite("humaneval", **good).tests) == 1
    with pytest.raises(Unreadable, match=fault):
        suite("humaneval", **(good | columns))


# MBPP


def test_mbpp_with_setup_and_challenges() -> None:
    found = suite(
        "mbpp",
        test_list=["assert f(1) == 2", "assert f(root) == 3"],
        challenge_test_list=["assert f(3) == 4"],
        test_setup_code="root = Node(1)\r\n",
        code="class Node: ...\r\ndef f(x):\r\n    return x + 1",
    )
    assert found.tests == (
        CallTest("f", (1,), 2, text="assert f(1) == 2"),
        ScriptTest("root = Node(1)\nassert f(root) == 3", ("Node", "f")),
        CallTest("f", (3,), 4, text="assert f(3) == 4"),
    )
    assert (found.entry_point, found.solution) == ("f", "class Node: ...\ndef f(x):\n    return x + 1")


def test_mbpp_plus_is_judged_by_its_test_alone() -> None:
    test = "for inp, exp in zip([[1]], [2]):\n    assert f(*inp) == exp\n"
    found = suite("mbpp", test=test, test_list=["assert f(9) == 9"], test_imports=["import math"], code="def f(x): ...")
    assert found.tests == (ScriptTest(on_copies("f") + test, ("f",), "import math"),)
    assert found.entry_point == "f"


def test_mbpp_may_ask_for_the_name_of_a_builtin() -> None:
    found = suite("mbpp", test_list=["assert sum(10, 15) == 6"], code="def sum(a, b):\n    return 6")
    assert found.tests == (CallTest("sum", (10, 15), 6, text="assert sum(10, 15) == 6"),)


def test_mbpp_without_a_call_test_asks_for_what_its_solution_defines() -> None:
    found = suite("mbpp", test_list=["assert g(f(1)) > 2"], code="def g(x): ...\ndef h(x): ...")
    assert found.entry_point == "g"
    assert suite("mbpp", test_list=["assert f(1) > 2"]).entry_point == "f"


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ({"test_list": []}, "there is no test"),
        ({}, "there is no test"),
        ({"test_list": "x = ("}, "no JSON"),
        ({"test_list": [1]}, "list of texts"),
        ({"test_list": ["assert f(1 == 2"]}, "no Python"),
        ({"test": "for x in y", "test_list": []}, "must be Python"),
        ({"test": "x = 1"}, "calls nothing"),
    ],
)
def test_rows_of_mbpp_that_cannot_be_read(columns: dict[str, Any], fault: str) -> None:
    with pytest.raises(Unreadable, match=fault):
        suite("mbpp", **columns)


# Standard input and output


@pytest.mark.parametrize(
    "columns",
    [
        {"public_tests": {"input": ["1"], "output": ["2"]}, "private_tests": {"input": ["3"], "output": ["4"]}},
        {"public_tests": [{"input": "1", "output": "2"}], "generated_tests": [{"input": "3", "output": "4"}]},
        {"tests": json.dumps([{"input": "1", "output": "2"}, {"input": "3", "output": "4"}]), "public_tests": None},
        {"tests": {"input": ["1", "3"], "output": ["2", "4"]}, "private_tests": {"input": [], "output": []}},
        {"input_output": json.dumps({"inputs": ["1", "3"], "outputs": ["2", "4"]})},
        {"input_output": {"inputs": [["1"], ["3"]], "outputs": [["2"], ["4"]]}},  # lists of lines
    ],
)
def test_standard_input_and_output(columns: dict[str, Any]) -> None:
    found = suite("stdio", **columns)
    assert found == Suite((StdioTest("1", "2"), StdioTest("3", "4")))


@pytest.mark.parametrize(
    ("outputs", "starter", "function", "expected"),
    [
        ([[3], [4]], "", "add", [3, 4]),  # wrapped
        ([[3], [4, 5]], "", "add", [[3], [4, 5]]),  # not wrapped
        ([3, 4], "class Solution:\n    def add(self, a, b):", "Solution.add", [3, 4]),
    ],
)
def test_apps_with_a_function(outputs: Any, starter: str, function: str, expected: list[Any]) -> None:
    pairs = json.dumps({"fn_name": "add", "inputs": [[1, 2], [2, 2]], "outputs": outputs})
    found = suite("stdio", input_output=pairs, starter_code=starter)
    assert found.tests == (CallTest(function, (1, 2), expected[0]), CallTest(function, (2, 2), expected[1]))
    assert found.entry_point == function.partition(".")[0]


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ({}, "there is no test"),
        ({"public_tests": {"input": [], "output": []}}, "there is no test"),
        ({"public_tests": {"input": ["1"], "output": []}}, "lists of one length"),
        ({"public_tests": {"input": "1", "output": "2"}}, "lists of one length"),
        ({"public_tests": 3}, "lists of tests"),
        ({"public_tests": [{"input": "1"}]}, "must be text, not None"),
        ({"input_output": "{"}, "no JSON"),
        ({"input_output": "[1]"}, "must be a mapping"),
        ({"input_output": {"fn_name": "f", "inputs": ["1"], "outputs": [1]}}, "list of arguments"),
    ],
)
def test_rows_without_readable_inputs_and_outputs(columns: dict[str, Any], fault: str) -> None:
    with pytest.raises(Unreadable, match=fault):
        suite("stdio", **columns)


# Assertions, and the neutral form


def test_assert_lines() -> None:
    found = suite("asserts", test_cases=["assert Stack().size() == 0", "assert f(1) != 2"])
    assert found.tests == (
        CallTest("Stack.size", (), 0, text="assert Stack().size() == 0"),
        ScriptTest("assert f(1) != 2", ("f",)),
    )
    assert found.entry_point == "Stack"
    with pytest.raises(Unreadable, match="empty"):
        suite("asserts", test_cases=[])


def test_the_neutral_form() -> None:
    tests = [
        {"type": "stdio", "input": "1", "output": "2"},
        {"type": "call", "fn": "f", "args": [1], "kwargs": {"by": 2}, "expected": None, "weight": 2},
        {"type": "assert", "code": "assert f(1) == 2", "weight": 0.5},
    ]
    expected = (
        StdioTest("1", "2"),
        CallTest("f", (1,), None, {"by": 2}, 2),
        CallTest("f", (1,), 2, {}, 0.5, "assert f(1) == 2"),
    )
    for column in (tests, json.dumps(tests)):
        found = suite("tests", tests=column, solution="def f(): ...")
        assert found == Suite(expected, "f", solution="def f(): ...")
    assert suite("tests", tests=tests, entry_point="g").entry_point == "g"


@pytest.mark.parametrize(
    ("tests", "fault"),
    [
        ([], "empty"),
        (None, "empty"),
        ([{"type": "call", "fn": "f"}], "must be of type"),
        ([{"type": "call", "fn": "f", "args": 3, "expected": 1}], "must be of type"),
        ([{"type": "other"}], "must be of type"),
        ([{"input": "1", "output": "2"}], "must be of type"),
        ([{"type": "stdio", "input": 1, "output": "2"}], "must be text, not 1"),
        ([{"type": "stdio", "input": "1", "output": "2", "weight": 0}], "positive number, not 0"),
        ([{"type": "stdio", "input": "1", "output": "2", "weight": float("nan")}], "positive number, not nan"),
        ([{"type": "stdio", "input": "1", "output": "2", "weight": True}], "positive number, not True"),
    ],
)
def test_neutral_rows_that_cannot_be_read(tests: Any, fault: str) -> None:
    with pytest.raises(Unreadable, match=fault):
        suite("tests", tests=tests)
