"""The verifier `math_verify`: the library math-verify as it is, but for its alarms.

The alarms work in the main thread only and cannot break into work in C, so they are off; the scorer has a deadline that
can. The library hands runs of digits, points, operators and parentheses to sympy's `parse_expr`, which evaluates them:
no name and no string can be in them, so the worst they can do is to take long.
"""

import logging
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from reasonrl import Problem, Response, Verdict
from reasonrl_math.boxed import Boxed, unboxed

SHOWN = 200  # characters of what was parsed, in the evidence


def parse(text: str, *arguments: Any, **options: Any) -> list[Any]:
    """math-verify's `parse` without its alarm: a sympy object, then the text it was made of; either may be absent."""
    from math_verify import parse as parse_text

    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that its alarms are off
    found: list[Any] = parse_text(text, *arguments, parsing_timeout=None, **options)
    return found


def equal(reference: Any, answer: Any, **options: Any) -> bool:
    """math-verify's `verify` without its alarm, of what `parse` made."""
    from math_verify import verify

    return bool(verify(reference, answer, timeout_seconds=None, **options))


def shown(parsed: object) -> str:
    """What was parsed, as text for the evidence."""
    try:
        return str(parsed)[:SHOWN]
    except ValueError:  # Python refuses to print whole numbers of more than 4300 digits
        return "a number too long to print"


class MathVerify(Boxed):
    """Reward 1 if the library math-verify, with its defaults, finds the response equal to the reference, else 0.

    The reference is parsed as a formula between dollars, the response as it is. To be compared with `math`, or for
    results that others must be able to repeat.

    Raises:
        ValueError: math-verify cannot parse the reference.
    """

    name = "math_verify"

    def verify(self, problem: Problem, response: Response) -> Verdict:
        """Reasons: correct, wrong, no_answer. Evidence: extracted text, parsed form, library with its version."""
        if fault := self.audit(problem):
            raise ValueError(fault)
        library = {"library": f"math-verify {version('math-verify')}"}
        found = parse(response.text)
        if not found:
            return Verdict(0.0, "no_answer", evidence=library)
        right = equal(_reference(problem), found)
        evidence = {"answer": _text(found)[:SHOWN], "parsed": shown(found[0]), **library}
        return Verdict(float(right), "correct" if right else "wrong", evidence=evidence)

    def audit(self, problem: Problem) -> str | None:
        """A reference of which math-verify makes no mathematics is a fault."""
        if all(isinstance(found, str) for found in _reference(problem)):
            return f"math-verify cannot parse the reference {(problem.reference or '')[:SHOWN]!r}"
        return None

    def warm_up(self) -> None:
        """Import math-verify and sympy, and build their tables, by one comparison."""
        equal(parse("$1$"), parse("$2$"))


def _reference(problem: Problem) -> list[Any]:
    reference = (problem.reference or "").strip()
    return parse(f"${unboxed(reference)}$") if reference else []


def _text(found: Sequence[Any]) -> str:
    return next((text for text in found if isinstance(text, str)), "")
