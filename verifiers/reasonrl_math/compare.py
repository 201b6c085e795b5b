"""Whether two trees are equal answers: one function per kind, chosen by what the two are."""

from fractions import Fraction

from reasonrl_math.cursor import EXPRESSION
from reasonrl_math.matrices import entries, has_matrix
from reasonrl_math.numbers import rational
from reasonrl_math.realsets import is_set_of_reals, pieces, same_pieces
from reasonrl_math.relations import assigned, plain, same_relation, values_of
from reasonrl_math.sampling import same_expression
from reasonrl_math.tree import (
    Apply,
    Bag,
    Based,
    Bracket,
    Dots,
    Node,
    Num,
    Quantity,
    Ratio,
    Relation,
    Sym,
    Words,
    symbols,
)  # fmt: skip
from reasonrl_math.units import dimension, same_label

MAX_ITEMS = 200


def same(reference: Node, answer: Node) -> tuple[bool, str]:
    """Whether an answer equals the reference, and the rule that decided.

    Raises:
        NoValue: one of them is undefined, too large, or a chain that does not hold.
        Unreadable: the two are of kinds that cannot be compared here.
    """
    one, other = _opened(reference), _opened(answer)
    if isinstance(one, Based) or isinstance(other, Based):
        return one == other, "bases"
    if is_set_of_reals(one) or is_set_of_reals(other):
        left, right = pieces(one), pieces(other)
        if left is not None and right is not None:
            return same_pieces(left, right), "intervals"
    if isinstance(one, Relation) or isinstance(other, Relation):
        return _same_relations(one, other), "equations"
    if isinstance(one, Quantity) or isinstance(other, Quantity):
        return _same_quantities(one, other), "units"
    if isinstance(one, Ratio) or isinstance(other, Ratio):
        return _same_ratios(one, other), "ratios"
    if isinstance(one, Bag | Bracket) or isinstance(other, Bag | Bracket):
        return _same_collections(one, other), "lists"
    if isinstance(one, Words | Dots) or isinstance(other, Words | Dots):
        return one == other, "words"
    return _same_expressions(one, other)


def _same(one: Node, other: Node) -> bool:
    return same(one, other)[0]


def _opened(node: Node) -> Node:
    """A chain as its value, a set of one as its element, ± as its two values, unions of finite sets as one set."""
    node = plain(node)
    if isinstance(node, Relation) and (pair := assigned(node)) and has_sign(pair[1]):
        node = pair[1]
    if isinstance(node, Apply) and node.op == "cup" and (finite := _finite_union(node)) is not None:
        return finite
    if isinstance(node, Quantity) and has_sign(node.value):
        return Bag(tuple(Quantity(value, node.unit) for value in both_signs(node.value)), "or")
    if isinstance(node, Apply) and has_sign(node):
        return Bag(both_signs(node), "or")
    if isinstance(node, Bag):
        items = [item for one in node.items for item in _members(one)]
        node = Bag(tuple(items), node.joined)
        nested = len(items) == 1 and isinstance(items[0], Bag) and items[0].joined == node.joined == "{}"
        return _opened(items[0]) if len(items) == 1 and not nested else node
    return node


def _members(item: Node) -> tuple[Node, ...]:
    """The items that an item of a list stands for."""
    if isinstance(item, Relation) and (pair := assigned(item)) and has_sign(pair[1]):
        return tuple(Relation(("=",), (pair[0], value)) for value in both_signs(pair[1]))
    return both_signs(item) if has_sign(item) else (item,)


def _finite_union(node: Node) -> Bag | None:
    if isinstance(node, Bag) and node.joined == "{}":
        return node
    if not isinstance(node, Apply) or node.op != "cup":
        return None
    left, right = map(_finite_union, node.args)
    if left is None or right is None:
        return None
    items = list(left.items)
    items += [item for item in right.items if not any(_same(item, known) for known in left.items)]
    return Bag(tuple(items), "{}")


def has_sign(node: Node) -> bool:
    """Whether there is a ± in an expression."""
    return isinstance(node, Apply) and (node.op == "pm" or any(map(has_sign, node.args)))


def both_signs(node: Node) -> tuple[Node, ...]:
    """The two values of an expression with ±; all of its signs go together."""
    return _signed(node, 1), _signed(node, -1)


def _signed(node: Node, sign: int) -> Node:
    if not isinstance(node, Apply):
        return node
    args = tuple(_signed(arg, sign) for arg in node.args)
    if node.op != "pm":
        return Apply(node.op, args)
    last = args[-1] if sign > 0 else Apply("neg", (args[-1],))
    return last if len(args) == 1 else Apply("+", (args[0], last))


def _same_relations(one: Node, other: Node) -> bool:
    left, right = (assigned(node) for node in (one, other))
    if isinstance(one, Relation) and isinstance(other, Relation):
        if left and right and (left[0] == right[0] or not isinstance(left[1], EXPRESSION)):
            return _same(left[1], right[1])
        if all(isinstance(member, EXPRESSION) for member in (*one.members, *other.members)):
            return same_relation(one, other)
        return bool(left and right and isinstance(left[0], Sym) and left[0] == right[0] and _same(left[1], right[1]))
    if isinstance(one, Relation):
        return left is not None and _same(left[1], other)
    if right is None and isinstance(other, Relation):
        return _is_measured(one, other) and _same(one, other.members[1])
    return right is not None and _same(one, right[1])


def _is_measured(reference: Node, answer: Relation) -> bool:
    """|r − s| = 16 answers 16: an expression is said to be a number. `2x + z = 0` is an equation."""
    left, value = answer.members[0], answer.members[-1]
    numbers = isinstance(reference, EXPRESSION) and not symbols(reference) and answer.ops == ("=",)
    if not (numbers and isinstance(left, EXPRESSION) and isinstance(value, EXPRESSION)) or symbols(value):
        return False
    return bool(symbols(left)) and rational(value) != 0


def _same_quantities(one: Node, other: Node) -> bool:
    if not (isinstance(one, Quantity) and isinstance(other, Quantity)):
        one, other = (node.value if isinstance(node, Quantity) else node for node in (one, other))
        return _same(one, other)
    units = dimension(one.unit), dimension(other.unit)
    if units[0] is not None and units[1] is not None:
        factors = [Num(unit[1]) for unit in units if unit is not None]
        converted = [Apply("*", (node.value, factor)) for node, factor in zip((one, other), factors, strict=True)]
        return units[0][0] == units[1][0] and _same(*converted)
    words = [node.unit.lower().split() for node in (one, other)]
    if units == (None, None) and not (same_label(one.unit, other.unit) or set(words[0]) & set(words[1])):
        return False
    return _same(one.value, other.value)


def _same_ratios(one: Node, other: Node) -> bool:
    """a : b : c up to a common factor; times of day as they stand. A ratio is no number: 1/2 is not 1 : 2."""
    if not (isinstance(one, Ratio) and isinstance(other, Ratio)) or len(one.items) != len(other.items):
        return False
    if one.clock and other.clock:
        return _times(one, other) == _times(other, one)
    crossed = [
        (Apply("*", (a, other.items[0])), Apply("*", (b, one.items[0])))
        for a, b in zip(one.items, other.items, strict=True)
    ]
    return all(_same(a, b) for a, b in crossed) and _same(*_signs(one, other))


def _times(one: Ratio, other: Ratio) -> tuple[object, ...]:
    """What a time is compared by: its half of the day only if the other has one, too; 22:30 is 10:30 p.m."""
    hour = rational(one.items[0]) or Fraction(0)
    if one.half == "p" and not other.half and (rational(other.items[0]) or 0) > 12:
        hour += 12
    return hour, one.items[1:], one.half if other.half else ""


def _signs(one: Ratio, other: Ratio) -> tuple[Node, Node]:
    zeros = [Num(Fraction(rational(ratio.items[0]) == 0)) for ratio in (one, other)]
    return zeros[0], zeros[1]


def _same_collections(one: Node, other: Node) -> bool:
    if not (isinstance(one, Bag | Bracket) and isinstance(other, Bag | Bracket)):
        return False
    if _same_lists_of_relations(one, other):
        return True
    left, right = (values_of(node) if isinstance(node, Bag) else node for node in (one, other))
    if len(left.items) != len(right.items) or len(left.items) > MAX_ITEMS:
        return False
    if any(map(_is_closed_interval, (one, other))) and isinstance(one, Bag) != isinstance(other, Bag):
        return False
    # assignments are a tuple only where the other side is one: "x = 3, y = -2" is (3, -2), and also the list 3, -2
    pairs = ((one, left), (other, right))
    assignments = [isinstance(node, Bag) and isinstance(values, Bracket) for node, values in pairs]
    if all(assignments):
        return False  # they matched above or not at all
    if isinstance(left, Bracket) and isinstance(right, Bracket):
        alike = (left.opened, left.closed) == (right.opened, right.closed)
        return (alike or any(assignments) or len(left.items) != 2) and _in_order(left.items, right.items)
    sets = [isinstance(node, Bag) and node.joined == "{}" for node in (left, right)]
    ordered = isinstance(left, Bracket) or isinstance(right, Bracket)
    if ordered and any(sets):
        return False
    if (ordered and not any(assignments)) or Dots() in (*left.items, *right.items):
        return not any(map(is_set_of_reals, (left, right))) and _in_order(left.items, right.items)
    return _matched(left.items, right.items)


def _is_closed_interval(node: Node) -> bool:
    """[1, 5] is more than its ends; [1, 5, 7] is a list."""
    return isinstance(node, Bracket) and len(node.items) == 2 and (node.opened, node.closed) == ("[", "]")


def _same_lists_of_relations(one: Bag | Bracket, other: Bag | Bracket) -> bool:
    if not any(isinstance(item, Relation) for item in one.items) or len(one.items) != len(other.items):
        return False
    return isinstance(one, Bag) and isinstance(other, Bag) and _matched(one.items, other.items)


def _in_order(one: tuple[Node, ...], other: tuple[Node, ...]) -> bool:
    return all(_same(a, b) for a, b in zip(one, other, strict=True))


def _matched(one: tuple[Node, ...], other: tuple[Node, ...]) -> bool:
    """Each item has a partner of its own."""
    left = list(other)
    for item in one:
        partner = next((place for place, candidate in enumerate(left) if _same(item, candidate)), None)
        if partner is None:
            return False
        left.pop(partner)
    return True


def _same_expressions(one: Node, other: Node) -> tuple[bool, str]:
    if has_matrix(one) or has_matrix(other):
        if not (has_matrix(one) and has_matrix(other)):
            return False, "matrices"
        rows = entries(one), entries(other)
        shapes = [(len(row), len(row[0])) for row in rows]
        return shapes[0] == shapes[1] and all(
            same_expression(a, b)
            for left, right in zip(*rows, strict=True)
            for a, b in zip(left, right, strict=True)
        ), "matrices"  # fmt: skip
    exact = all(isinstance(node, Num) for node in (one, other))
    return same_expression(one, other), "numbers" if exact else "expressions"
