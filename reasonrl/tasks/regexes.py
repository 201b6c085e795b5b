"""Search with `reference.regex` of a task, which may come from a stranger and backtrack for ever."""

import regex

_SECONDS = 1.0
_SHOWN = 80  # characters of the text it was too slow on


def first_group(pattern: str, text: str) -> str | None:
    """What the first group of a regex holds where it first matches; None if it matches nowhere.

    Raises:
        ValueError: it takes too long on this text, or is none; the message begins with the key.
    """
    try:
        match = regex.search(pattern, text, timeout=_SECONDS)
    except TimeoutError:
        fault = f"takes longer than {_SECONDS:g} s on {text[:_SHOWN]!r}; make it simpler"
        raise ValueError(f"reference.regex: {fault}") from None
    except regex.error as error:
        raise ValueError(f"reference.regex: not a regular expression: {error}") from None
    return None if match is None else match.group(1) or ""
