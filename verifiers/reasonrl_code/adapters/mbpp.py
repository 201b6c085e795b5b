"""MBPP: `test_list` with `test_setup_code` and `challenge_test_list` (full) or `test_imports` (sanitized), `code`.

The + form has `test`, a program of its own that walks over inputs and results: then that alone judges.
"""

from collections.abc import Sequence

from reasonrl import Problem
from reasonrl_code.adapters.columns import optional_text, texts
from reasonrl_code.asserts import free_names, on_copies, read_tests
from reasonrl_code.records import CallTest, ScriptTest, Test
from reasonrl_code.suite import Suite, Unreadable
from reasonrl_code.syntax import bound, parse


def mbpp(problem: Problem) -> Suite:
    """The suite of a row of MBPP or of MBPP+."""
    setup = "\n".join(filter(None, [*texts(problem, "test_imports"), optional_text(problem, "test_setup_code")]))
    setup = setup.replace("\r\n", "\n").strip()
    lists = texts(problem, "test_list") + texts(problem, "challenge_test_list")
    program = optional_text(problem, "test")
    solution = optional_text(problem, "code").replace("\r\n", "\n")
    tree = parse(solution)
    own = frozenset(bound(tree.body) if tree else ())
    listed = read_tests(lists, setup, own)
    tests = (_whole(program, setup, own, _entry_point(listed, own)),) if program else listed
    if not tests:
        raise Unreadable("there is no test: `test_list` is empty, and there is no `test`")
    return Suite(tests=tests, entry_point=_entry_point([*listed, *tests], own), solution=solution or None)


def _whole(program: str, setup: str, own: frozenset[str], entry_point: str) -> ScriptTest:
    tree, before = parse(program), parse(setup)
    if tree is None or before is None:
        raise Unreadable("`test` and `test_imports` must be Python")
    names = free_names([*before.body, *tree.body], own)
    if not names:
        raise Unreadable("`test` calls nothing that a program could define")
    return ScriptTest(on_copies(entry_point) + program if entry_point in names else program, names, setup)


def _entry_point(tests: Sequence[Test], own: frozenset[str]) -> str:
    """What the first call test calls; else, of the names the scripts call, one that the solution defines."""
    for test in tests:
        if isinstance(test, CallTest):
            return test.function
    names = [name for test in tests if isinstance(test, ScriptTest) for name in test.names]
    return next((name for name in names if name in own), names[0] if names else "")
