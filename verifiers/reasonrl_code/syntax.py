"""Python text → syntax tree, quietly and within bounds. Nothing is ever run here."""

import ast
import warnings
from collections.abc import Iterator

LONGEST = 4_000_000  # characters; the test programs of EvalPlus reach megabytes


def parse(source: str) -> ast.Module | None:
    """The tree of a Python program, or None if it is none (or too long, or nested too deeply for the parser)."""
    if len(source) > LONGEST:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\d" in a string is the program's affair
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # ValueError: a null byte, a lone surrogate
            return None


def defines(tree: ast.Module, name: str) -> bool:
    """Does the program bind the name at its top level, by def, class, assignment or import?"""
    return name in bound(tree.body)


def bound(statements: list[ast.stmt]) -> set[str]:
    """The names that statements bind in their own scope, those within their blocks included."""
    return {name for statement in statements for name in _bound(statement)}


def _bound(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
            return  # what is bound within is of another scope
        case ast.Lambda():
            return
        case ast.Import() | ast.ImportFrom():
            for alias in node.names:
                yield alias.asname or alias.name.partition(".")[0]
        case ast.Name(id=name, ctx=ast.Store()):
            yield name
        case ast.ExceptHandler(name=str(name)):
            yield name
    for child in ast.iter_child_nodes(node):
        yield from _bound(child)
