"""What one rendering of a template may cost, so that no template of a stranger, and no slip, can hang a run.

Counted is what is read and made, not time: a template that is too much is so on every machine.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jinja2
from jinja2.runtime import Context

WORK = 10_000_000  # characters read and made in one rendering: about a second at worst
STEP = 20  # characters that one item, number or operation counts as

# Without a rendering there is nothing to spend: what jinja2 would compute as it loads a template fails and stays as is.
_left: ContextVar[list[int]] = ContextVar("left")


@contextmanager
def rendering() -> Iterator[None]:
    """Give what is rendered inside a budget of its own."""
    token = _left.set([WORK])
    try:
        yield
    finally:
        _left.reset(token)


def spend(characters: int) -> None:
    """Take so much from the budget of this rendering, before it is read or made.

    Raises:
        ValueError: no more is left.
    """
    left = _left.get()
    left[0] -= max(characters, 0)
    if left[0] < 0:
        raise ValueError(
            f"the template does too much: it reads and makes more than {WORK:,} characters (a step counts as {STEP})"
        )


def weigh(value: Any) -> int:
    """Spend what a value comes to where it is read or written out, and say how much that is.

    Each place counts where a list stands in another more than once: of 40 lists `[x, x]` within each other, 2^40.

    Raises:
        ValueError: more than is left.
    """
    weight, within = 0, [value]
    while within:
        one = within.pop()
        cost = STEP
        if isinstance(one, str | bytes):
            cost += len(one)
        elif isinstance(one, int):
            cost += one.bit_length() // 3
        elif isinstance(one, range):
            cost += STEP * len(one)  # without going through it
        elif _holds_items(one):
            spend(STEP * len(one))
            within.extend(one)
            if isinstance(one, Mapping):
                within.extend(one.values())
        spend(cost)
        weight += cost
    return weight


def weighed(value: Any) -> Any:
    """A value that was made, weighed; of an iterator, each item as it is taken."""
    if isinstance(value, Iterator):
        return _taken(value)
    weigh(value)
    return value


def counted(items: Any) -> Any:
    """What a loop goes over; each turn is a step."""
    if _holds_items(items):
        spend(STEP * len(items))
    return items


def _holds_items(value: Any) -> bool:
    return isinstance(value, Collection) and not isinstance(value, jinja2.Undefined | Context)


def _taken(items: Iterator[Any]) -> Iterator[Any]:
    for item in items:
        weigh(item)
        yield item
