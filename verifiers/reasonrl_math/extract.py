r"""Takes the one candidate answer from a response: the last box, else (if allowed) a phrase, else the last number."""

import re
from typing import Literal

Where = Literal["boxed", "phrases", "last_number"]

BRACES = re.compile(r"\\(?P<box>boxed|fbox)\s*(?:\{|(?P<bare>[^\s{}\\$]+))|\\.|[{}]", re.DOTALL)
PHRASE = re.compile(
    r"<answer>(?P<tagged>[^<]*)</answer>|(?i:\banswer(?:\s+is\b|\**\s*:)|\bfinal\s+answer\**\s*(?=\n|\*\*))|####"
)
MATH = re.compile(r"\$\$?(?P<dollar>[^$]+)\$|\\\((?P<inline>.+?)\\\)|\\\[(?P<display>.+?)\\\]", re.DOTALL)
SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n")
# "24 apples are left" answers 24; "3 or 4", "3 percent" and a sentence with a second number are left whole.
NUMBER_IN_PROSE = re.compile(
    r"\\?\$?(-?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:/\d+)?)\s+"
    r"(?!(?:or|and|plus|minus|times|over|percent|dozen|hundred|thousand|million|billion|trillion)\b)[a-z]{2}\D*"
)
NUMBER = re.compile(
    r"(?<![\w.])-?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)(?:/\d+)?(?:\s*(?:\\?%|percent\b|pct\b))?"
)
NO_ANSWER = re.compile(r"\s*(?:I|We|i|we)\s+(?:can\s?not|can't|could\s?n[o']t|am|are|do\s?n[o']t|was|were|have)\b")
LINKED = re.compile(  # what may stand between the parts of one answer: "and", "or", commas, delimiters; never prose
    r"(?=.*(?:,|;|\band\b|\bor\b))(?:\\[()\[\]]|\\quad|[\s$,;]|\*\*|\\text\s*\{\s*(?:,\s*)?(?:and|or)\s*\}|\b(?:and|or)\b)+",
    re.DOTALL,
)
BOLD_NUMBER = re.compile(r"\*\*\s*\\?\$?(-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)[^*\n\d]*\*\*")
PROSE = re.compile(r"(?<![\\A-Za-z])[A-Za-z]?[a-z]{2,}")
LONE = re.compile(r"\s*\\?[A-Za-z]+(?:_\{?\w+\}?)?\s*")
WORDS_IN_MATH = re.compile(r"\\(?:text\w*|mbox|mathrm|operatorname|begin|end)\s*\{[^{}]*\}")
LONGEST_PHRASE = 2000  # characters read after a phrase
LONGEST_LINK = 40  # characters between two parts of an answer


def extract_answer(text: str, where: Where, parts: int = 1) -> str | None:
    """The candidate answer of a response, or None. What stands before the last `</think>` is no answer.

    A box that is present but empty or never closed ends the search: prose is not consulted then. Several boxes are one
    answer only if they are linked by "and", "or" or a comma alone and the reference has as many `parts`.
    """
    text = text.rpartition("</think>")[2]
    boxes = all_boxes(text)
    answer = None
    if boxes is not None:
        answer = _joined(text, boxes, parts) if boxes else ""
    if answer is None and where != "boxed":
        answer = _after_phrase(text)
    if answer is None and where == "last_number":
        answer = _last_mathematics(text, parts)
    if answer is None or NO_ANSWER.match(answer):
        return None
    return answer.strip().removesuffix(".") or None


Span = tuple[int, int, str]


def _joined(text: str, spans: list[Span], parts: int) -> str:
    """The last span; with the ones before it that only "and", "or" and commas link to it, if all are `parts`."""
    group = [spans[-1]]
    for before in reversed(spans[:-1]):
        gap = text[before[1] : group[0][0]]
        if (
            parts == 1
            or len(gap) > LONGEST_LINK
            or not LINKED.fullmatch(("," if before[2].rstrip().endswith(",") else "") + gap)
        ):
            break
        group.insert(0, before)
    contents = [content.strip(" ,;\n") for _, _, content in group]
    if len(contents) > 1 and parts in (len(contents), ", ".join(contents).count(",") + 1):
        return ", ".join(contents)
    return spans[-1][2]


def last_box(text: str) -> str | None:
    r"""The content of the last box: None if there is no box, "" if there are only boxes that are never closed."""
    boxes = all_boxes(text)
    if boxes is None:
        return None
    return boxes[-1][2] if boxes else ""


def all_boxes(text: str) -> list[Span] | None:
    r"""Start, end and content of the boxes `\boxed{…}`, `\fbox{…}`, `\boxed 8`, found by counting braces. Linear.

    Of nested boxes only the inner one. None if there is no box; an empty list if there are only boxes never closed.
    """
    opened: list[tuple[int, int] | None] = []  # of each open brace: where its box and its content start; None: no box
    boxes: list[Span] = []
    any_box = False
    for found in BRACES.finditer(text):
        if found["box"]:
            any_box = True
            if found["bare"]:
                boxes.append((found.start(), found.end(), found["bare"]))
            else:
                opened.append((found.start(), found.end()))
        elif found[0] == "{":
            opened.append(None)
        elif found[0] == "}" and opened:
            start = opened.pop()
            if start is not None and (not boxes or start[1] > boxes[-1][1]):
                boxes.append((start[0], found.end(), text[start[1] : found.start()]))
            elif start is not None:
                inner = boxes[-1]
                boxes[-1] = (start[0], found.end(), inner[2])
    return boxes if any_box else None


def _last_mathematics(text: str, parts: int) -> str | None:
    """The answer of the last line, or if there is none of the last paragraph."""
    text = text.rstrip()
    line, paragraph = text[text.rfind("\n") + 1 :], text[text.rfind("\n\n") + 1 :]
    return _mathematics_in(line, parts) or _mathematics_in(paragraph, parts)


def _mathematics_in(paragraph: str, parts: int) -> str | None:
    """The last number in bold, else the last formula, else the last number."""
    bold = BOLD_NUMBER.findall(paragraph)
    if bold:
        return str(bold[-1])
    spans = [
        (found.start(), found.end(), _last_member(next(group for group in found.groups() if group is not None)))
        for found in MATH.finditer(paragraph)
    ]
    spans = [span for span in spans if not PROSE.search(WORDS_IN_MATH.sub("", span[2]))]
    telling = [span for span in spans if not LONE.fullmatch(span[2])]
    if telling:
        return _joined(paragraph, telling, parts)
    numbers = NUMBER.findall(paragraph)
    return numbers[-1] if numbers else (spans[-1][2] if spans else None)


def _last_member(formula: str) -> str:
    """Of a chain of three or more, or of "words = value", the last member; else the formula as it is."""
    members = formula.split("=")
    return members[-1] if len(members) > 2 or WORDS_IN_MATH.match(formula.strip()) else formula


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
    if number:
        return number[1]
    numbers = NUMBER.findall(rest)
    if len(numbers) == 1 and len(PROSE.findall(rest)) >= 2 and "\\" not in rest:
        return str(numbers[0])  # "Verna received $7.00 in change"
    return rest.strip("* ")
