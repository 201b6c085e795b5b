r"""Takes the one candidate answer from a response: the last box, else (if allowed) a phrase, else the last number."""

import re
from typing import Literal

Where = Literal["boxed", "phrases", "last_number"]

BRACES = re.compile(r"\\(?P<box>boxed|fbox)\s*(?:\{|(?P<bare>[^\s{}\\$]+))|\\.|[{}]", re.DOTALL)
PHRASE = re.compile(r"<answer>(?P<tagged>[^<]*)</answer>|(?i:\banswer(?:\s+is\b|\s*:))|####")
MATH = re.compile(r"\$\$?(?P<dollar>[^$]+)\$|\\\((?P<inline>.+?)\\\)|\\\[(?P<display>.+?)\\\]", re.DOTALL)
SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n")
# "24 apples are left" answers 24; "3 or 4", "3 percent" and a sentence with a second number are left whole.
NUMBER_IN_PROSE = re.compile(
    r"\\?\$?(-?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:/\d+)?)\s+"
    r"(?!(?:or|and|plus|minus|times|over|percent|dozen|hundred|thousand|million|billion|trillion)\b)[a-z]{2}\D*"
)
NUMBER = re.compile(r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")
NO_ANSWER = re.compile(r"\s*(?:I|We|i|we)\s+(?:can\s?not|can't|could\s?n[o']t|am|are|do\s?n[o']t|was|were|have)\b")
LONGEST_PHRASE = 2000  # characters read after a phrase


def extract_answer(text: str, where: Where) -> str | None:
    """The candidate answer of a response, or None. What stands before the last `</think>` is no answer.

    A box that is present but empty or never closed ends the search: prose is not consulted then.
    """
    text = text.rpartition("</think>")[2]
    answer = last_box(text)
    if answer is None and where != "boxed":
        answer = _after_phrase(text)
    if answer is None and where == "last_number":
        numbers = NUMBER.findall(text)
        answer = numbers[-1] if numbers else None
    if answer is None or NO_ANSWER.match(answer):
        return None
    return answer.strip().removesuffix(".") or None


def last_box(text: str) -> str | None:
    r"""The content of the last balanced `\boxed{…}` or `\fbox{…}` (`\boxed 8` too), found by counting braces.

    Of nested boxes the inner one. None if there is no box, "" if there are only boxes that are never closed. Linear.
    """
    opened: list[int | None] = []  # for each open brace: where its box's content starts, None for other braces
    last, content = -1, None
    for found in BRACES.finditer(text):
        if found["box"]:
            content = "" if content is None else content
            if found["bare"]:
                last, content = found.end(), found["bare"]
            else:
                opened.append(found.end())
        elif found[0] == "{":
            opened.append(None)
        elif found[0] == "}" and opened:
            start = opened.pop()
            if start is not None and start > last:
                last, content = start, text[start : found.start()]
    return content


def _after_phrase(text: str) -> str | None:
    """What follows the last phrase that announces an answer, up to the end of its sentence."""
    phrases = list(PHRASE.finditer(text))
    if not phrases:
        return None
    last = phrases[-1]
    if last["tagged"] is not None:
        return last["tagged"]
    rest = text[last.end() : last.end() + LONGEST_PHRASE].lstrip(" \t\n:*")
    math = MATH.match(rest)
    if math:
        return next(group for group in math.groups() if group is not None)
    end = SENTENCE_END.search(rest)
    rest = rest[: end.start()] if end else rest
    number = NUMBER_IN_PROSE.fullmatch(rest)
    return number[1] if number else rest.strip("* ")
