"""Matrices: sums, multiples and products worked out entry by entry; entries stay expressions."""

from fractions import Fraction

from reasonrl_math.tree import Apply, Matrix, Node, Num, Unreadable

MAX_ENTRIES = 100
Rows = tuple[tuple[Node, ...], ...]


def has_matrix(node: Node) -> bool:
    """Whether an expression has a matrix in it."""
    return isinstance(node, Matrix) or (isinstance(node, Apply) and any(map(has_matrix, node.args)))


def entries(node: Node) -> Rows:
    """The rows of an expression of matrices.

    Raises:
        Unreadable: an operation that is not defined, or too many entries.
    """
    if isinstance(node, Matrix):
        if len(node.rows) * len(node.rows[0]) > MAX_ENTRIES:
            raise Unreadable("a matrix of too many entries")
        return node.rows
    if not isinstance(node, Apply):
        raise Unreadable("a number where a matrix is needed")
    if node.op == "neg":
        return _scaled(Num(Fraction(-1)), entries(node.args[0]))
    if node.op == "+":
        total = entries(node.args[0])
        for term in node.args[1:]:
            total = _added(total, entries(term))
        return total
    if node.op == "/" and not has_matrix(node.args[1]):
        return _scaled(Apply("/", (Num(Fraction(1)), node.args[1])), entries(node.args[0]))
    if node.op == "*":
        return _product(*node.args)
    raise Unreadable(f"{node.op} of matrices")


def _scaled(factor: Node, rows: Rows) -> Rows:
    return tuple(tuple(Apply("*", (factor, entry)) for entry in row) for row in rows)


def _added(one: Rows, other: Rows) -> Rows:
    if (len(one), len(one[0])) != (len(other), len(other[0])):
        raise Unreadable("a sum of matrices of different shapes")
    return tuple(
        tuple(Apply("+", pair) for pair in zip(left, right, strict=True))
        for left, right in zip(one, other, strict=True)
    )


def _product(one: Node, other: Node) -> Rows:
    if not has_matrix(one):
        return _scaled(one, entries(other))
    if not has_matrix(other):
        return _scaled(other, entries(one))
    left, right = entries(one), entries(other)
    if len(left[0]) != len(right) or len(left) * len(right[0]) * len(right) > MAX_ENTRIES:
        raise Unreadable("a product of matrices that do not fit")
    columns = list(zip(*right, strict=True))
    return tuple(
        tuple(Apply("+", tuple(Apply("*", pair) for pair in zip(row, column, strict=True))) for column in columns)
        for row in left
    )
