r"""Digits in a base: `132_5`, `(132)_{\text{five}}`, `1011 \text{ (base 2)}`, and chains that end in one."""

import re
from fractions import Fraction

from reasonrl_math.tree import Based, NoValue

NAMES = "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
BASES = {name: base for base, name in enumerate(NAMES.split(), start=2)}
WRAPPER = re.compile(r"\\(?:text|textbf|mathrm)\s*\{([^{}]*)\}")
BASED = re.compile(
    r"\(?([0-9A-F]*\.?[0-9A-F]+)\)?(?:_|(?=\(?base))[({]*(?:base)?(\d+|" + "|".join(BASES) + r")[)}]*", re.ASCII
)


def based(text: str) -> Based | None:
    """The digits and their base; None if the text is something else, such as a symbol with a subscript.

    Raises:
        NoValue: a digit that the base has not.
    """
    found = BASED.fullmatch("".join(WRAPPER.sub(r"\1", text).split()))
    base = (BASES.get(found[2]) or int(found[2])) if found else 0
    if not found or not 2 <= base <= 36:
        return None
    digits = found[1]
    if all(int(digit, 36) < base for digit in digits.replace(".", "")):
        return Based(digits.lstrip("0") or "0", base)
    if re.fullmatch(r"[\d.]+", digits):
        raise NoValue("a digit that the base has not")
    return None


def value(node: Based) -> Fraction:
    """The number that is written."""
    whole, _, decimals = node.digits.partition(".")
    return Fraction(int(whole + decimals or "0", node.base), node.base ** len(decimals))
