"""Rejects by magnitude before anything is parsed: a resource bomb must cost microseconds, not the deadline.

The bounds read the LaTeX as text and err on the large side: an answer that passes can still be slow (the scorer's
deadline is there for that), one that fails would not have been judged in time.
"""

import re
from math import prod

MAX_LENGTH = 1200  # characters
MAX_DIGITS = 400  # of one number
MAX_DEPTH = 25  # of brackets
MAX_COMMANDS = 200  # backslashes
MAX_BITS = 2**17  # of a power of whole numbers: 10^39000 passes
MAX_EXPONENT = 20_000
MAX_SYMBOLIC_EXPONENT = 50  # of a parenthesis with a letter in it, which the comparison may expand
MAX_FACTORIAL = 5_000
MAX_TERMS = 1_000  # any number beside a sum or product
MAX_BINOMIAL = 10_000  # any number beside a binomial
MAX_POWERS = 50  # powers of whole numbers worked out

SPACING = re.compile(r"\\left|\\right|\\[,;:! ]|[\s$]")
POWER = re.compile(r"(\d+) *\^ *[-+]?(\d+)")
ALONE = re.compile(r"\{ *([-+]?[\d∞]+) *\}")
HUGE_IN_POWER = re.compile(r"\^ *(?:\{[^{}]*)?[-+]?∞|∞ *\^")
EXPONENT = re.compile(r"\^ *(?:\{([^{}]*)\}|[-+]?(\d+))")
GROUP_EXPONENT = re.compile(r"\} *\^ *[-+]?(\d+)")
SUBSCRIPT = re.compile(r"_ *\{[^{}]*\}")
FACTORIAL = re.compile(r"(\d+) *!")
NUMBER = re.compile(r"\d+")
LETTER = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z]")


def too_large(latex: str) -> str | None:
    """Which bound an answer breaks, in words, or None."""
    if len(latex) > MAX_LENGTH:
        return f"longer than {MAX_LENGTH} characters"
    if any(len(number) > MAX_DIGITS for number in NUMBER.findall(latex)):
        return f"a number of more than {MAX_DIGITS} digits"
    if _depth(latex) > MAX_DEPTH:
        return f"brackets nested more than {MAX_DEPTH} deep"
    if latex.count("\\") > MAX_COMMANDS:
        return f"more than {MAX_COMMANDS} commands"
    if r"\int" in latex:
        return "an integral that is left to be worked out"
    largest = max(map(int, NUMBER.findall(latex)), default=0)
    for commands, bound in ((r"\\(?:sum|prod)", MAX_TERMS), (r"\\[dt]?binom", MAX_BINOMIAL)):
        if largest > bound and re.search(commands, latex):
            return f"a sum, product or binomial with a number above {bound}"
    return _large_power(latex)


def _depth(latex: str) -> int:
    deepest = depth = 0
    for character in latex:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    return deepest


def _large_power(latex: str) -> str | None:
    """Works powers of whole numbers out from the inside, then looks at the exponents and factorials that are left."""
    text = SPACING.sub("", latex.replace("**", "^")).replace("(", "{").replace(")", "}")
    for _ in range(MAX_POWERS):
        text = ALONE.sub(r" \1 ", text)
        powers = list(POWER.finditer(text))
        if not powers:
            break
        last = powers[-1]  # towers are worked out from the right
        base, exponent = int(last[1]), int(last[2])
        if exponent > MAX_BITS or base.bit_length() * exponent > MAX_BITS:
            return f"a power of more than {MAX_BITS} bits"
        value = str(base**exponent) if base.bit_length() * exponent < 40 else "∞"
        text = f"{text[: last.start()]} {value} {text[last.end() :]}"
    if POWER.search(text) or HUGE_IN_POWER.search(text):
        return "a tower of powers"
    return _large_exponent(text) or _large_factorial(text)


def _large_exponent(text: str) -> str | None:
    for group, number in EXPONENT.findall(text):
        if prod(max(int(n), 1) for n in NUMBER.findall(group or number)) > MAX_EXPONENT:
            return f"an exponent above {MAX_EXPONENT}"
    powers = GROUP_EXPONENT.findall(SUBSCRIPT.sub("", text))  # the ^ of \sum_{k=1}^{100} is no power
    if LETTER.search(text) and any(int(number) > MAX_SYMBOLIC_EXPONENT for number in powers):
        return f"a sum to a power above {MAX_SYMBOLIC_EXPONENT}"
    return None


def _large_factorial(text: str) -> str | None:
    large = any(int(number) > MAX_FACTORIAL for number in FACTORIAL.findall(text))
    of_group = re.search(r"\} *!", text) and ("∞" in text or any(int(n) > MAX_FACTORIAL for n in NUMBER.findall(text)))
    if large or of_group or re.search(r"∞ *!|! *\} *!|!!!", text):
        return f"a factorial above {MAX_FACTORIAL}!"
    return None
