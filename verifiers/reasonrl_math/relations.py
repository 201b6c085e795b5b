"""Equations and inequalities: what a chain says, whether it names a value, and when two say the same."""

from reasonrl_math.cursor import EXPRESSION, negative
from reasonrl_math.numbers import ROUGH, Numeric
from reasonrl_math.sampling import proportional, same_expression
from reasonrl_math.tree import Apply, Bag, Bracket, Matrix, Node, NoValue, Quantity, Relation, Sym, Unreadable, symbols

EQUALITIES = frozenset({"=", "≈"})


def is_name(node: Node) -> bool:
    """What an equation can define: a symbol, f(x), a product of capitals (AB = 4) or a tuple of symbols."""
    if isinstance(node, Bracket):
        return all(isinstance(item, Sym) for item in node.items)
    if isinstance(node, Apply) and node.op == "*":
        return all(isinstance(arg, Sym | Apply) and is_name(arg) and _capital(arg) for arg in node.args)
    return isinstance(node, Sym) and node.name not in ("pi", "e", "inf")


def _capital(node: Node) -> bool:
    return isinstance(node, Apply) or (isinstance(node, Sym) and node.name[0].isupper())


def plain(node: Node) -> Node:
    """A chain of equations as what it says: `x = 4+7 = 11` is x = 4+7; `4+7 = 11` is its value.

    Raises:
        NoValue: the members of a chain are not one value (1 = 2 = … = 6).
    """
    if not isinstance(node, Relation) or not set(node.ops) <= EQUALITIES:
        return node
    members, ops = list(node.members), list(node.ops)
    named = is_name(members[0]) and members[0] not in members[1:]
    values = members[1:] if named else members
    if named and len(members) > 2 and _names_of_one(members):
        return Bag(tuple(Relation(("=",), (name, members[-1])) for name in members[:-1]), ",")
    if not named and len(values) == 2 and any(map(_free, values)) and not _identical(*values):
        return node  # an equation
    if not named and len(values) > 2 and _free(values[0]) and not any(map(_free, values[1:])):
        return Relation(("=",), (values[0], plain(Relation(tuple(ops[1:]), tuple(values[1:])))))  # a + b = 1 + 3 = 4
    for op, member in zip(ops[1:] if named else ops, values[1:], strict=True):
        if not (_rounds(values[0], member) if op == "≈" else _identical(values[0], member)):
            raise NoValue("a chain that does not hold")
    value = values[0] if ops[-1] == "≈" or not named else values[-1]
    return Relation(("=",), (members[0], value)) if named else values[-1 if ops[-1] == "=" else 0]


def _names_of_one(members: list[Node]) -> bool:
    """x = y = 1 gives each name its value."""
    names = members[:-1]
    return (
        len(set(names)) == len(names)
        and all(isinstance(one, Sym) and is_name(one) for one in names)
        and not _free(members[-1])
    )


def _free(node: Node) -> bool:
    return isinstance(node, EXPRESSION) and bool(symbols(node))


def _identical(one: Node, other: Node) -> bool:
    one, other = (node.value if isinstance(node, Quantity) else node for node in (one, other))
    if not (isinstance(one, EXPRESSION) and isinstance(other, EXPRESSION)):
        return one == other
    if isinstance(one, Matrix) or isinstance(other, Matrix):
        return True  # worked out in steps; the last is what is compared
    return same_expression(one, other)


def _rounds(one: Node, other: Node) -> bool:
    """Whether ≈ is fair: within one per cent."""
    one, other = (node.value if isinstance(node, Quantity) else node for node in (one, other))
    if not (isinstance(one, EXPRESSION) and isinstance(other, EXPRESSION)) or _free(one) or _free(other):
        return True
    numeric = Numeric({}, ROUGH)
    a, b = numeric(one), numeric(other)
    return bool(abs(a - b) <= abs(a) / 50)


def assigned(node: Node) -> tuple[Node, Node] | None:
    """Name and value of an equation that defines a name; None if it is something else."""
    if not isinstance(node, Relation) or node.ops not in (("=",), ("≈",)):
        return None
    name, value = node.members
    if is_name(value) and not is_name(name) and _constant(name):
        name, value = value, name  # 5 = x
    if not is_name(name):
        return None
    inside = symbols(name) if isinstance(name, EXPRESSION) else frozenset()
    return None if isinstance(value, EXPRESSION) and inside & symbols(value) else (name, value)


def _constant(node: Node) -> bool:
    return not isinstance(node, EXPRESSION) or not symbols(node)


def same_relation(one: Relation, other: Relation) -> bool:
    """Two relations say the same: one zero set up to a constant factor, for inequalities a positive one."""
    if len(one.ops) != len(other.ops):
        return False
    turned = _turned(one), _turned(other)
    if len(one.ops) > 1:
        return turned[0].ops == turned[1].ops and all(
            isinstance(a, EXPRESSION) and isinstance(b, EXPRESSION) and same_expression(a, b)
            for a, b in zip(turned[0].members, turned[1].members, strict=True)
        )
    if turned[0].ops != turned[1].ops:
        return False
    sign = proportional(_difference(turned[0]), _difference(turned[1]))
    return sign != 0 if one.ops[0] in ("=", "!=") else sign > 0


def _turned(node: Relation) -> Relation:
    """The same relation with < in place of >."""
    if not set(node.ops) <= {">", ">="}:
        return node
    ops = tuple({">": "<", ">=": "<="}[op] for op in reversed(node.ops))
    return Relation(ops, tuple(reversed(node.members)))


def _difference(node: Relation) -> Node:
    """lhs − rhs; a function's name counts as y."""
    left, right = (_as_y(member) for member in node.members)
    if not (isinstance(left, EXPRESSION) and isinstance(right, EXPRESSION)):
        raise Unreadable("a relation of collections")
    return Apply("+", (left, negative(right)))


def _as_y(node: Node) -> Node:
    return Sym("y") if isinstance(node, Sym) and node.name.endswith(")") else node


def values_of(bag: Bag) -> Bag | Bracket:
    """A list of assignments as its values: of one variable a list, of several a tuple in the order of their names."""
    found = [assigned(item) for item in bag.items]
    if found and found[0] is not None and not any(isinstance(item, Relation) for item in bag.items[1:]):
        return Bag((found[0][1], *bag.items[1:]), bag.joined)  # n = 3, 4, 5
    pairs = [pair for pair in found if pair is not None]
    if not found or len(pairs) < len(found) or not all(isinstance(name, Sym) for name, _ in pairs):
        return bag
    names = [name.name for name, _ in pairs if isinstance(name, Sym)]
    stems = {name.partition("_")[0] for name in names}
    if len(set(names)) == 1 or (len(stems) == 1 and len(pairs) > 1):
        return Bag(tuple(value for _, value in pairs), bag.joined)
    if len(set(names)) < len(names):
        return bag
    ordered = sorted(zip(names, (value for _, value in pairs), strict=True), key=lambda pair: pair[0])
    return Bracket(tuple(value for _, value in ordered), "(", ")")
