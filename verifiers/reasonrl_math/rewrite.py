"""What an answer's LaTeX is before it is parsed: a word, a choice, a unit, or a notation that math-verify misreads."""

import re

TEXT_COMMAND = r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox)"
WRAPPED = re.compile(rf"{TEXT_COMMAND}\s*\{{([^{{}}]*)\}}")
BARE_WORD = re.compile(r"(?:[A-Z][a-z]+|[A-Za-z]{4,})(?:[ -][A-Za-z]+)*")
CHOICE = re.compile(r"\(?\s*([A-Z])\s*\)?(?:\s*[.:)]\s*\S.*)?", re.DOTALL)
BASED = re.compile(r"\(?(\d+)\)?_(?:\{(\d+)\}|(\d+))")
MIXED = re.compile(r"([-+]?)(\d+)(?:\s+(\d+)/(\d+)|\s*\\[dtc]?frac\{?\s*(\d+)\s*\}?\{?\s*(\d+)\s*\}?)")
REPEATING = re.compile(r"([-+]?)(\d*)\.(\d*)\\(?:overline|bar)\{?(\d+)\}?")
ROOT = re.compile(r"√\s*(?:\(([^()]*)\)|(\d+|[a-z]))")
PERCENT = re.compile(rf"\s*{TEXT_COMMAND}\s*\{{\s*(?:percent|pct|%|\\%)\s*\}}")
UNIT = re.compile(rf"(?:{TEXT_COMMAND}\s*\{{\s*|[\d}}]\s*)([A-Za-z]+)\s*\}}?\s*((?:\^\s*\{{?\s*\d\s*\}}?)?)\.?\s*$")
UNITS = {
    "mm": "mm millimeter millimetre", "cm": "cm centimeter centimetre", "m": "m meter metre",
    "km": "km kilometer kilometre", "in": "in inch inche", "ft": "ft foot feet", "yd": "yd yard", "mi": "mi mile",
    "mg": "mg milligram", "g": "g gram", "kg": "kg kilogram", "lb": "lb pound", "oz": "oz ounce",
    "s": "s sec second", "min": "min minute", "h": "h hr hour", "day": "day", "year": "yr year",
    "ml": "ml mL milliliter millilitre", "l": "l L liter litre", "mph": "mph", "°": "degree deg", "rad": "rad radian",
}  # fmt: skip
UNIT_OF = {name: unit for unit, names in UNITS.items() for name in names.split()}
LITERAL = {r"\varnothing": r"\emptyset", "∅": r"\emptyset", "**": "^", "−": "-", "∞": r"\infty"}


def plain_text(latex: str) -> str:
    """The answer without text commands and surplus space, in lower case."""
    return " ".join(WRAPPED.sub(r"\1", latex).replace("$", "").rstrip(". ").lower().split())


def as_word(latex: str) -> str | None:
    r"""The word (or words) an answer is, such as `\text{Marta}` or "Yes"; None if it is mathematics.

    Letters of a word are no product of symbols: "odd" is not d·d·o.
    """
    latex = latex.strip().rstrip(".")
    wrapped = WRAPPED.fullmatch(latex)
    word = wrapped[1] if wrapped else latex
    is_word = re.fullmatch(r"\D*[A-Za-z]{2}\D*", word) if wrapped else BARE_WORD.fullmatch(word)
    return plain_text(word) if is_word else None


def choice_letter(latex: str) -> str | None:
    r"""The letter of "C", "(C)", "C: text" or `\textbf{(C)}`; None if it is something else."""
    found = CHOICE.fullmatch(WRAPPED.sub(r"\1", latex).strip())
    return found[1] if found else None


def based(latex: str) -> tuple[str, str] | None:
    """Digits and base of a number such as `132_5`; None if it is something else."""
    found = BASED.fullmatch("".join(latex.replace("$", "").split()))
    return (found[1].lstrip("0"), found[2] or found[3]) if found else None


def unit(latex: str) -> str | None:
    """The unit at the end of an answer in one spelling, such as "cm^2"; None if there is none that we know."""
    found = UNIT.search(latex.replace("$", "").strip())
    name = UNIT_OF.get(found[1]) or UNIT_OF.get(found[1].lower().removesuffix("s")) if found else None
    return name + re.sub(r"[\s{}]", "", found[2]) if found and name else None


def to_latex(latex: str) -> str | None:
    """The answer as math-verify reads it right, or None if it is no number (a mixed number with an improper part)."""
    text = re.sub(r"(?<=\d)\s*[€£¥]|[€£¥]\s*(?=\d)", "", latex.strip())
    for old, new in LITERAL.items():
        text = text.replace(old, new)
    text = PERCENT.sub(r"\%", text)
    text = ROOT.sub(lambda found: rf"\sqrt{{{found[1] or found[2]}}}", text)
    if found := MIXED.fullmatch(text):
        return _mixed(found)
    if found := REPEATING.fullmatch(text):
        return _repeating(found)
    return text


def _mixed(found: re.Match[str]) -> str | None:
    r"""`-2\frac12` is −5/2: the sign covers all."""
    whole, top, bottom = int(found[2]), int(found[3] or found[5]), int(found[4] or found[6])
    return rf"{found[1]}\frac{{{whole * bottom + top}}}{{{bottom}}}" if top < bottom else None


def _repeating(found: re.Match[str]) -> str:
    r"""`0.1\overline{6}` is (16 − 1) / 90."""
    sign, whole, fixed, repeated = found.groups()
    top = int(whole + fixed + repeated) - int((whole + fixed) or "0")
    return rf"{sign}\frac{{{top}}}{{{'9' * len(repeated) + '0' * len(fixed)}}}"
