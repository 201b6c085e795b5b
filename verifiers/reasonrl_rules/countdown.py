"""countdown: an expression over given numbers that reaches the target."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pydantic import Field

from reasonrl import Problem, Response, Verdict, Verifier, VerifierOptions
from reasonrl_rules.answer import after_thinking, last_box
from reasonrl_rules.countdown_search import find_expression
from reasonrl_rules.equations import KINDS, OPERANDS, PLAIN_LEXER
from reasonrl_rules.expressions import Kind, Token, evaluate, number_value, read_number

TAGGED = re.compile(r"<answer>([^<]*)</answer>")
STATED = re.compile(r"(?i:\banswer(?:\s+is\b|\s*:))[\s:*]*([^\n]*)")
FRACTION = re.compile(r"\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}")
TYPESETTING = re.compile(r"\\(?:left|right|displaystyle)(?![A-Za-z])|\\[,;:! ()\[\]]|\$|^[\s*`]+|[\s*`.]+$")
LONGEST = 200  # characters of an answer that are read; six numbers need a quarter of it
DEEPEST = 8  # fractions within fractions
BRACKETS = str.maketrans("[]{}", "()()")
SHOWN = 200  # characters quoted in the evidence


class CountdownOptions(VerifierOptions):
    """Options of `countdown`.

    Attributes:
        use_all: whether every number must be used; each at most once in any case.
    """

    use_all: bool = Field(False, description="demand every number, not only each at most once")


class Countdown(Verifier):
    r"""Reward 1 if the response ends in an expression over the given numbers that equals the target exactly, else 0.

    The numbers stand in the metadata column `nums`, the target is the reference. The expression is, after the
    thinking, the last `<answer>…</answer>`; else the last `\boxed{…}`; else what follows the last "answer:" or "answer
    is" on its line; else the last line if that is nothing but an expression. A true `= number` may follow it, or
    `number =` stand before it; line breaks within it are spaces.

    Only + - * / between two numbers or parentheses count (as LaTeX and × ÷ too). A sign before a number is refused,
    for -3 is no number that was given; so are exponents and digits put together, 1 and 2 to 12.

    Raises:
        ValueError: the reference is not a number, or `nums` is not a list of whole numbers.
    """

    name = "countdown"
    Options = CountdownOptions
    isolation = "inline"
    requires = ("reference", "nums")

    def verify(self, problem: Problem, response: Response) -> Verdict:
        """Reasons: correct, wrong, no_answer, wrong_numbers, malformed. Evidence: expression, value, numbers used."""
        if fault := self.audit(problem):
            raise ValueError(fault)
        answer = stated_answer(after_thinking(response.text))
        if answer is None:
            return Verdict(0.0, "no_answer")
        read = _read(answer)
        if read is None:
            return Verdict(0.0, "malformed", evidence={"expression": answer[:SHOWN]})
        value = None if read.value is None else str(read.value)[:SHOWN]
        evidence = {"expression": answer[:SHOWN], "value": value, "used": [str(number) for number in read.used]}
        if not self._allowed(read.used, _given(problem) or []):
            return Verdict(0.0, "wrong_numbers", evidence=evidence)
        right = read.value == _target(problem) and read.claimed in (None, read.value)
        return Verdict(float(right), "correct" if right else "wrong", evidence=evidence)

    def audit(self, problem: Problem) -> str | None:
        """A reference that is not a number is a fault, and so are `nums` other than whole numbers of at least 0."""
        if _target(problem) is None:
            return f"the reference {problem.reference!r} is not a number"
        if _given(problem) is None:
            return f"nums must be a list of whole numbers of at least 0, not {problem.metadata.get('nums')!r}"
        return None

    def right_response(self, problem: Problem) -> str | None:
        """An expression found by search; None if the numbers are too many or the search comes to nothing."""
        given, target = _given(problem), _target(problem)
        if given is None or target is None:
            return None
        found = find_expression(given, target, self.options.use_all)
        return None if found is None else f"<answer>{found}</answer>"

    def wrong_response(self, problem: Problem) -> str | None:
        """The sum of all numbers or, where that is the target, the sum with the largest number subtracted."""
        given, target = _given(problem), _target(problem)
        if given is None:
            return None
        *rest, largest = sorted(given)
        if target != sum(given):
            return f"<answer>{' + '.join(map(str, given))}</answer>"
        if not rest or largest == 0:
            return None
        return f"<answer>{' + '.join(map(str, rest))} - {largest}</answer>"

    def _allowed(self, used: Sequence[Fraction], given: Sequence[int]) -> bool:
        """Each given number at most once; with `use_all`, exactly once."""
        left = Counter(map(Fraction, given))
        left.subtract(used)
        return min(left.values()) >= 0 and not (self.options.use_all and any(left.values()))


@dataclass(frozen=True)
class _Expression:
    """What was read: the numbers used, the value (None: divided by zero), and the number claimed to equal it."""

    used: tuple[Fraction, ...]
    value: Fraction | None
    claimed: Fraction | None


def stated_answer(text: str) -> str | None:
    """What `text` states as its answer, without typesetting around it; None if it states none."""
    if tagged := TAGGED.findall(text):
        return _bare(tagged[-1])
    if (box := last_box(text)) is not None:
        return _bare(box)
    if stated := STATED.findall(text):
        return _bare(stated[-1])
    last_line = _bare(text.strip().rpartition("\n")[2])
    return last_line if last_line and _read(last_line) else None


def _bare(answer: str) -> str | None:
    answer = answer.strip()
    if len(answer) > LONGEST:
        return answer[: LONGEST + 1]  # which is refused; without its typesetting, what was cut off might not be missed
    return " ".join(TYPESETTING.sub("", answer).split()) or None


def _read(answer: str) -> _Expression | None:
    """The expression and the claim after it; None if it is anything else, such as prose or an algebraic equation."""
    if len(answer) > LONGEST:
        return None
    left, equals, right = answer.partition("=")
    claimed = read_number(right, thousands=False) if equals else None
    if equals and claimed is None:  # "24 = 3 * 8"
        left, claimed = right, read_number(left, thousands=False)
    tokens = _tokens(left)
    if not tokens or (equals and claimed is None):
        return None
    try:
        used = tuple(number_value(token.text) for token in tokens if token.kind == "number")
        return _Expression(used, evaluate(tokens), claimed)
    except ZeroDivisionError:
        return _Expression(used, None, claimed)
    except ValueError:
        return None


def _tokens(text: str) -> list[Token] | None:
    """The tokens of an expression, or None if something else stands in it, a sign before a number included."""
    for _ in range(DEEPEST):
        text = FRACTION.sub(r"((\1)/(\2))", text)
    tokens: list[Token] = []
    for found in PLAIN_LEXER.finditer(text.translate(BRACKETS)):
        after_operand = bool(tokens) and tokens[-1].kind in OPERANDS
        kind: Kind | None = None
        if found.lastgroup == "number":
            kind = "number"
        elif found.lastgroup == "sign":
            kind = KINDS[found[0]]
        elif found.lastgroup == "times":
            kind = "*"
        elif found.lastgroup == "skip":
            continue
        if kind is None or (kind not in ("number", "(") and not after_operand):
            return None
        tokens.append(Token(kind, found[0], found.start(), found.end()))
    return tokens


def _target(problem: Problem) -> Fraction | None:
    return read_number(problem.reference or "")


def _given(problem: Problem) -> list[int] | None:
    """The given numbers, or None if the column is absent, empty or holds anything but whole numbers."""
    nums = problem.metadata.get("nums")
    if not isinstance(nums, list | tuple) or not nums or not all(map(_is_whole, nums)):
        return None
    return [int(number) for number in nums]


def _is_whole(number: object) -> bool:
    if isinstance(number, bool) or not isinstance(number, int | float):
        return False
    return number >= 0 and number == number // 1
