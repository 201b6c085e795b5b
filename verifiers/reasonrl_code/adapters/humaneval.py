"""HumanEval and HumanEval+: `prompt` to continue, `test` with `check(candidate)`, `entry_point`, `canonical_solution`.

`check` is split: each of its assertions is a test of its own, with the statements before it that only make data as its
setup. A `check` without assertions, as in EvalPlus, where a loop walks over inputs and results, is one script.
Functions that a check calls besides the candidate (`poly`, `encode_cyclic`, `encode_shift`) are those of the prompt,
never the response's.
"""

import ast
from dataclasses import replace

from reasonrl import Problem
from reasonrl_code.adapters.columns import optional_text, text
from reasonrl_code.asserts import called, free_names, on_copies, script
from reasonrl_code.headers import TYPING
from reasonrl_code.records import ScriptTest, Test
from reasonrl_code.suite import Suite, Unreadable
from reasonrl_code.syntax import bound, parse


def humaneval(problem: Problem) -> Suite:
    """The suite of a row of HumanEval or of HumanEval+."""
    prompt, entry_point = text(problem, "prompt"), text(problem, "entry_point")
    solution = optional_text(problem, "canonical_solution")
    return Suite(
        tests=_tests(text(problem, "test"), entry_point, _without(prompt, entry_point)),
        entry_point=entry_point,
        prompt=prompt,
        header=TYPING,
        solution=prompt + solution if solution else None,
    )


def _tests(test: str, entry_point: str, helpers: str) -> tuple[Test, ...]:
    tree = parse(test)
    checks = [] if tree is None else [one for one in tree.body if getattr(one, "name", "") == "check"]
    if tree is None or not checks or not isinstance(check := checks[-1], ast.FunctionDef) or len(check.args.args) != 1:
        raise Unreadable("`test` must be Python that defines check(candidate)")
    if not any(isinstance(one, ast.Assert) for one in check.body):
        names = free_names([*(parse(helpers) or tree).body, *tree.body])
        code = f"{on_copies(entry_point)}{test}\ncheck({entry_point})\n"
        return (ScriptTest(code, tuple(dict.fromkeys([entry_point, *names])), helpers),)
    around = [one for one in tree.body if one not in checks and _matters(one)]
    tests = _split(check, entry_point, around, helpers)
    if not tests:
        raise Unreadable("check(candidate) has no assertion that calls the candidate")
    return tuple(tests)


def _split(check: ast.FunctionDef, entry_point: str, around: list[ast.stmt], helpers: str) -> list[Test]:
    """The assertions of `check`, and its loops, as tests of their own."""
    candidate = check.args.args[0].arg
    first = f"{candidate} = {entry_point}"
    tests: list[Test] = []
    setup = list(around)
    for at, statement in enumerate(check.body):
        if not _reads(statement, {candidate, entry_point}):
            if not isinstance(statement, ast.Assert) and _matters(statement):
                setup.append(statement)
            continue
        direct = called(statement, ast.unparse(statement))
        if direct is not None and direct.function in (candidate, entry_point):
            tests.append(replace(direct, function=entry_point))
            continue
        needed_later = any(_reads(later, bound([statement])) for later in check.body[at + 1 :])
        statements = check.body[at:] if needed_later and not isinstance(statement, ast.Assert) else [statement]
        tests.append(script(statements, setup, first, helpers))
        if len(statements) > 1:
            break
    return tests


def _reads(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(one, ast.Name) and one.id in names for one in ast.walk(node))


def _matters(statement: ast.stmt) -> bool:
    """Not METADATA, which nothing reads, nor a lone value or print."""
    match statement:
        case ast.Expr(value=ast.Constant() | ast.Call(func=ast.Name(id="print"))):
            return False
        case ast.Assign(targets=[ast.Name(id="METADATA")]):
            return False
    return True


def _without(prompt: str, entry_point: str) -> str:
    """The prompt's imports and helper functions, as Python."""
    tree = parse(prompt)
    if tree is None:
        raise Unreadable("`prompt` is no Python")
    return "\n".join(ast.unparse(one) for one in tree.body if getattr(one, "name", "") != entry_point)
