"""Where the answer stands in a response."""

THINKING_ENDS = "</think>"


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
