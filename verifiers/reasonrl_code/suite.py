"""What an adapter makes of a row: the tests, and what a program that answers it may build on."""

from dataclasses import dataclass

from reasonrl_code.records import Test


class Unreadable(ValueError):
    """The row of a data set cannot be turned into tests; the text says why."""


@dataclass(frozen=True)
class Suite:
    """The tests of one problem.

    Attributes:
        tests: at least one.
        entry_point: the function or class asked for; empty for a program that reads standard input.
        prompt: code that a response may continue, as in HumanEval.
        header: statements that come before every program, such as the imports its signature leans on.
        solution: a program of the data set's own that is right, if it has one.
    """

    tests: tuple[Test, ...]
    entry_point: str = ""
    prompt: str = ""
    header: str = ""
    solution: str | None = None
