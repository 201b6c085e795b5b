"""Judges that a check of a task must find fault with, or stand; importable by name in worker processes."""

import time

import pytest

from reasonrl import Problem, Response, Verdict, Verifier
from reasonrl.plugins import VerifierSource, installed


class Lenient(Verifier):
    """Finds everything right, but the reference "strict"."""

    name = "lenient"
    isolation = "inline"

    def verify(self, problem: Problem, response: Response) -> Verdict:
        return Verdict(float(problem.reference != "strict"), "correct")


class Refusing(Verifier):
    """Refuses every third problem's right response; makes no wrong one of any."""

    name = "refusing"
    isolation = "inline"

    def verify(self, problem: Problem, response: Response) -> Verdict:
        return Verdict(float(int(problem.reference or 0) % 3 != 0), "looked")

    def wrong_response(self, problem: Problem) -> str | None:
        return None


class Breaking(Verifier):
    """Breaks as it makes a wrong response, and cannot judge a right one."""

    name = "breaking"
    isolation = "inline"

    def verify(self, problem: Problem, response: Response) -> Verdict:
        return Verdict(None, "gave_up")

    def wrong_response(self, problem: Problem) -> str | None:
        raise KeyError("no idea")


class Slow(Verifier):
    """Hangs on the reference "hang": in the audit, and so before any response is judged."""

    name = "slow"

    def verify(self, problem: Problem, response: Response) -> Verdict:
        right = response.text == problem.reference
        return Verdict(float(right), "correct" if right else "wrong")

    def audit(self, problem: Problem) -> str | None:
        if problem.reference == "hang":
            time.sleep(600)
        return None


class Counting(Verifier):
    """Reads metadata, and of a response its tokens, which a made response does not have."""

    name = "counting"
    isolation = "inline"
    requires = ("level",)

    def verify(self, problem: Problem, response: Response) -> Verdict:
        raise AssertionError("shown a made response")

    def audit(self, problem: Problem) -> str | None:
        return "level 13" if problem.metadata["level"] == 13 else None


class Cheated(Lenient):
    """Rewards one of its two cheats, and breaks making those of the reference "broken"."""

    name = "cheated"

    def verify(self, problem: Problem, response: Response) -> Verdict:
        if response.text == "bribe":
            return Verdict(0.25, "partly")
        return Verdict(float(response.text == problem.reference), "looked")

    def cheats(self, problem: Problem) -> list[str]:
        if problem.reference == "broken":
            raise KeyError("no idea")
        return ["nothing", "bribe"]


class Unready(Verifier):
    """Cannot start."""

    name = "unready"

    def verify(self, problem: Problem, response: Response) -> Verdict:
        raise NotImplementedError

    def warm_up(self) -> None:
        raise OSError("its server is down")


ALL: tuple[type[Verifier], ...] = (Lenient, Refusing, Breaking, Slow, Counting, Cheated, Unready)


def offer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install them for the time of a test."""
    for verifier in ALL:
        monkeypatch.setitem(installed().verifiers, verifier.name, VerifierSource(verifier, "plugin", "dist", "1.0"))
