"""Is the answer equal to the reference? Words and choices as text, all else as trees, math-verify for the rest."""

import re
from dataclasses import dataclass
from typing import Literal

from reasonrl_math import fallback, rewrite
from reasonrl_math.bounds import too_large
from reasonrl_math.compare import has_sign, same
from reasonrl_math.numbers import ROUGH, Numeric, rational
from reasonrl_math.parse import join_thousands, parse
from reasonrl_math.realsets import is_set_of_reals
from reasonrl_math.tokens import clean
from reasonrl_math.tree import (
    Apply,
    Bag,
    Bracket,
    Node,
    NoValue,
    Num,
    Quantity,
    Relation,
    Sym,
    Unreadable,
    shown,
    symbols,
)  # fmt: skip

Decimals = Literal["exact", "rounded"]
Percent = Literal["exact", "bare"]
Units = Literal["optional", "required"]
Expect = Literal["any", "number", "choice", "words"]

SPACING = re.compile(r"\\left\b|\\right\b|\\[!,;:]|[\s$]")
PARTED = re.compile(r"(?<=\d)(?:\\[,;:]|\s)+(?=\d)")
DECIMAL = re.compile(r"-?\d*\.(\d+)")
LEAST_DIGITS = 4  # significant ones of a rounded decimal
BARE_UNIT = re.compile(r"[^\\$]*\d\s[A-Za-z]")


@dataclass(frozen=True)
class Ruling:
    """Whether an answer is right, by which rule, and what was made of it."""

    right: bool
    rule: str
    parsed: str


@dataclass(frozen=True)
class Policy:
    """How strict a comparison is."""

    decimals: Decimals = "exact"
    percent: Percent = "exact"
    units: Units = "optional"
    expect: Expect = "any"


def same_text(reference: str, answer: str) -> bool:
    """Whether two answers are the same text, spacing and text commands apart; digits with space between stay apart."""
    one, other = (SPACING.sub("", PARTED.sub("¦", rewrite.WRAPPED.sub(r"\1", text))) for text in (reference, answer))
    return one == other


def fault(reference: str, policy: Policy) -> str | None:
    """Why a reference within the bounds cannot be graded; None if it can."""
    if policy.expect == "choice":
        return None if rewrite.choice_letter(reference) else "is no letter of a choice"
    if policy.expect == "words" or rewrite.as_word(reference) is not None:
        return None
    try:
        node = parse(reference)
        if policy.expect == "number" and not is_number(node):
            return "is no number"
        same(node, node)
    except NoValue as reason:
        return f"has no value: {reason}"
    except Unreadable:
        return None if fallback.parse(reference) is not None else "cannot be parsed"
    return None


def parts(reference: str) -> int:
    """How many elements the list is that a reference gives; 1 if it is none."""
    if too_large(reference):
        return 1
    try:
        node = parse(reference)
    except (NoValue, Unreadable):
        return 1
    return len(node.items) if isinstance(node, Bag) and node.items else 1


def judge(reference: str, answer: str, policy: Policy | None = None) -> Ruling:
    """Whether an answer equals the reference; neither is empty, and both are within the bounds."""
    policy = policy or Policy()
    if same_text(reference, answer):
        return Ruling(True, "text", answer)
    if policy.expect == "words":
        return Ruling(rewrite.plain_text(reference) == rewrite.plain_text(answer), "words", rewrite.plain_text(answer))
    word = rewrite.as_word(reference)
    if word is not None and rewrite.plain_text(answer) == word:
        return Ruling(True, "words", word)
    if chosen := _choice(reference, answer, policy):
        return chosen
    reference, answer = rewrite.meaning(reference), rewrite.meaning(answer)
    if rewrite.as_word(reference) is not None:
        return Ruling(False, "words", rewrite.plain_text(answer))
    if rewrite.as_word(answer) is not None:
        return Ruling(False, "words", rewrite.plain_text(answer))
    return _judge_trees(reference, answer, policy)


def _choice(reference: str, answer: str, policy: Policy) -> Ruling | None:
    letter = rewrite.choice_letter(reference)
    chosen = None if letter is None else rewrite.choice_letter(answer) or rewrite.small_choice(answer)
    if letter is not None and policy.expect == "choice" and chosen is None:
        return Ruling(False, "choices", "")
    return None if letter is None or chosen is None else Ruling(letter == chosen, "choices", chosen)


def _judge_trees(reference: str, answer: str, policy: Policy) -> Ruling:
    try:
        thousands = not _is_list(reference)
        expected, given = parse(reference), parse(answer, thousands)
        if lack := _lacks(expected, given, policy):
            return Ruling(False, lack, shown(given)[:200])
        right, rule = same(expected, given)
        if not right:
            right, rule = _other_readings(reference, answer, expected, given, policy) or (right, rule)
        return Ruling(right, rule, shown(given)[:200])
    except NoValue as reason:
        return Ruling(False, f"no value: {reason}", "")
    except Unreadable:
        return Ruling(fallback.equal(reference, answer), "math-verify", fallback.shown(answer))


def _is_list(reference: str) -> bool:
    """Whether commas of a reference part a list."""
    text = join_thousands(clean(reference))
    return "," in text and not text.startswith(("(", "["))


def _lacks(expected: Node, given: Node, policy: Policy) -> str | None:
    """What a policy demands of an answer and it has not."""
    if policy.expect == "number" and not is_number(given):
        return "a number expected"
    required = policy.units == "required" and isinstance(_value(expected), Quantity)
    return "units required" if required and not isinstance(_value(given), Quantity) else None


def is_number(node: Node) -> bool:
    """Whether an answer is one number, a name and a unit apart."""
    value = _value(node)
    value = value.value if isinstance(value, Quantity) else value
    single = isinstance(value, Num | Sym | Apply) and not symbols(value)
    return single and not has_sign(value) and not is_set_of_reals(value)


def _value(node: Node) -> Node:
    return node.members[-1] if isinstance(node, Relation) else node


def _other_readings(
    reference: str, answer: str, expected: Node, given: Node, policy: Policy
) -> tuple[bool, str] | None:
    """The options, and notations that can be read in two ways; None if they do not apply."""
    if isinstance(given, Bag | Bracket) and not isinstance(expected, Bag | Bracket) and "," in clean(reference):
        return same(parse(reference, thousands=False), given)  # 100,200,300 as a list
    bare = BARE_UNIT.fullmatch(clean(reference)) or BARE_UNIT.fullmatch(clean(answer))
    if bare and (not set("\\$") & set(reference + answer) or Quantity in map(type, (expected, given))):
        return same(parse(reference, letters_are_units=True), parse(answer, letters_are_units=True))
    if policy.percent == "bare" and clean(reference).endswith(r"\%") and not clean(answer).endswith(r"\%"):
        return same(parse(clean(reference).removesuffix(r"\%")), given)
    if policy.decimals == "rounded" and _rounds(expected, answer):
        return True, "rounded"
    return None


def _rounds(expected: Node, answer: str) -> bool:
    """Whether a decimal of enough digits is the correct rounding of a reference that no decimal equals."""
    found = DECIMAL.fullmatch(clean(answer))
    if not found or len(found[0].replace(".", "").lstrip("-0")) < LEAST_DIGITS:
        return False
    exact = rational(expected)
    if exact is not None and not re.sub("[25]", "", "".join(map(str, _factors(exact.denominator)))):
        return False
    numeric = Numeric({}, ROUGH)
    value, given = numeric(expected), numeric(parse(answer))
    return bool(abs(value - given) * 2 <= numeric.mp.mpf(10) ** -len(found[1]))


def _factors(number: int) -> list[int]:
    """2s and 5s of a number, and what is left."""
    found = []
    for prime in (2, 5):
        while number % prime == 0:
            number //= prime
            found.append(prime)
    return found if number == 1 else [*found, 3]
