"""Assert statements of a data set → tests. `assert f(1) == 2` becomes a call whose value is compared outside.

An assertion of another form, or with arguments that are no literals, becomes a script.
"""

import ast
import builtins
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from reasonrl_code.records import CallTest, ScriptTest, Test
from reasonrl_code.suite import Unreadable
from reasonrl_code.syntax import bound, parse

BUILTINS = frozenset(dir(builtins))


def read_tests(texts: Iterable[str], setup: str = "", own: frozenset[str] = frozenset()) -> tuple[Test, ...]:
    """The tests in texts that each hold an assertion, or several statements that belong together.

    Args:
        texts: as a data set has them.
        setup: statements that run before each, and are no test themselves.
        own: names that are the program's though builtins have them, too: MBPP/126 asks for a function `sum`.

    Raises:
        Unreadable: a text is no Python, or calls nothing that a program could define.
    """
    return tuple(_test(text.strip(), setup, own) for text in texts)


def called(statement: ast.stmt, text: str, own: frozenset[str] = frozenset()) -> CallTest | None:
    """The call test that an assertion is, or None if it is of another form.

    Only `==` with a literal, and `is None`, say no more and no less than that a value equals another.
    """
    match statement:
        case ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right])):
            return _equality(left, right, text, own) or _equality(right, left, text, own)
        case ast.Assert(test=ast.Compare(left=left, ops=[ast.Is()], comparators=[ast.Constant(value=None) as right])):
            return _equality(left, right, text, own)
    return None


def script(
    statements: Sequence[ast.stmt],
    setup: Sequence[ast.stmt] = (),
    first: str = "",
    before: str = "",
    own: frozenset[str] = frozenset(),
) -> ScriptTest:
    """A script test of statements.

    Args:
        statements: the test.
        setup: statements before it.
        first: a line put before the test.
        before: text put before the setup.
        own: as of `read_tests`.

    Raises:
        Unreadable: they call nothing that a program could define.
    """
    earlier = parse(before)
    if earlier is None:
        raise Unreadable(f"the setup is no Python: {before[:80]!r}")
    opening = parse(first)
    whole = [*earlier.body, *setup, *(opening.body if opening else []), *statements]
    names = free_names(whole, own)
    modules = _modules(whole, names)  # MBPP/596 leans on an import of the reference solution
    names = tuple(name for name in names if name not in modules)
    code = "\n".join(filter(None, [first, *map(ast.unparse, statements)]))
    if not names:
        raise Unreadable(f"a test calls nothing that a program could define: {code[:80]!r}")
    opened = "\n".join([*(f"import {name}" for name in modules), *filter(None, [before, *map(ast.unparse, setup)])])
    if set(free_names([*earlier.body, *setup], own)) & set(names):  # it calls the program itself, as in MBPP/367
        return ScriptTest(f"{opened}\n{code}", names)
    return ScriptTest(code, names, opened)


def on_copies(function: str) -> str:
    """Statements that give the program copies of its arguments, for tests that judge what it returns by them.

    `f(*given) == reference(*given)` is true of a program that empties what it is given, and returns that.
    """
    copied = f"_given_to_{function}(*_copy.deepcopy(args), **_copy.deepcopy(named))"
    return f"import copy as _copy\n_given_to_{function} = {function}\ndef {function}(*args, **named): return {copied}\n"


def free_names(statements: Sequence[ast.stmt], own: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """The names that statements read and neither bind nor have as a builtin, in order of their appearance."""
    nodes = [node for statement in statements for node in ast.walk(statement)]
    known = bound(list(statements)) | (BUILTINS - own)
    for node in nodes:
        match node:
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                known.add(name)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                known.add(node.name)
            case ast.Import() | ast.ImportFrom():
                known |= bound([node])
    read = {
        (at, node.lineno, node.col_offset, node.id)
        for at, statement in enumerate(statements)
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in known
    }
    return tuple(dict.fromkeys(name for *_, name in sorted(read)))


def _modules(statements: Sequence[ast.stmt], names: Sequence[str]) -> list[str]:
    """Those of the names that can only be modules of the standard library: `sys` in `sys.getsizeof(x)`."""
    nodes = [node for statement in statements for node in ast.walk(statement)]
    owners = {node.value.id for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)}
    return [name for name in names if name in owners and name in sys.stdlib_module_names]


def _test(text: str, setup: str, own: frozenset[str]) -> Test:
    tree = parse(text)
    if tree is None or not tree.body:
        raise Unreadable(f"a test is no Python: {text[:80]!r}")
    if len(tree.body) == 1 and (test := called(tree.body[0], text, own)) is not None and not _redefines(setup, test):
        return test
    return script(tree.body, before=setup, own=own)


def _redefines(setup: str, test: CallTest) -> bool:
    """Does the setup bind what the test calls, so that it is not the program's?"""
    tree = parse(setup)
    return tree is None or test.function.partition(".")[0] in bound(tree.body)


def _equality(call: ast.expr, literal: ast.expr, text: str, own: frozenset[str]) -> CallTest | None:
    if not isinstance(call, ast.Call) or any(keyword.arg is None for keyword in call.keywords):
        return None
    name = _function(call.func, BUILTINS - own)
    try:
        expected = literal_value(literal)
        args = tuple(literal_value(one) for one in call.args)
        kwargs = {str(keyword.arg): literal_value(keyword.value) for keyword in call.keywords}
    except ValueError:
        return None
    return None if name is None else CallTest(name, args, expected, kwargs, text=text)


def _function(node: ast.expr, builtin: frozenset[str]) -> str | None:
    """The name of `f` or of `Class().method`; None for a builtin and anything else."""
    match node:
        case ast.Name(id=name) if name not in builtin:
            return name
        case ast.Attribute(attr=method, value=ast.Call(func=ast.Name(id=name), args=[], keywords=[])):
            return None if name in builtin else f"{name}.{method}"
    return None


def literal_value(node: ast.expr) -> Any:
    """The plain value of a literal.

    Raises:
        ValueError: it is none.
    """
    try:
        value = ast.literal_eval(node)
    except (TypeError, SyntaxError, MemoryError, RecursionError) as error:  # TypeError: an unhashable key
        raise ValueError(str(error)) from error
    if any(isinstance(one, ast.Constant) and one.value is Ellipsis for one in ast.walk(node)):
        raise ValueError("... is no plain value")
    return value
