"""Imports that a data set takes for granted: its starter code and solutions use the names without importing them."""

MODULES = (
    "bisect", "collections", "copy", "datetime", "decimal", "fractions", "functools", "heapq", "itertools", "json",
    "math", "operator", "random", "re", "statistics", "string", "sys", "time",
)  # fmt: skip
STARS = ("typing", "collections", "functools", "heapq", "bisect", "itertools", "math", "builtins")
COMMON = "".join(f"import {name}\n" for name in MODULES) + "".join(f"from {name} import *\n" for name in STARS)
"""Modules by name, and the names of the usual ones; builtins last, for `math` has a `pow` of its own."""
TYPING = "import typing\nfrom typing import *\n"
"""The names that signatures use."""
