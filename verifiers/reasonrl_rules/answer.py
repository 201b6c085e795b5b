"""Where the answer stands in a response."""

import re

THINKING_ENDS = "</think>"
BOX = re.compile(r"\\(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)


def after_thinking(text: str) -> str:
    """The response without its thinking: what follows the last `</think>`, or all of it."""
    return text.rpartition(THINKING_ENDS)[2]


def marker_at(text: str, marker: str) -> int:
    """Where the last `marker` after the thinking starts in `text`; −1 if there is none."""
    final = after_thinking(text)
    found = final.rfind(marker)
    return found if found < 0 else len(text) - len(final) + found


def answer_after(text: str, marker: str) -> str | None:
    """The line that follows the last `marker`, without surrounding white space; None if there is no such line.

    Only what comes after the thinking counts, so that a guess made on the way is never taken for the answer.
    """
    at = marker_at(text, marker)
    if at < 0:
        return None
    return text[at + len(marker) :].strip().partition("\n")[0].rstrip() or None


def with_marker(answer: str, marker: str) -> str:
    """A response that `answer_after` reads the answer from."""
    return f"{marker} {answer}" if marker else answer


def last_box(text: str) -> str | None:
    r"""The content of the last balanced `\boxed{…}`; "" if all boxes are broken, None if there are none. Linear."""
    if "box" not in text:
        return None
    opened: list[tuple[bool, int]] = []
    last, content = -1, None
    for found in BOX.finditer(text):
        if found[0] == "}":
            is_box, start = opened.pop() if opened else (False, 0)
            if is_box and start > last:
                last, content = start, text[start : found.start()]
        elif found[0][-1] == "{" and found[0] != r"\{":
            is_box = found[0] != "{"
            opened.append((is_box, found.end()))
            content = "" if is_box and content is None else content
    return content
