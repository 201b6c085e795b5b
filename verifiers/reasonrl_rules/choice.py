"""choice: multiple choice by letter."""

import re

from pydantic import Field

from reasonrl import Problem, Response, Verdict, Verifier, VerifierOptions
from reasonrl_rules.answer import after_thinking, last_box

# Every pattern is anchored at a word or a brace and has no nested repetition, so all run in linear time.
TAGGED = re.compile(r"<answer>([^<]*)</answer>")
STATED = re.compile(r"(?i:\b(?:answer|option|choice)(?:\s+is\b|\s*:))[\s:*$]*(?i:option\s+)?")
WRAPPER = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|bf|rm)\b|[{}$*\\]")
LETTER = re.compile(
    r"\(\s*(?P<closed>[A-Za-z])\s*\)"  # (C), (c), (C) 12 apples
    r"|(?P<label>[A-Z])(?:[.:)](?=\s|$)|\s*$)"  # C, C. 12 apples, C: 12 apples; not U.S. soil
    r"|(?P<lower>[a-z])[.)]?\s*$"  # c; not e.g. this
)
# "The answer is C because …" names an option; "the answer is A triangle", "the answer is I cannot say" do not.
IN_SENTENCE = re.compile(r"(?P<label>[B-HJ-Z])(?=\s)|(?P<listed>[A-Z])(?=[,;])")
ANOTHER = re.compile(r"\s*(?:[,/&;]|or\b|and\b)\s*(?:or\b|and\b)?\s*\(?\s*[A-Za-z]\s*(?:[).,:;]|$|or\b|and\b)")
LONGEST_STATEMENT = 200  # characters of a statement that are read


class ChoiceOptions(VerifierOptions):
    """Options of `choice`.

    Attributes:
        letters: the letters that exist, such as "ABCD"; a letter beyond them is no answer.
    """

    letters: str = Field(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ", pattern="^[A-Z]+$", description="the letters of the options, such as ABCD"
    )


class Choice(Verifier):
    r"""Reward 1 if the response names the letter of the reference, else 0. A letter is never picked out of prose.

    What counts as naming, after the thinking and in this order: the last `\boxed{…}`; the last `<answer>…</answer>`;
    the last "answer is …", "answer: …" or line that is nothing but a letter; a response of one line such as
    "(C) 12 apples". A statement that names several letters names none.

    Raises:
        ValueError: the reference is not one of the letters.
    """

    name = "choice"
    Options = ChoiceOptions
    isolation = "inline"
    requires = ("reference",)

    def verify(self, problem: Problem, response: Response) -> Verdict:
        """Reasons: correct, wrong, no_answer. Evidence: the letter named."""
        if fault := self.audit(problem):
            raise ValueError(fault)
        letter = chosen_letter(after_thinking(response.text), self.options.letters)
        if letter is None:
            return Verdict(0.0, "no_answer")
        right = letter == _reference_letter(problem.reference)
        return Verdict(float(right), "correct" if right else "wrong", evidence={"answer": letter})

    def audit(self, problem: Problem) -> str | None:
        """A reference that is not one of the letters (parentheses allowed) is a fault."""
        letter = _reference_letter(problem.reference)
        if len(letter) == 1 and letter in self.options.letters:
            return None
        return f"the reference {problem.reference!r} is not one of the letters {self.options.letters}"

    def right_response(self, problem: Problem) -> str | None:
        """The letter of the reference, stated."""
        return None if self.audit(problem) else _stated(_reference_letter(problem.reference))

    def wrong_response(self, problem: Problem) -> str | None:
        """Another letter, stated; None if there is only one."""
        others = [letter for letter in self.options.letters if letter != _reference_letter(problem.reference)]
        return _stated(others[0]) if others and self.audit(problem) is None else None


def chosen_letter(text: str, letters: str) -> str | None:
    """The option that `text` names by its letter, in upper case, or None."""
    box = last_box(text)
    if box is not None:
        return _letter(box, letters)
    tagged = TAGGED.findall(text)
    if tagged:
        return _letter(tagged[-1], letters)
    lines = text.strip().splitlines()
    if not lines:
        return None
    alone = _letter(lines[-1], letters)
    if alone and (len(lines) == 1 or len(_unwrapped(lines[-1]).strip("(). ")) == 1):
        return alone
    stated = (_letter(_line_at(text, found.end()), letters, sentence=True) for found in STATED.finditer(text))
    named = [letter for letter in stated if letter]
    return named[-1] if named else None


def _stated(letter: str) -> str:
    return f"The answer is ({letter})."


def _line_at(text: str, start: int) -> str:
    return text[start : start + LONGEST_STATEMENT].partition("\n")[0]


def _letter(text: str, letters: str, sentence: bool = False) -> str | None:
    """The letter `text` starts with, if it stands as the name of an option and no other follows it."""
    text = _unwrapped(text)
    found = LETTER.match(text) or (IN_SENTENCE.match(text) if sentence else None)
    if found is None or ANOTHER.match(text, found.end()):
        return None
    letter = next(group for group in found.groups() if group).upper()
    return letter if letter in letters else None


def _unwrapped(text: str) -> str:
    return WRAPPER.sub("", text).strip()


def _reference_letter(reference: str | None) -> str:
    return (reference or "").strip().strip("().").strip().upper()
