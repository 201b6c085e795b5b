"""Assertions of data sets → tests: which become calls, which scripts, and whose the names are."""

from typing import Any

import pytest

from reasonrl_code.asserts import read_tests
from reasonrl_code.records import CallTest, ScriptTest, Test
from reasonrl_code.suite import Unreadable


def only(text: str, setup: str = "") -> Test:
    (test,) = read_tests([text], setup)
    return test


@pytest.mark.parametrize(
    ("text", "function", "args", "kwargs", "expected"),
    [
        ("assert f(1) == 2", "f", (1,), {}, 2),
        ("assert 2 == f(1)", "f", (1,), {}, 2),
        ("assert (f(1)) == 2, 'message'", "f", (1,), {}, 2),
        ("assert f() is None", "f", (), {}, None),
        ("assert f([1, -2], (3,), {'a': {4}}) == {1: (2, None)}", "f", ([1, -2], (3,), {"a": {4}}), {}, {1: (2, None)}),
        ("assert f(1, key='x') == True", "f", (1,), {"key": "x"}, True),
        ("assert f(0, 1j) == -1.5", "f", (0, 1j), {}, -1.5),
        ("assert Solution().f(1) == b'x'", "Solution.f", (1,), {}, b"x"),
        ("assert f('a\\r\\n') == set()", "f", ("a\r\n",), {}, set()),
    ],
)
def test_calls(text: str, function: str, args: Any, kwargs: Any, expected: Any) -> None:
    test = only(text)
    assert isinstance(test, CallTest)
    assert (test.function, test.args, test.kwargs, test.expected) == (function, args, kwargs, expected)
    assert type(test.expected) is type(expected)
    assert test.text == text


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("assert f(1)", ("f",)),  # what it returns need not be True
        ("assert not f(1)", ("f",)),
        ("assert f(1) is True", ("f",)),  # 1 would not do
        ("assert f(1) != 2", ("f",)),
        ("assert f(1) == 1/3", ("f",)),
        ("assert f(*[1]) == 2", ("f",)),
        ("assert f(**{}) == 2", ("f",)),
        ("assert f(...) == 2", ("f",)),
        ("assert f([{}]) == {[]: 1}", ("f",)),
        ("assert f(1) == f(2)", ("f",)),
        ("assert f(g(1)) == 2", ("f", "g")),
        ("assert f(1) == 2 and f(2) == 3", ("f",)),
        ("assert 1 < f(1) < 3", ("f",)),
        ("assert abs(f(1) - 2.0) < 1e-6", ("f",)),
        ("assert set(f(1)) == {1}", ("f",)),
        ("assert Solution(1).f(1) == 2", ("Solution",)),
        ("x = f(1)\nassert x == 2", ("f",)),
        ("for x in range(3):\n    assert f(x) == x", ("f",)),
        ("import math\nassert math.isclose(f(1), 2)", ("f",)),
        ("assert all(f(x) == y for x, y in [(1, 2)])", ("f",)),
        ("assert list(map(f, [1])) == [2]", ("f",)),
        ("assert (lambda x: f(x))(1) == 2", ("f",)),
        ("def g(x):\n    return f(x)\nassert g(1) == 2", ("f",)),
        ("with open(f) as g:\n    assert g", ("f",)),
        ("try:\n    f(1)\nexcept ValueError as e:\n    assert e.args", ("f",)),
    ],
)
def test_scripts(text: str, names: tuple[str, ...]) -> None:
    test = only(text)
    assert isinstance(test, ScriptTest)
    assert test.names == names


def test_a_module_that_a_test_takes_for_granted_is_imported() -> None:
    test = only("assert f((1, 2)) == sys.getsizeof((1, 2))")
    assert test == ScriptTest("assert f((1, 2)) == sys.getsizeof((1, 2))", ("f",), "import sys")


def test_the_setup_comes_before_and_is_part_of_the_test_if_it_calls_the_program() -> None:
    test = only("assert f(one) == 2", "from math import pi\none = Node(pi)")
    assert test == ScriptTest("from math import pi\none = Node(pi)\nassert f(one) == 2", ("Node", "f"))
    test = only("assert f(one) == 2", "from math import pi\none = [pi]")
    assert test == ScriptTest("assert f(one) == 2", ("f",), "from math import pi\none = [pi]")
    assert isinstance(only("assert f(1) == 2", "one = 1"), CallTest)
    with pytest.raises(Unreadable, match="calls nothing"):
        only("assert f(1) == 2", "def f(x):\n    return 2")


def test_a_builtin_is_the_programs_only_if_it_says_so() -> None:
    with pytest.raises(Unreadable, match=r"calls nothing.*sum\(10, 15\)"):
        only("assert sum(10, 15) == 6")
    (test,) = read_tests(["assert sum(10, 15) == 6"], own=frozenset({"sum"}))
    assert isinstance(test, CallTest)
    assert (test.function, test.args) == ("sum", (10, 15))


@pytest.mark.parametrize("text", ["", "# nothing", "assert f(1 == 2", "assert True", "assert len([]) == 0", "\0"])
def test_what_tests_nothing_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        read_tests([text])


def test_a_setup_that_is_no_python_is_refused() -> None:
    with pytest.raises(Unreadable, match="setup"):
        only("assert f(x) == 2", "x = (")
