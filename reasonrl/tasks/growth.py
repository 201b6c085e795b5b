"""Operations of templates that make much of little, or take long over it: what each would come to, spent beforehand."""

import re
from collections.abc import Callable, Iterable
from inspect import Signature
from typing import Any

from reasonrl.tasks.budget import spend, weigh

_BITS = 10_000  # of a number that is calculated with
# A conversion of `%`, with a width and a precision of at most four digits.
_CONVERSION = re.compile(r"%(?:\([^()]{0,100}\))?[-#0 +]*([0-9]{0,4})(?:\.([0-9]{0,4}))?[hlL]?[a-zA-Z%]")

Arguments = dict[str, Any]


def check_operation(operator: str, left: Any, right: Any) -> None:
    """Spend what an operation of arithmetic makes of two values; of a text, `*` repeats it and `%` formats it.

    Raises:
        ValueError: it is more than is left, or a number has too many digits.
    """
    if any(isinstance(one, int) and one.bit_length() > _BITS for one in (left, right)):
        raise _too_long(operator)
    if operator == "**" and isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > _BITS:
        raise _too_long(operator)
    if operator == "*":
        for one, times in ((left, right), (right, left)):
            if isinstance(times, int) and isinstance(one, str | bytes | list | tuple):
                spend(len(one) * times)
    if operator == "%" and isinstance(left, bytes):
        raise ValueError("%: bytes cannot be formatted")
    if operator == "%" and isinstance(left, str):
        _check_format(left, right)


def check_filter(name: str, signature: Signature, arguments: list[Any], named: Arguments) -> None:
    """Spend what one of FILTERS makes of its arguments beyond what they are. A list may take the place of an iterator.

    Raises:
        ValueError: it is more than is left.
    """
    bound = signature.bind(*arguments, **named)
    bound.apply_defaults()
    spend(FILTERS[name](bound.arguments))
    arguments[:] = bound.args
    named.clear()
    named.update(bound.kwargs)


def check_method(name: str, owner: Any, arguments: list[Any], named: Arguments) -> None:
    """The same for a method of a value.

    Raises:
        ValueError: it is more than is left, or such a method is not for templates.
    """
    if name not in METHODS:
        raise ValueError(f"{name}() cannot be called in a template")
    if name == "join":
        arguments[:] = [_listed(one) for one in arguments]
    if name in _METHODS:
        spend(_METHODS[name](owner, *arguments, **named))


def _too_long(operator: str) -> ValueError:
    return ValueError(f"{operator}: a number of more than {_BITS:,} bits")


def _check_format(text: str, values: Any) -> None:
    found = _CONVERSION.findall(text)
    if "%" in _CONVERSION.sub("", text):
        raise ValueError(f"{text[:80]!r} is no text to format; a width is a number of at most four digits")
    spend(len(text) + len(found) * weigh(values) + sum(int(number or 0) for widths in found for number in widths))


def _listed(items: Iterable[Any]) -> list[Any]:
    """An iterator as a list, for its length; each item was weighed on the way."""
    return items if isinstance(items, list) else list(items)


def _format(a: Arguments) -> int:
    _check_format(str(a["value"]), a["kwargs"] or a["args"])
    return 0


def _indent(a: Arguments) -> int:
    width = a["width"]
    return len(str(a["s"]).splitlines()) * (width if isinstance(width, int) else len(width))


def _join(a: Arguments) -> int:
    a["value"] = _listed(a["value"])
    return len(a["value"]) * len(str(a["d"]))


def _sum(a: Arguments) -> int:
    if not isinstance(a["start"], int | float):
        raise ValueError("sum: only numbers are added up")  # lists would be copied at each step
    return 0


def _searched(text: str, part: str | None = None, *_: Any, **__: Any) -> int:
    """A search from the end, or for any of some characters, may compare each of them at each place."""
    return len(text) * len(part or "") // 10


def _filled(text: str, width: int, *_: Any) -> int:
    return width


def _replaced(text: str, old: str, new: str, *_: Any, **__: Any) -> int:
    return text.count(old) * len(new)


FILTERS: dict[str, Callable[[Arguments], int]] = {
    "batch": lambda a: a["linecount"],
    "center": lambda a: a["width"],
    "format": _format,
    "indent": _indent,
    "join": _join,
    "replace": lambda a: _replaced(str(a["s"]), str(a["old"]), str(a["new"])),
    "round": lambda a: 1000 * abs(a["precision"]),  # it raises 10 to that power
    "slice": lambda a: a["slices"] * 10,
    "sum": _sum,
    "trim": lambda a: _searched(str(a["value"]), a["chars"]),
}
_METHODS: dict[str, Callable[..., int]] = {
    **dict.fromkeys(("center", "ljust", "rjust", "zfill"), _filled),
    **dict.fromkeys(("strip", "lstrip", "rstrip", "rfind", "rindex", "rpartition", "rsplit"), _searched),
    "decode": lambda owner: 0,  # as UTF-8; some of the other codecs are quadratic
    "join": lambda text, items: len(items) * len(text),
    "replace": _replaced,
}
# The others, of texts, lists and mappings, numbers and dates.
_LINEAR = (
    "capitalize casefold count endswith find index isalnum isalpha isascii isdecimal isdigit islower isnumeric "
    "isprintable isspace istitle isupper lower partition removeprefix removesuffix split splitlines startswith "
    "swapcase title upper copy get items keys values bit_length is_integer date isoformat strftime"
)
METHODS = frozenset(_METHODS) | frozenset(_LINEAR.split())
