"""The tree an answer is read into: numbers, symbols and applications, and the collections answers are made of.

Nothing here computes. A tree is built by `parse.py` from an allow-list of notations; no text is ever evaluated.
"""

from dataclasses import dataclass
from fractions import Fraction


class Unreadable(Exception):
    """The text is none of the notations that the parser knows."""


class NoValue(Exception):
    """The expression has no value (a division by zero, a mixed number with an improper part) or is too large."""


@dataclass(frozen=True)
class Num:
    """A rational number, exact; decimals too."""

    value: Fraction


@dataclass(frozen=True)
class Sym:
    """A symbol with its subscript, `f(x)` as a whole, or one of the constants e, i, pi, inf."""

    name: str


@dataclass(frozen=True)
class Apply:
    """An operation or a function of the allow-list applied to expressions: + * / ^ neg pm sin floor sum …"""

    op: str
    args: tuple["Node", ...]


@dataclass(frozen=True)
class Quantity:
    """A value with its unit in words, such as "cm^2"."""

    value: "Node"
    unit: str


@dataclass(frozen=True)
class Bracket:
    """Items in order between brackets: a tuple, a point or an interval."""

    items: tuple["Node", ...]
    opened: str
    closed: str


@dataclass(frozen=True)
class Bag:
    """Items without an order: a bare list ("," or "and" or "or" between them) or a set in braces."""

    items: tuple["Node", ...]
    joined: str


@dataclass(frozen=True)
class Relation:
    """A chain of members with =, ≈, <, <=, >, >=, != between them."""

    ops: tuple[str, ...]
    members: tuple["Node", ...]


@dataclass(frozen=True)
class Matrix:
    """Rows of entries."""

    rows: tuple[tuple["Node", ...], ...]


@dataclass(frozen=True)
class Ratio:
    """Members of a ratio a : b : c, or of a time of day; `half` of the day: a, p or empty."""

    items: tuple["Node", ...]
    clock: bool
    half: str = ""


@dataclass(frozen=True)
class Based:
    """Digits in a base."""

    digits: str
    base: int


@dataclass(frozen=True)
class Words:
    """Text that is no mathematics."""

    text: str


@dataclass(frozen=True)
class Dots:
    """An ellipsis among the items of a list."""


Node = Num | Sym | Apply | Quantity | Bracket | Bag | Relation | Matrix | Ratio | Based | Words | Dots

PRINTED_BITS = 4000  # Python refuses to print much longer numbers
CONSTANTS = frozenset({"e", "i", "pi", "inf"})


def symbols(node: Node) -> frozenset[str]:
    """The free symbols of an expression; constants and bound indices are none."""
    if isinstance(node, Sym):
        return frozenset() if node.name in CONSTANTS else frozenset({node.name})
    if isinstance(node, Apply) and node.op in ("sum", "prod"):
        index, low, high, body = node.args
        return (symbols(body) - symbols(index)) | symbols(low) | symbols(high)
    if isinstance(node, Apply):
        return frozenset().union(*map(symbols, node.args))
    return frozenset()


def shown(node: Node) -> str:
    """A tree as short text, for the evidence."""
    if isinstance(node, Num):
        number = node.value
        return (
            str(number) if max(number.numerator.bit_length(), number.denominator.bit_length()) < 4000 else "(a number)"
        )
    if isinstance(node, Sym):
        return node.name
    if isinstance(node, Apply):
        return f"{node.op}({', '.join(map(shown, node.args))})"
    if isinstance(node, Quantity):
        return f"{shown(node.value)} {node.unit}"
    if isinstance(node, Bracket):
        return f"{node.opened}{', '.join(map(shown, node.items))}{node.closed}"
    if isinstance(node, Bag):
        return f"{{{', '.join(map(shown, node.items))}}}"
    if isinstance(node, Relation):
        parts = [shown(node.members[0])]
        for op, member in zip(node.ops, node.members[1:], strict=True):
            parts += [op, shown(member)]
        return " ".join(parts)
    if isinstance(node, Matrix):
        return f"[{'; '.join(', '.join(map(shown, row)) for row in node.rows)}]"
    if isinstance(node, Ratio):
        return ":".join(map(shown, node.items))
    if isinstance(node, Based):
        return f"{node.digits}_{node.base}"
    return node.text if isinstance(node, Words) else "…"
