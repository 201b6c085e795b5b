"""The steps of a response: where they stand in its text, and with which token each is complete. Imports no torch.

A verifier and a process reward model speak of characters, advantages and returns of tokens: `token_ends` maps the one
to the other by decoding what was sampled. Nothing is tokenised again.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import regex

Decode = Callable[[Sequence[int]], str]

_SECONDS = 1.0  # for a separator of the user's, which may backtrack for ever
_SHOWN = 80  # characters of a text in a message
_CHUNK = 32  # tokens between two cuts, or a few more
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"  # what bytes that are no character, or not yet one, decode to

_BLANK_LINE = re.compile(r"\n\s*\n")
_LINE_BREAK = re.compile(r"\r\n|\n|\r")
# Marks that may stand before a number: a heading's, a list's, bold type.
_STEP = re.compile(r"^ ?(?:#{1,6} |[-*] )?[*_]{0,2}step ?[0-9]{1,3}[*_]{0,2}(?: ?[:.)–—-]|\s*$)", re.I | re.M)
_NUMBER = re.compile(r"^ ?(?:#{1,6} )?[*_]{0,2}(?:[0-9]{1,3}[.)]|\([0-9]{1,3}\))(?=[*_ \t]|$)", re.M)


@dataclass(frozen=True)
class Span:
    """Characters [start, end) of a text."""

    start: int
    end: int


def split_steps(text: str, how: str, separator: str | None = None) -> tuple[Span, ...]:
    r"""The steps of a text, in order, each from its first to its last visible character. Empty steps are left out.

    Args:
        how: "paragraphs", with blank lines between them; "lines"; "numbered", where a line that begins with "Step 1:"
            begins a step or, in a text without any, one that begins with "1.", "1)" or "(1)"; "separator". Numbers
            that are indented by more than a space are parts of a step. What stands before the first number belongs to
            the first step; a text without numbers is one step.
        separator: for "separator", a regular expression of what stands between two steps and belongs to neither. One
            that matches no character begins a step where it matches: `(?=Therefore)`.

    Raises:
        ValueError: there is no such way; the separator is missing, not wanted, not a regular expression, or takes
            longer than a second.
    """
    if how not in SEPARATORS:
        raise ValueError(f"steps are split by {', '.join(SEPARATORS)}, not {how!r}")
    if (separator is not None) != (how == "separator"):
        raise ValueError(f"steps split by {how!r} take {'a' if separator is None else 'no'} separator")
    spans, start = [], 0
    for stop, following in [*SEPARATORS[how](text, separator or ""), (len(text), len(text))]:
        spans.append(_visible(text, start, stop))
        start = following
    return tuple(span for span in spans if span.start < span.end)


def token_ends(response_ids: Sequence[int], text: str, ends: Iterable[int], decode: Decode) -> tuple[int, ...]:
    """With which token each step is complete: the first whose prefix of the response decodes to all its characters.

    t(e) = min{t : decode(response_ids[:t+1]) starts with text[:e]}

    A token that ends one step and begins the next counts for both. A character that several tokens make up is complete
    with its last one. If the character before e is U+FFFD, that does not tell: so it takes every further token that
    changes nothing of what is decoded, or whose own text is longer than what it adds.

    Whole prefixes are decoded only if the tokenizer leaves no other way: from cuts where the text is settled, a few
    tokens before them are context enough, as in vLLM's incremental detokenisation. So the time is linear in T.

    Args:
        response_ids: the T tokens sampled, with or without end of sequence.
        text: what they decode to, without what an end of sequence or a stop string cut off.
        ends: of each step, the character it ends before, at most len(text). 0 is complete with the first token.
        decode: the same call that made `text`.

    Returns:
        An index into `response_ids` for each end.

    Raises:
        ValueError: an end lies outside the text; the text is not what the tokens decode to; there are no tokens.
    """
    ends = tuple(ends)
    if not ends:
        return ()
    for end in ends:
        if not 0 <= end <= len(text):
            raise ValueError(f"a step ends at character {end} of a text of {len(text)}")
    if not response_ids:
        raise ValueError("a response without tokens has no steps")
    if not decode(response_ids).startswith(text):
        raise ValueError(f"the tokens decode to another text than {text[:_SHOWN]!r}")
    cuts = _cuts(response_ids, text, decode)
    characters = [cut.characters for cut in cuts]
    reader = cache(lambda at: _reader(response_ids, decode, cuts[max(at - 1, 0)].tokens, cuts[at].tokens))

    @cache
    def token_end(end: int) -> int:
        at = max(bisect_left(characters, end) - 1, 0)  # the step ends between this cut and the next
        counts = range(cuts[at].tokens + 1, cuts[at + 1].tokens + 1)
        wanted = text[cuts[at].characters : end]
        if wanted.endswith(_REPLACEMENT):
            return _last_of_replacement(response_ids, decode, reader(at), counts, wanted) - 1
        return _first(reader(at), counts, wanted) - 1

    return tuple(map(token_end, ends))


def _visible(text: str, start: int, end: int) -> Span:
    """The span without the white space around it."""
    left = end - len(text[start:end].lstrip())
    return Span(left, max(left, start + len(text[start:end].rstrip())))


def _before_numbers(text: str, _: str) -> list[tuple[int, int]]:
    """Where each numbered step but the first begins: what stands before that is its introduction."""
    numbered = list(_STEP.finditer(text)) or list(_NUMBER.finditer(text))
    return [(match.start(), match.start()) for match in numbered[1:]]


def _matches(text: str, separator: str) -> list[tuple[int, int]]:
    try:
        return [match.span() for match in regex.finditer(separator, text, timeout=_SECONDS)]
    except TimeoutError:
        fault = f"takes longer than {_SECONDS:g} s on {text[:_SHOWN]!r}; make it simpler"
        raise ValueError(f"the separator of steps {separator!r} {fault}") from None
    except regex.error as error:
        raise ValueError(f"the separator of steps {separator!r} is not a regular expression: {error}") from None


# By name: the stretches of a text that stand between two steps.
SEPARATORS: dict[str, Callable[[str, str], list[tuple[int, int]]]] = {
    "paragraphs": lambda text, _: [match.span() for match in _BLANK_LINE.finditer(text)],
    "lines": lambda text, _: [match.span() for match in _LINE_BREAK.finditer(text)],
    "numbered": _before_numbers,
    "separator": _matches,
}


@dataclass(frozen=True)
class _Cut:
    """After so many tokens, so many characters are decoded, and no later token changes them."""

    tokens: int
    characters: int


def _cuts(ids: Sequence[int], text: str, decode: Decode) -> list[_Cut]:
    """Places to decode from, with the start and the end of the response; these alone if pieces make up another text."""
    cuts = [_Cut(0, 0)]
    read = _reader(ids, decode, 0, 0)
    tokens = _CHUNK
    while tokens < len(ids):
        new = read(tokens)
        # Bytes that are no character yet would be cut apart; without new text there is no context for what follows.
        if new and not new.endswith(_REPLACEMENT) and text.startswith(new, cuts[-1].characters):
            cuts.append(_Cut(tokens, cuts[-1].characters + len(new)))
            read = _reader(ids, decode, cuts[-2].tokens, tokens)
            tokens += _CHUNK
        else:
            tokens += 1 + (tokens - cuts[-1].tokens) // (2 * _CHUNK)  # faster and faster through what is no text
    whole = _Cut(len(ids), len(text))
    rest = text[cuts[-1].characters :]
    return [*cuts, whole] if read(len(ids)).startswith(rest) else [_Cut(0, 0), whole]


def _reader(ids: Sequence[int], decode: Decode, before: int, start: int) -> Callable[[int], str]:
    """What the first n tokens decode to beyond the first `start`, read with the tokens from `before` on.

    Without these, a tokenizer that strips the space before a first word would strip it from every piece. "" where a
    token breaks what stood before `start`, as in runs of bytes that are either all characters or none.
    """
    known = decode(ids[before:start]) if start else ""

    @cache
    def read(count: int) -> str:
        found = decode(ids[before:count])
        return found[len(known) :] if found.startswith(known) else ""

    return read


def _first(read: Callable[[int], str], counts: range, wanted: str) -> int:
    # Each is tried: in a run of bytes, a shorter prefix may decode to what a longer one does not.
    return next(count for count in counts if read(count).startswith(wanted))


def _last_of_replacement(
    ids: Sequence[int], decode: Decode, read: Callable[[int], str], counts: range, wanted: str
) -> int:
    """How many tokens it takes until U+FFFD, the last character wanted, has its last byte."""
    same = [count for count in counts if read(count) == wanted]
    if not same:
        return _first(read, counts, wanted)
    last = same[-1]
    while last - 1 in same and not decode(ids[last - 1 : last]):
        last -= 1  # a special token: without text, and no part of a character
    if last in counts[:-1] and read(last + 1).startswith(wanted):
        added, own = len(read(last + 1)) - len(wanted), len(decode(ids[last : last + 1]))
        return last + 1 if own > added else last
    return last
