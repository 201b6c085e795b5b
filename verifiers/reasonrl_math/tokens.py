r"""Cuts an answer into tokens, in one spelling: `π`, `\pi` and "pi" are one token, and spacing is gone.

Letters inside `\text{}` stay together: they are a word (a unit, "and", a label), never a product of symbols.
"""

import re
from dataclasses import dataclass

from reasonrl_math.tree import Unreadable
from reasonrl_math.units import SYMBOLS, is_unit_word


@dataclass(frozen=True)
class Token:
    """kind: number, letter, command, text, symbol or end; `spaced`: white space stood before it."""

    kind: str
    text: str
    spaced: bool = False


CHARACTERS = {
    "π": r"\pi ", "√": r"\sqrt ", "∞": r"\infty ", "±": r"\pm ", "×": r"\times ", "·": r"\cdot ", "÷": r"\div ",
    "−": "-", "–": "-", "≤": r"\leq ", "≥": r"\geq ", "≠": r"\neq ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ",
    "∅": r"\emptyset ", "°": r"^\circ ", "½": r"\frac12 ", "¼": r"\frac14 ", "¾": r"\frac34 ",
    "ℝ": r"\mathbb{R}", "≈": r"\approx ", "…": r"\ldots ", "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ",
    "⌉": r"\rceil ", "\u00a0": " ", "\u202f": " ", "\u2009": " ", r"\bar{": r"\overline{", r"\bar ": r"\overline ",
    "**": "^", "<=": r"\leq ", ">=": r"\geq ",
    "...": r"\ldots ", "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta ", "λ": r"\lambda ", "%": r"\%", r"\\%": r"\%",
}  # fmt: skip
SAME = {
    "dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "dbinom": "binom", "tbinom": "binom", "le": "leq", "ge": "geq",
    "leqslant": "leq", "geqslant": "geq", "ne": "neq", "lt": "<", "gt": ">", "varnothing": "emptyset",
    "dots": "ldots", "cdots": "ldots", "lvert": "|", "rvert": "|", "vert": "|", "lbrack": "[", "rbrack": "]",
    "lbrace": "{set", "rbrace": "}set", "{": "{set", "}": "}set", "degree": "circ", "ast": "*", "times": "*",
    "cdot": "*", "div": "/", "lg": "log", "bar": "overline", "colon": ":", "backslash": "setminus",
    "smallsetminus": "setminus", "land": "and", "wedge": "and", "lor": "or", "vee": "or", "thickapprox": "approx",
    "simeq": "approx", "mid": "|", "langle": "(", "rangle": ")",
}  # fmt: skip
TEMPERATURE = re.compile(r"\^\s*\{?\s*\\circ\s*\}?\s*(?:\\(?:text|mathrm)\s*\{\s*([CF])\s*\}|([CF])(?![A-Za-z]))")
JOINING = re.compile(r"\b(?:and|or|to)\b")
DOTTED = re.compile(r"(?<=[\d.])\\dot\s*\{?(\d)\}?(?:(\d*)\\dot\s*\{?(\d)\}?)?")
RAISED, LOWERED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "₀₁₂₃₄₅₆₇₈₉₊₋ₙ"
LEVEL = str.maketrans(RAISED + LOWERED, "0123456789+-n" * 2)
DEGREES = re.compile(r"\^\s*\{?\s*\\(?:text|mathrm)\s*\{o\}\s*\}?")
ALIGNED = re.compile(r"\s*\\begin\{(aligned|gathered|split)\}(.*)\\end\{\1\}\s*", re.DOTALL)
DROPPED = re.compile(
    r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle|limits|nolimits|checkmark)(?![A-Za-z])|\\(?:text)?color\s*\{[^{}]*\}|\\[()\[\]!]|(?<!\\)\$"
)
SPACES = re.compile(r"\\(?:quad|qquad|;|:|,| |enspace|thinspace|space|hspace\{[^{}]*\})|[~\s]")
GROUPED = re.compile(r"(?<=\d)(?:\{,\}|\\?,\\!)\s*(?=\d{3}(?!\d))")  # 126{,}000 and 10,\!080
TEXT = r"\\(?:text|textbf|textit|textrm|textnormal|mathrm|mathbf|mathit|mbox|hbox|operatorname\*?|rm|bf)\s*\{([^{}]*)\}"
TOKEN = re.compile(
    rf"(?P<space>\s+)|{TEXT}|(?P<number>\d+\.(?=\\overline)|\d*\.\d+|\.(?=\\overline)|\d+)"
    r"|\\(?P<command>[A-Za-z]+|[{}%$])"
    r"|(?P<newline>¶)|(?P<word>[A-Za-z]+)|(?P<symbol>[-+*/^_=<>!|()\[\]{},;:.&$€£¥'])"
)
FUNCTION_NAMES = "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln exp sqrt max min gcd"
FUNCTIONS = frozenset(FUNCTION_NAMES.split())
PLAIN = FUNCTIONS | {"pi", "infinity", "infty", "inf", "and", "or", "percent", "pct", "union", "abs"}
GREEK_WORDS = frozenset({"alpha", "beta", "theta", "lambda"})
AS_COMMAND = {"infinity": "infty", "inf": "infty", "percent": "%", "pct": "%", "union": "cup"}
SCIENTIFIC = re.compile(r"(?<![A-Za-z\\\d])(\d+\.?\d*|\.\d+)[eE]([-+]?\d{1,4})(?![\d.A-Za-z])")
NUMBER = re.compile(r"[-+]?\s*(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)\s*(?:\\?%)?")


def clean(text: str) -> str:
    """One spelling of characters; delimiters of mathematics and sizes of brackets are gone."""
    text = GROUPED.sub("", text.strip()).replace(r"\\", "¶").replace(r"m\angle", "").replace(r"\angle", "")
    text = re.sub(r"\\(?=\d)", "", text).replace(r"\%", "%").replace(r"\$", "¤")  # \15: a lost dollar sign
    for old, new in CHARACTERS.items():
        text = text.replace(old, new)
    text = re.sub(f"[{RAISED}]+", lambda found: f"^{{{found[0].translate(LEVEL)}}}", text)
    text = re.sub(f"[{LOWERED}]+", lambda found: f"_{{{found[0].translate(LEVEL)}}}", text)
    text = DOTTED.sub(lambda found: rf"\overline{{{''.join(part or '' for part in found.groups())}}}", text)
    text = DEGREES.sub(r"^\\circ ", text)
    text = TEMPERATURE.sub(lambda found: rf"\text{{deg{found[1] or found[2]}}}", text)
    if aligned := ALIGNED.fullmatch(text):
        text = aligned[2].replace("&", "").strip("¶ ").replace("¶", ", ")
    text = SCIENTIFIC.sub(r"\1*10^{\2}", text)
    text = re.sub(r"(?<![\d)}])\s*!=|\s!=", r"\\neq ", text)
    text = SPACES.sub(" ", DROPPED.sub("", text))
    return text.replace("¤", r"\$").strip().removesuffix(".").strip()


def tokenise(text: str) -> list[Token]:
    """The tokens of cleaned text, with an end token.

    Raises:
        Unreadable: a character or a run of letters that no answer has.
    """
    tokens: list[Token] = []
    position, spaced = 0, False
    while position < len(text):
        found = TOKEN.match(text, position)
        if found is None:
            raise Unreadable(f"the character {text[position]!r}")
        position = found.end()
        if found["space"]:
            spaced = True
            continue
        for token in _read(found):
            tokens.append(Token(token.kind, token.text, spaced))
            spaced = False
    return [*tokens, Token("end", "")]


def _read(found: re.Match[str]) -> list[Token]:
    if found["number"]:
        return [Token("number", found["number"])]
    if found["newline"]:
        return [Token("command", "newline")]
    if found["command"]:
        name = SAME.get(found["command"], found["command"])
        return [Token("command" if name[0].isalpha() or name == "%" else "symbol", name)]
    if found["word"]:
        return _letters(found["word"])
    if found["symbol"]:
        return [Token("symbol", found["symbol"])]
    return _text(found[2] or "")


def _text(content: str) -> list[Token]:
    content = " ".join(content.split()).strip()
    if not content:
        return []
    if content in SYMBOLS:
        return [Token("text", content)]  # \text{ m} is a unit
    if NUMBER.fullmatch(content.rstrip(".")):
        content = content.rstrip(".")
        return tokenise(content.replace(",", "").replace("\\%", "%").replace("%", r"\%"))[:-1]
    if not re.search(r"[^\W\d_]", JOINING.sub("", content)):  # \text{3:5}, \text{\$}
        return tokenise(content)[:-1]
    if re.fullmatch(r"[A-Za-z]|\([A-Za-z]\)", content):
        return [Token("letter", content.strip("()"))]
    word = content.lower().strip(",. ")
    if word in ("and", "or", "percent", "pct", "%") or word in FUNCTIONS or content == ",":
        return [Token("symbol", ",")] if content == "," else _letters(word)
    return [Token("text", content)]


def _letters(run: str) -> list[Token]:
    """A run of letters: a function, a word of the vocabulary, a longer word, or a product of symbols."""
    if run in PLAIN or run == "to":
        name = AS_COMMAND.get(run, run)
        return [Token("text" if name in ("and", "or", "to") else "command", name)]
    if run in GREEK_WORDS:
        return [Token("command", run)]
    if len(run) >= 2 and (is_unit_word(run) or len(run) >= 4):
        return [Token("text", run)]
    tokens, rest = [], run
    while rest:
        name = next((name for name in sorted(PLAIN, key=len, reverse=True) if rest.startswith(name)), rest[0])
        tokens.append(Token("letter" if len(name) == 1 else "command", AS_COMMAND.get(name, name)))
        rest = rest[len(name) :]
    return tokens
