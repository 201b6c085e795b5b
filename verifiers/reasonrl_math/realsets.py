"""Sets of real numbers as unions of intervals: intervals, inequalities in one variable, finite sets, ∪ ∩ ∖ and ℝ.

Ends are compared as numbers, exactly where they are rational. Open and closed ends differ.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key
from itertools import chain

from reasonrl_math.cursor import EXPRESSION, negative
from reasonrl_math.numbers import order, same_value
from reasonrl_math.tree import Apply, Bag, Bracket, Node, NoValue, Num, Relation, Sym, Unreadable, symbols

INFINITY = Sym("inf")
MINUS_INFINITY = Apply("neg", (INFINITY,))
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "!=": "!=", "=": "="}
ZERO, ONE, TWO = (Num(Fraction(number)) for number in range(3))


@dataclass(frozen=True)
class Piece:
    """An interval; `low_in`, `high_in`: whether its ends belong to it."""

    low: Node
    low_in: bool
    high: Node
    high_in: bool


Pieces = tuple[Piece, ...]
LINE: Pieces = (Piece(MINUS_INFINITY, False, INFINITY, False),)


def is_set_of_reals(node: Node) -> bool:
    """Whether a node can be nothing else than a set of reals: not (1, 2), which may be a point."""
    if isinstance(node, Bracket):
        infinite = any(item in (INFINITY, MINUS_INFINITY) for item in node.items)
        return len(node.items) == 2 and ((node.opened, node.closed) not in (("(", ")"), ("[", "]")) or infinite)
    if isinstance(node, Relation):
        return not set(node.ops) <= {"=", "≈"} and len(frozenset().union(*map(_names, node.members))) == 1
    if isinstance(node, Bag):
        return bool(node.items) and any(
            isinstance(item, Bracket | Relation) and is_set_of_reals(item) for item in node.items
        )
    return isinstance(node, Apply) and node.op in ("cup", "cap", "minus", "reals")


def _names(node: Node) -> frozenset[str]:
    return symbols(node) if isinstance(node, EXPRESSION) else frozenset({"?", "??"})


def pieces(node: Node) -> Pieces | None:
    """The intervals of a node, ordered and merged; None if it is no set of reals."""
    try:
        found = _pieces(node)
        return None if found is None else _merged(found)
    except (NoValue, Unreadable):
        return None


def _pieces(node: Node) -> Pieces | None:
    if isinstance(node, Bracket):
        return _interval(node)
    if isinstance(node, Relation):
        return _solution(node)
    if isinstance(node, Bag):
        return _bag(node)
    if not isinstance(node, Apply):
        return None
    if node.op == "reals":
        return LINE
    if node.op not in ("cup", "cap", "minus"):
        return None
    left, right = pieces(node.args[0]), pieces(node.args[1])
    if left is None or right is None:
        return None
    if node.op == "cup":
        return left + right
    return _intersection(left, right if node.op == "cap" else _complement(right))


def _interval(node: Bracket) -> Pieces | None:
    if len(node.items) != 2 or not all(isinstance(item, EXPRESSION) and not symbols(item) for item in node.items):
        return None
    low, high = node.items
    if order(low, high) > 0:
        return None
    closed = node.opened == "[", node.closed == "]"
    return (Piece(low, closed[0] and low != MINUS_INFINITY, high, closed[1] and high != INFINITY),)


def _bag(node: Bag) -> Pieces | None:
    first = node.items[0] if node.items else None
    if isinstance(first, Relation) and first.ops == ("!=",) and node.joined != "{}":  # x != -2, 2
        node = Bag(tuple(_unequal(first, item) for item in node.items), "and")
    if node.joined != "{}" and all(isinstance(item, Relation) for item in node.items):
        known = [part for part in map(pieces, node.items) if part is not None]
        if len(known) < len(node.items):
            return None
        common = LINE
        for solutions in known:
            common = _intersection(common, solutions)
        # "x < 1, x > 5" can only mean "or"; "x > 1, x < 5" means both
        return common if node.joined != "or" and common else tuple(chain.from_iterable(known))
    found: list[Piece] = []
    for item in node.items:
        if isinstance(item, Bracket | Relation) and node.joined != "{}":
            part = pieces(item)
            if part is None:
                return None
            found.extend(part)
        elif isinstance(item, EXPRESSION) and not symbols(item):
            order(item, ZERO)  # a real number
            found.append(Piece(item, True, item, True))
        else:
            return None
    return tuple(found)


def _unequal(first: Relation, item: Node) -> Node:
    constant = isinstance(item, EXPRESSION) and not symbols(item)
    return Relation(("!=",), (first.members[0], item)) if constant else item


def _solution(node: Relation) -> Pieces | None:
    """The solutions of a chain of relations in one variable, linear or of the absolute value of something linear."""
    if not all(isinstance(member, EXPRESSION) for member in node.members) or "≈" in node.ops:
        return None
    solution = LINE
    for op, left, right in zip(node.ops, node.members, node.members[1:], strict=False):
        solved = _distance(op, left, right) or _linear(op, left, right)
        if solved is None:
            return None
        solution = _intersection(solution, _merged(solved))
    return solution


def _distance(op: str, left: Node, right: Node) -> Pieces | None:
    """|a| < c is a < c and a > −c; |a| > c is a > c or a < −c. A ± c is meant as two: x ≠ ±2."""
    if isinstance(right, Apply) and right.op == "abs":
        op, left, right = FLIPPED[op], right, left
    absolute = isinstance(left, Apply) and left.op == "abs"
    if not (absolute or (op == "!=" and isinstance(right, Apply) and right.op == "pm" and len(right.args) == 1)):
        return None
    inner = left.args[0] if absolute and isinstance(left, Apply) else left
    end = right if absolute or not isinstance(right, Apply) else right.args[0]
    if symbols(end) or order(end, ZERO) < 0:
        return None
    sides = _linear(op, inner, end), _linear(FLIPPED[op], inner, negative(end))
    if sides[0] is None or sides[1] is None:
        return None
    both = op in ("<", "<=", "!=")
    return _intersection(_merged(sides[0]), _merged(sides[1])) if both else sides[0] + sides[1]


def _linear(op: str, left: Node, right: Node) -> Pieces | None:
    names = symbols(left) | symbols(right)
    if len(names) != 1:
        return None
    (name,) = names
    if isinstance(left, Sym) and name not in symbols(right):
        return _half_line(op, right)
    if isinstance(right, Sym) and name not in symbols(left):
        return _half_line(FLIPPED[op], left)
    apart = Apply("+", (left, negative(right)))
    at = [replaced(apart, name, point) for point in (ZERO, ONE, TWO)]
    slope = Apply("+", (at[1], negative(at[0])))
    if not same_value(Apply("+", (at[2], negative(at[1]))), slope) or same_value(slope, ZERO):
        return None
    end = Apply("/", (negative(at[0]), slope))
    return _half_line(op if order(slope, ZERO) > 0 else FLIPPED[op], end)


def replaced(node: Node, name: str, value: Node) -> Node:
    """An expression with a value in place of a symbol."""
    if isinstance(node, Sym) and node.name == name:
        return value
    return Apply(node.op, tuple(replaced(arg, name, value) for arg in node.args)) if isinstance(node, Apply) else node


def _half_line(op: str, end: Node) -> Pieces:
    if op == "=":
        return (Piece(end, True, end, True),)
    if op == "!=":
        return (Piece(MINUS_INFINITY, False, end, False), Piece(end, False, INFINITY, False))
    closed = op.endswith("=")
    if op.startswith("<"):
        return (Piece(MINUS_INFINITY, False, end, closed and end != INFINITY),)
    return (Piece(end, closed and end != MINUS_INFINITY, INFINITY, False),)


def _empty(piece: Piece) -> bool:
    apart = order(piece.low, piece.high)
    return apart > 0 or (apart == 0 and not (piece.low_in and piece.high_in))


def _merged(found: Pieces) -> Pieces:
    """Ordered, without empty pieces; pieces that overlap or touch are one."""
    ordered = sorted((piece for piece in found if not _empty(piece)), key=cmp_to_key(_before))
    merged: list[Piece] = []
    for piece in ordered:
        last = merged[-1] if merged else None
        gap = order(last.high, piece.low) if last else -1
        if last is None or gap < 0 or (gap == 0 and not (last.high_in or piece.low_in)):
            merged.append(piece)
            continue
        further = order(piece.high, last.high)
        high, high_in = (piece.high, piece.high_in) if further > 0 else (last.high, last.high_in)
        if further == 0:
            high_in = last.high_in or piece.high_in
        merged[-1] = Piece(last.low, last.low_in, high, high_in)
    return tuple(merged)


def _before(one: Piece, other: Piece) -> int:
    return order(one.low, other.low) or int(other.low_in) - int(one.low_in)


def _intersection(one: Pieces, other: Pieces) -> Pieces:
    found = []
    for a in one:
        for b in other:
            low, high = order(a.low, b.low), order(a.high, b.high)
            low_in = (a.low_in and b.low_in) if low == 0 else (a.low_in if low > 0 else b.low_in)
            high_in = (a.high_in and b.high_in) if high == 0 else (a.high_in if high < 0 else b.high_in)
            piece = Piece(a.low if low >= 0 else b.low, low_in, a.high if high <= 0 else b.high, high_in)
            if not _empty(piece):
                found.append(piece)
    return _merged(tuple(found))


def _complement(found: Pieces) -> Pieces:
    rest: Pieces = LINE
    for piece in found:
        before = Piece(MINUS_INFINITY, False, piece.low, not piece.low_in and piece.low != MINUS_INFINITY)
        after = Piece(piece.high, not piece.high_in and piece.high != INFINITY, INFINITY, False)
        rest = _intersection(rest, _merged((before, after)))
    return rest


def same_pieces(one: Pieces, other: Pieces) -> bool:
    """Whether two unions of intervals are one set."""
    return len(one) == len(other) and all(
        (a.low_in, a.high_in) == (b.low_in, b.high_in) and order(a.low, b.low) == 0 == order(a.high, b.high)
        for a, b in zip(one, other, strict=True)
    )
