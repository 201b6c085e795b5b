"""The neutral form: `tests`, a list of {type: stdio, input, output}, {type: call, fn, args, kwargs, expected} or
{type: assert, code}, each with a `weight` if not 1. Optional columns: `entry_point`, and `solution`, a right program.

A column of test dicts of several types is best given as JSON text: tables have one type a column.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from reasonrl import Problem
from reasonrl_code.adapters.columns import decoded, entries, optional_text, shown
from reasonrl_code.adapters.stdio import lines
from reasonrl_code.asserts import read_tests
from reasonrl_code.records import CallTest, StdioTest, Test
from reasonrl_code.suite import Suite, Unreadable


def neutral(problem: Problem) -> Suite:
    """The suite of a row in the neutral form."""
    found = [_test(one) for one in entries(decoded(problem.metadata.get("tests"), "tests"), "tests")]
    if not found:
        raise Unreadable("'tests' is empty")
    calls = [test.function.partition(".")[0] for test in found if isinstance(test, CallTest)]
    entry_point = optional_text(problem, "entry_point") or (calls[0] if calls else "")
    return Suite(tuple(found), entry_point, solution=optional_text(problem, "solution") or None)


def _test(entry: Mapping[str, Any]) -> Test:
    weight = 1.0 if entry.get("weight") is None else entry["weight"]
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < float("inf"):
        raise Unreadable(f"the weight of a test must be a positive number, not {shown(weight)}")
    match entry.get("type"):
        case "stdio":
            return StdioTest(lines(entry.get("input"), "input"), lines(entry.get("output"), "output"), weight)
        case "call" if isinstance(entry.get("fn"), str) and "expected" in entry:
            args, kwargs = entry.get("args") or [], entry.get("kwargs") or {}
            if isinstance(args, list | tuple) and isinstance(kwargs, Mapping):
                return CallTest(entry["fn"], tuple(args), entry["expected"], dict(kwargs), weight)
        case "assert" if isinstance(entry.get("code"), str):
            (test,) = read_tests([entry["code"]])
            return replace(test, weight=weight)
    raise Unreadable(f"a test must be of type stdio, call or assert with its fields, not {shown(dict(entry))}")
