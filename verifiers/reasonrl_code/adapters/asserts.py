"""Assert lines: `test_cases`, a list of them, as AceCode has them."""

from reasonrl import Problem
from reasonrl_code.adapters.columns import texts
from reasonrl_code.asserts import read_tests
from reasonrl_code.records import CallTest, ScriptTest
from reasonrl_code.suite import Suite, Unreadable


def asserts(problem: Problem) -> Suite:
    """The suite of a row of AceCode, or of any with assertions under `test_cases`."""
    tests = read_tests(texts(problem, "test_cases"))
    if not tests:
        raise Unreadable("'test_cases' is empty")
    names = [test.function for test in tests if isinstance(test, CallTest)]
    names += [name for test in tests if isinstance(test, ScriptTest) for name in test.names]
    return Suite(tests, names[0].partition(".")[0])
