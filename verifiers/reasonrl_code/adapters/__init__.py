"""Rows of data sets → suites of tests. One file and one entry in ADAPTERS per form."""

from collections.abc import Callable

from reasonrl import Problem
from reasonrl_code.adapters.asserts import asserts
from reasonrl_code.adapters.humaneval import humaneval
from reasonrl_code.adapters.livecodebench import livecodebench
from reasonrl_code.adapters.mbpp import mbpp
from reasonrl_code.adapters.neutral import neutral
from reasonrl_code.adapters.stdio import stdio
from reasonrl_code.suite import Suite

Adapter = Callable[[Problem], Suite]
"""A problem, with the columns of its row as metadata, → its suite; raises `Unreadable` if it has none."""

ADAPTERS: dict[str, Adapter] = {
    "tests": neutral,
    "humaneval": humaneval,
    "mbpp": mbpp,
    "stdio": stdio,
    "livecodebench": livecodebench,
    "asserts": asserts,
}
