"""What an answer's LaTeX is before it is parsed: a word, a choice, a unit, or a notation that math-verify misreads."""

import re

TEXT_COMMAND = r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox)"
WRAPPED = re.compile(rf"{TEXT_COMMAND}\s*\{{([^{{}}]*)\}}")
BARE_WORD = re.compile(r"(?:[A-Z][a-z]+|[A-Za-z]{4,})(?:[ -][A-Za-z]+)*")
CHOICE = re.compile(
    r"(?:(?:[Tt]he\s+)?(?:[Cc]orrect\s+)?(?:[Oo]ption|[Cc]hoice|[Aa]nswer)(?:\s+is)?\s*:?\s*)?\(?\s*([A-Z])\s*\)?(?:\s*[.:)]\s*\S.*)?",
    re.DOTALL,
)
MIXED = re.compile(r"([-+]?)(\d+)(?:\s+(\d+)/(\d+)|\s*\\[dtc]?frac\{?\s*(\d+)\s*\}?\{?\s*(\d+)\s*\}?)")
REPEATING = re.compile(r"([-+]?)(\d*)\.(\d*)\\(?:overline|bar)\{?(\d+)\}?")
ROOT = re.compile(r"√\s*(?:\(([^()]*)\)|(\d+|[a-z]))")
PERCENT = re.compile(rf"\s*{TEXT_COMMAND}\s*\{{\s*(?:percent|pct|%|\\%)\s*\}}")
SMALL_CHOICE = re.compile(r"\(?([a-j])\)?\.?")
MEANINGS = {  # of words that are mathematics
    r"\mathbb{R}": "all real numbers|all reals|real numbers|the real numbers|all real values|any real number",
    r"\infty": "infinity|positive infinity",
    r"-\infty": "negative infinity|minus infinity",
    r"\emptyset": "no solution|no solutions|no real solution|no real solutions|there is no solution|"
    "there are no solutions|there are no real solutions|empty set|the empty set|none",
}
MEANING_OF = {words: latex for latex, phrases in MEANINGS.items() for words in phrases.split("|")}
EXCEPT = re.compile(r"(?:[Aa]ll )?(?:[Rr]eal numbers|[Rr]eals) except(?: for)? +(?:x *= *)?\$?(\S[^$]*?)\$?\.?")
LITERAL = {r"\varnothing": r"\emptyset", "∅": r"\emptyset", "**": "^", "−": "-", "∞": r"\infty"}


def plain_text(latex: str) -> str:
    """The answer without text commands and surplus space, in lower case."""
    return " ".join(WRAPPED.sub(r"\1", latex).replace("$", "").strip(' ."“”').lower().split())


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


def small_choice(latex: str) -> str | None:
    """The letter of "c" or "(c)" as a capital; None if it is something else."""
    found = SMALL_CHOICE.fullmatch(WRAPPED.sub(r"\1", latex).replace("$", "").strip())
    return found[1].upper() if found else None


def meaning(latex: str) -> str:
    """LaTeX of words with a mathematical meaning, such as "all real numbers"; other answers as they are."""
    if found := EXCEPT.fullmatch(WRAPPED.sub(r"\1", latex).strip()):
        return rf"\mathbb{{R}} \setminus \{{{found[1]}\}}"
    return MEANING_OF.get(plain_text(latex), latex)


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
