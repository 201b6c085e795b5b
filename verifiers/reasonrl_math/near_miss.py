"""An answer that is near the reference and wrong, made without asking the verifier that is to refuse it."""

import re

from reasonrl_math.rewrite import as_word, choice_letter

LONE_ZERO = re.compile(r"(?<![0-9._])(?<!_\{)0(?![0-9.])")  # not of 0.5, 2.0 or x_0
LAST_DIGIT = re.compile(r"[0-9](?=[^0-9]*$)")
OTHER_DIGIT = "1234567898"  # of 0, 1, …, 9; no number becomes 0, which might divide
# Where there are several things or no finite one, "+1" changes nothing, or nothing that is sure to matter.
NOT_ONE_NUMBER = re.compile(
    r"\\infty|∞|\\emptyset|\\varnothing|∅|\\mathbb|[,;|=<>]|\\(?:text|in|cup|cap|leq?|geq?|neq?)\b"
)


def near_miss(reference: str) -> str:
    """An answer that does not equal the reference.

    A word gets a "not" before it, and a letter of a choice becomes another one. A 0 becomes 1, for 0/2 would be no miss
    of 0/1; else the last digit is changed. What has no digit gets one more if it is a single expression, else it is 0.
    """
    if as_word(reference) is not None:
        return rf"\text{{not {as_word(reference)}}}"
    if choice_letter(reference) is not None:
        return "B" if choice_letter(reference) == "A" else "A"
    if LONE_ZERO.search(reference):
        return LONE_ZERO.sub("1", reference, count=1)
    if LAST_DIGIT.search(reference):
        return LAST_DIGIT.sub(lambda found: OTHER_DIGIT[int(found[0])], reference, count=1)
    return "0" if NOT_ONE_NUMBER.search(reference) else f"{reference}+1"
