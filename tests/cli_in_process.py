"""The program's main() called in the test's own process: what a user sees of a command, without starting Python."""

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from reasonrl.cli import main


class Ended(NamedTuple):
    """Exit code, output and errors of a command."""

    code: int
    out: str
    err: str


Program = Callable[..., Ended]


def program_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    """A function that runs `reasonrl …`, given its arguments."""

    def program(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["reasonrl", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        assert isinstance(caught.value.code, int)
        return Ended(caught.value.code, *capsys.readouterr())

    return program
