"""math-verify, for what the parser of this package cannot read: parses both texts and compares them."""

import re
from functools import lru_cache
from typing import Any

from reasonrl_math import library, rewrite

DIGITS = 30  # to which two irrational numbers are compared, relative to their size
LISTED = re.compile(r"[,;]|\bor\b|\band\b")
FOREIGN = re.compile(r"[\"`#@?]|__")  # of no formula
EQUALS = re.compile(r"(?<![\\<>!:])=")


@lru_cache(maxsize=256)
def parse(latex: str) -> Any | None:
    """The sympy object of one answer, or None if it cannot be parsed. Builds a tree; evaluates no text.

    Only math-verify's LaTeX route is used: its route for plain expressions hands text to sympy's parse_expr, which is
    an eval.
    """
    from math_verify import LatexExtractionConfig

    text = rewrite.to_latex(latex)
    if text is None or not text.strip() or FOREIGN.search(text):
        return None
    found = library.parse(
        rf"\boxed{{{text}}}", [LatexExtractionConfig(boxed_match_priority=0)], fallback_mode="no_fallback"
    )
    return found[0] if found else None


def equal(reference: str, answer: str) -> bool:
    """Whether math-verify finds an answer equal to the reference, and the answer's chains hold."""
    return _equal_parsed(parse(reference), parse(answer)) and _chains_hold(answer)


def _equal_parsed(reference: Any, answer: Any) -> bool:
    """math-verify's verdict, except that numbers are compared exactly or to 30 digits of their own size.

    math-verify rounds to 6 decimals and chops small differences, so that 1/1500! would equal 1/1502!.
    """
    if reference is None or answer is None:
        return False
    one, other = _number(reference), _number(answer)
    if one is not None and other is not None and one.is_Rational and other.is_Rational:
        return bool(one == other)
    if not library.equal(reference, answer, allow_set_relation_comp=True):
        return False
    if one is None or other is None or not (one.is_finite and other.is_finite):
        return True
    apart = abs((one - other).evalf(DIGITS, maxn=10 * DIGITS))
    return bool(apart <= abs(one.evalf(DIGITS)) * 10 ** (5 - DIGITS))


def _number(parsed: Any) -> Any | None:
    """An expression without symbols as a sympy number, its decimals made exact; None if it is something else."""
    from sympy import Expr, Float, Rational

    if not isinstance(parsed, Expr) or parsed.free_symbols:
        return None
    exact = parsed.xreplace({decimal: Rational(str(decimal)) for decimal in parsed.atoms(Float)}).doit()
    return exact if isinstance(exact, Expr) and exact.is_number else None


def _chains_hold(answer: str) -> bool:
    """Whether the numbers of every chain of equations are one number: "1=2=…=6" is no way to answer 6."""
    for chain in LISTED.split(answer):
        members = [_number(parse(member)) for member in EQUALS.split(chain)] if "=" in chain else []
        numbers = [number for number in members if number is not None]
        if any((number - numbers[0]).equals(0) is False for number in numbers[1:]):
            return False
    return True


def shown(latex: str) -> str:
    """What was made of an answer, as text for the evidence."""
    return library.shown(parse(latex))
