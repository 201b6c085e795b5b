"""The program that a response holds: the fenced block a reader would take, or the text itself.

What stands before the last `</think>` is no answer. Fences are those of CommonMark, with any indentation; one that is
never closed, as at a truncated end, reaches to the end.
"""

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from reasonrl_code.sandbox.languages import LANGUAGES
from reasonrl_code.syntax import defines, parse

DIRECTIVES = re.compile(r"^[ \t]*#\s*include\b|\bmain\s*\(", re.MULTILINE)  # of a C++ program without a fence
# Possessive: of a line of many spaces or digits, no second reading is tried.
FENCE = re.compile(r"[ \t]*+(?:[-*+][ \t]*+|\d++[.)][ \t]*+)?(?P<fence>`{3,}|~{3,})(?P<info>[^\r\n]*)")
FUTURE = re.compile(r"^from[ \t]+__future__[ \t]+import\b[^\n(]*(?:\([^)]*\))?[^\n]*\n?", re.MULTILINE)
INDENT = "    "


@dataclass(frozen=True)
class Block:
    """A fenced block: its tag in lower case ("" without one) and what it holds."""

    tag: str
    source: str


def fenced_blocks(text: str) -> list[Block]:
    """The fenced blocks of a text, in order."""
    return list(_blocks(text.replace("\r\n", "\n").replace("\r", "\n").split("\n")))


@dataclass(frozen=True)
class Found:
    """What a response holds in the place of a program, and whether in a fenced block."""

    source: str
    fenced: bool


def program_in(response: str, language: str, *, wanted: str = "", raw: bool = True) -> Found | None:
    """The program of a response, or None if it holds none.

    Of the blocks with the tag of the language, else of those without a tag, it is the last that defines `wanted`, else
    the last. Blocks in other languages are no answer.

    Args:
        language: a key of `sandbox.languages.LANGUAGES`, whose tags may be followed by a version.
        wanted: the function or class that is asked for, if one is.
        raw: may a response without any block be the program itself?
    """
    text = response.rpartition("</think>")[2]
    blocks = fenced_blocks(text)
    if not blocks:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        return Found(text, fenced=False) if raw and text.strip() else None
    tags = LANGUAGES[language].tags
    tagged = [block.source for block in blocks if block.tag in tags or block.tag.rstrip("0123456789.") in tags]
    sources = tagged or [block.source for block in blocks if not block.tag]
    if not sources:
        return None
    defining = (one for one in reversed(sources) if wanted and _mentions(one, wanted))
    return Found(next(defining, sources[-1]), fenced=True)


def is_program(source: str, language: str) -> bool:
    """Could a text without a fence be a program? Prose is not."""
    return parse(source) is not None if language == "python" else DIRECTIVES.search(source) is not None


def continued(source: str, prompt: str, wanted: str) -> str:
    """A Python program that answers a prompt which is code itself: imports and helpers, then a function to complete.

    A source that defines the function comes after the prompt, whose imports and helpers it may use; any other is the
    body of the function, with its indentation as it stands or, as chat models often write it, without.
    """
    if not prompt:
        return source
    tree = parse(source)
    if tree is not None and defines(tree, wanted):
        return after(prompt, source)
    bodies = [source]
    if not source.startswith(INDENT) and re.search(r"\b(?:return|yield)\b", source):
        bodies += [textwrap.indent(source, INDENT), INDENT + source]
    for body in bodies:
        joined = after(prompt.rstrip(" \t"), body)
        if _completes(joined, wanted):
            return joined
    return source


def after(header: str, source: str) -> str:
    """The source behind a header; what must come first in a program, imports from `__future__`, stays first."""
    futures = "".join(one if one.endswith("\n") else one + "\n" for one in FUTURE.findall(source))
    if futures:
        source = FUTURE.sub("", source)
    return futures + (header if header.endswith("\n") or not header else header + "\n") + source


def _blocks(lines: list[str]) -> Iterator[Block]:
    at = 0
    while at < len(lines):
        opened = FENCE.match(lines[at])
        at += 1
        if opened is None or (opened["fence"][0] == "`" and "`" in opened["info"]):
            continue
        closed = re.compile(rf"[ \t]*{re.escape(opened['fence'][0])}{{{len(opened['fence'])},}}[ \t]*")
        start = at
        while at < len(lines) and not closed.fullmatch(lines[at]):
            at += 1
        yield Block(_tag(opened["info"]), _dedented(lines[start:at], opened.start("fence")))
        at += 1


def _tag(info: str) -> str:
    words = info.strip().strip("{}").lower().replace(",", " ").split()
    return words[0].lstrip(".") if words else ""


def _dedented(lines: list[str], indent: int) -> str:
    """The lines without the indentation of their fence, as far as they have it."""
    kept = [line[min(indent, len(line) - len(line.lstrip(" \t"))) :] for line in lines]
    return "\n".join(kept) + ("\n" if kept else "")


def _mentions(source: str, wanted: str) -> bool:
    return re.search(rf"^[ \t]*(?:(?:async[ \t]+)?def|class)[ \t]+{re.escape(wanted)}\b|^{re.escape(wanted)}[ \t]*=",
                     source, re.MULTILINE) is not None  # fmt: skip


def _completes(program: str, wanted: str) -> bool:
    """Does it parse, with a body of the wanted function that is more than a docstring?"""
    tree = parse(program)
    found = [] if tree is None else [one for one in tree.body if getattr(one, "name", "") == wanted]
    if not found:
        return False
    body = found[-1].body  # type: ignore[attr-defined]
    return any(not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)) for one in body)
