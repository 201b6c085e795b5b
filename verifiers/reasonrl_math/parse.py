r"""Reads the text of a whole answer into a tree; digits in a base, times of day and grouped thousands as one thing.

All of the text must be understood, else `Unreadable` is raised and the caller falls back to math-verify.
"""

import re
from fractions import Fraction
from functools import lru_cache

from reasonrl_math.answers import Answers
from reasonrl_math.bases import WRAPPER, based, value
from reasonrl_math.numbers import rational
from reasonrl_math.tokens import clean, tokenise
from reasonrl_math.tree import Based, Node, NoValue, Num, Ratio, Unreadable

THOUSANDS = re.compile(r"(?<![\d.,])(?=[\d,]*,)\d{1,3}(?:,\d{3})+(?![\d,])")
SPACED_THOUSANDS = re.compile(r"(?<![\d.])\d{1,3}(?: \d{3})+(?![\d])")
CLOCK = re.compile(r"(\d{1,2}:[0-5]\d(?::[0-5]\d)?)(?:\s*([apAP])\.?[mM]\.?)?")


def _last_based(text: str) -> Node | None:
    """3/16 = 0.0011_2 or 132_5 = 42 is what stands last: the same number, in the base asked for."""
    head, sign, last = text.rpartition("=")
    if not sign or not head or not (based(head) or based(last)):
        return None
    before, found = parse(head), parse(last)
    numbers = [value(node) if isinstance(node, Based) else rational(node) for node in (before, found)]
    if None not in numbers and numbers[0] != numbers[1]:
        raise NoValue("a chain that does not hold")
    return found


def _clock(text: str) -> Ratio | None:
    """A time of day, with its half if it is given."""
    found = CLOCK.fullmatch(WRAPPER.sub(r"\1", text).strip())
    if not found:
        return None
    numbers = re.findall(r"\d+", found[1])
    return Ratio(tuple(Num(Fraction(number)) for number in numbers), clock=True, half=(found[2] or "").lower())


def join_thousands(text: str) -> str:
    """Comma groups made one number, if all commas of the text belong to one such number."""
    found = THOUSANDS.findall(text)
    if len(found) == 1 and found[0].count(",") == text.count(",") and not found[0].startswith("0"):
        text = THOUSANDS.sub(lambda number: number[0].replace(",", ""), text)
    spaced = SPACED_THOUSANDS.findall(text)
    if len(spaced) == 1 and not re.search(r"\d+ \d+\s*/", text) and not spaced[0].startswith("0"):
        text = SPACED_THOUSANDS.sub(lambda number: number[0].replace(" ", ""), text)
    return text


@lru_cache(maxsize=1024)
def parse(text: str, thousands: bool = True, letters_are_units: bool = False) -> Node:
    """The tree of an answer.

    Raises:
        Unreadable: not all of it is understood.
        NoValue: it is understood and is no value, such as a mixed number with an improper part.
    """
    text = clean(text)
    if (found := based(text) or _last_based(text)) or (found := _clock(text)):
        return found
    if thousands:
        text = join_thousands(text)
    try:
        return Answers(tokenise(text), letters_are_units).answer()
    except RecursionError:
        raise Unreadable("nested too deeply") from None
