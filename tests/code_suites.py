"""What tests of the adapters of code data sets share."""

from typing import Any

from reasonrl import Problem
from reasonrl_code.adapters import ADAPTERS
from reasonrl_code.suite import Suite


def suite(adapter: str, **columns: Any) -> Suite:
    return ADAPTERS[adapter](Problem("p", "", metadata=columns))
