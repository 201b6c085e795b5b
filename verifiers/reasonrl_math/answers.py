r"""Reads the tokens of a whole answer: lists, tuples, sets, intervals, relations, ratios, matrices, units."""

from fractions import Fraction

from reasonrl_math.cursor import EXPRESSION, negative
from reasonrl_math.expressions import Expressions
from reasonrl_math.tokens import Token
from reasonrl_math.tree import (
    Apply,
    Bag,
    Bracket,
    Dots,
    Matrix,
    Node,
    NoValue,
    Num,
    Quantity,
    Ratio,
    Relation,
    Sym,
    Unreadable,
)  # fmt: skip
from reasonrl_math.units import SYMBOLS, magnitude

RELATIONS = {
    "=": "=", "approx": "≈", "<": "<", "leq": "<=", ">": ">", "geq": ">=", "neq": "!=", "in": "in",
}  # fmt: skip
SETS = {"R": "reals", "Z": "integers", "N": "naturals", "Q": "rationals", "C": "complexes"}
SET_OPERATIONS = {"cup": "cup", "cap": "cap", "setminus": "minus"}
CURRENCY = frozenset("$€£¥")


class Answers(Expressions):
    """Reads answers; `letters_are_units` reads a bare single letter after a number as a unit ("15 m")."""

    def __init__(self, tokens: list[Token], letters_are_units: bool = False) -> None:
        super().__init__(tokens)
        self.letters_are_units = letters_are_units

    def answer(self) -> Node:
        """The whole text."""
        node = self.items("end")
        if self.token.kind != "end":
            raise Unreadable(f"{self.token.text!r} is left over")
        return node

    def items(self, context: str) -> Node:
        """item, item; item or item: one node if there is one item, else a bag, of bags where ; parts groups."""
        groups: list[list[Node]] = [[self.item(context)]]
        joined = ""
        while True:
            separator = self._separator()
            if separator is None:
                break
            joined = separator if separator != "," or not joined else joined
            if separator == ";":
                groups.append([])
            groups[-1].append(self.item(context))
        if len(groups) > 1 and any(len(group) > 1 for group in groups):
            return Bag(tuple(Bag(tuple(group), ",") if len(group) > 1 else group[0] for group in groups), ";")
        items = [item for group in groups for item in group]
        return items[0] if len(items) == 1 else Bag(tuple(items), joined.replace(";", ","))

    def _separator(self) -> str | None:
        if self.here(",", ";"):
            text = self.next().text
            word = self._joining_word()
            return word or text
        return self._joining_word()

    def _joining_word(self) -> str | None:
        if (self.token.kind == "text" and self.token.text in ("and", "or")) or self.here("and", "or"):
            return self.next().text
        return None

    def item(self, context: str) -> Node:
        """A relation, a ratio or a value."""
        if self.here("ldots"):
            self.next()
            return Dots()
        if self.token.kind == "text" and self.tokens[self.at + 1].text in ("=", ":", "approx"):
            self.at += 2  # \text{Area} = 5
        members = [self.value()]
        if self.here("ldots") and isinstance(members[0], Num):
            raise NoValue("digits that go on")
        if self._is_ratio(context):
            while self._is_ratio(context):
                self.next()
                members.append(self.value())
            return Ratio(tuple(members), clock=False)
        ops = []
        while self.token.text in RELATIONS and self.token.kind != "text":
            ops.append(RELATIONS[self.next().text])
            members.append(self.value())
        if "in" in ops:
            if ops != ["in"] or not isinstance(members[0], Sym):
                raise Unreadable("a membership of something else than a symbol")
            return members[1]
        return Relation(tuple(ops), tuple(members)) if ops else members[0]

    def _is_ratio(self, context: str) -> bool:
        return context == "end" and (self.here(":") or (self.token.kind, self.token.text) == ("text", "to"))

    def value(self) -> Node:
        """An expression, a bracket or sets joined by ∪ ∩ ∖, with a magnitude and a unit."""
        currency = self.next().text if self.here(*CURRENCY) else None
        if self.here("-") and self.tokens[self.at + 1].text in CURRENCY and currency is None:
            self.at += 1
            node = self.value()
            return _times(node, Fraction(-1))
        node = self.sum()
        while self.here(*SET_OPERATIONS):
            node = Apply(SET_OPERATIONS[self.next().text], (node, self.sum()))
        if isinstance(node, Apply) and _has_degrees(node):
            node = Quantity(_without_degrees(node), "°")
        if self.token.kind == "text" and (factor := magnitude(self.token.text)):
            self.next()
            node = _times(node, Fraction(factor))
        unit = currency or self._unit(node)
        if currency is not None:
            self._unit(node)
        return Quantity(node, unit) if unit and isinstance(node, EXPRESSION) else node

    def _unit(self, node: Node) -> str | None:
        """The words of a unit after a value, one text: "cm^2", "km/h", "square feet"; a label such as "apples"."""
        if not isinstance(node, EXPRESSION):
            return None
        words: list[str] = []
        while True:
            if self.token.kind == "text" and self.token.text not in ("and", "or", "to"):
                words.append(self.next().text)
                continue
            if (
                (self.here(*CURRENCY) and not words)
                or self._letter_unit(words)
                or self.here("min")
                or (words and self.here("/"))
            ):
                words.append(self.next().text)
            elif words and self.here("^"):
                self.next()
                words[-1] += "^" + "".join(token.text for token in self.braced())
            else:
                return " ".join(words) or None

    def _letter_unit(self, words: list[str]) -> bool:
        if self.token.kind != "letter":
            return False
        return bool(words and words[-1] == "/") or self.letters_are_units

    def starts_factor(self) -> bool:
        """As in expressions, but a bare letter or "min" after a number may be a unit."""
        if self.here("min") and self.tokens[self.at + 1].kind in ("end", "text"):
            return False
        if self.letters_are_units and self.token.kind == "letter" and self.token.spaced and self.token.text in SYMBOLS:
            return self.tokens[self.at + 1].kind != "end"
        return super().starts_factor()

    def bracket(self, opened: str) -> Node:
        """A group, a tuple, an interval or a set."""
        depth = self.depth
        self.deeper()
        bars, self.bars = self.bars, 0
        if opened in ("{", "{set") and self.take("}", "}set"):
            node: Node = Bag((), "{}")
        else:
            node = self._filled(opened)
        self.depth, self.bars = depth, bars
        return node

    def _filled(self, opened: str) -> Node:
        if opened == "{set" and (node := self._set_builder()):
            return node
        node = self.items("bracket")
        closed = self.next()
        if closed.kind != "symbol" or closed.text not in (")", "]", "}", "}set"):
            raise Unreadable(f"a bracket closed by {closed.text!r}")
        items = node.items if isinstance(node, Bag) and node.joined != "{}" else (node,)
        if opened in ("{", "{set"):
            if closed.text not in ("}", "}set"):
                raise Unreadable("a brace closed by a bracket")
            group = opened == "{" and not (isinstance(node, Bag) and node.joined != "{}")
            return node if group else Bag(items, "{}")
        if closed.text in ("}", "}set"):
            raise Unreadable("a bracket closed by a brace")
        if len(items) == 1 and (opened, closed.text) in (("(", ")"), ("[", "]")):
            return items[0]
        return Bracket(items, opened, closed.text)

    def _set_builder(self) -> Node | None:
        r"""`\{x \mid x > 0\}` is what follows the bar."""
        ahead = [token.text for token in self.tokens[self.at : self.at + 8]]
        bar = next((place for place, text in enumerate(ahead) if text in ("|", ":")), None)
        if bar is None or self.token.kind != "letter" or (bar != 1 and ahead[1] != "in"):
            return None
        self.at += bar + 1
        node = self.items("bracket")
        self.need("}set")
        return node

    def matrix(self) -> Node:
        r"""`\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}`."""
        name = "".join(token.text for token in self.braced())
        if name.rstrip("*") not in ("matrix", "pmatrix", "bmatrix", "array", "smallmatrix", "Bmatrix"):
            raise Unreadable(f"the environment {name!r}")
        if name == "array" and self.here("{"):
            self.braced()
        rows: list[list[Node]] = [[]]
        while not self.take("end"):
            if self.take("newline"):
                rows.append([])
            elif not self.take("&"):
                rows[-1].append(self.sum())
        self.braced()
        filled = [tuple(row) for row in rows if row]
        if not filled or len({len(row) for row in filled}) != 1:
            raise Unreadable("rows of different lengths")
        return Matrix(tuple(filled))

    def _command(self, name: str) -> Node:
        if name == "mathbb":
            letter = "".join(token.text for token in self.braced())
            if letter == "R" and (half := self._half_line()):
                return half
            if letter in SETS:
                return Apply(SETS[letter], ())
        if name == "emptyset":
            return Bag((), "{}")
        return super()._command(name)

    def _half_line(self) -> Node | None:
        r"""`\mathbb{R}^+` and `\mathbb{R}_{+}`."""
        after = [token.text for token in self.tokens[self.at : self.at + 4]]
        if after[:1] not in (["^"], ["_"]):
            return None
        sign = after[2] if after[1:2] == ["{"] and after[3:] == ["}"] else after[1]
        if sign not in ("+", "-"):
            return None
        self.at += 4 if after[1] == "{" else 2
        zero, infinity = Num(Fraction(0)), Sym("inf")
        return Bracket((zero, infinity) if sign == "+" else (negative(infinity), zero), "(", ")")


def _times(node: Node, factor: Fraction) -> Node:
    if isinstance(node, Quantity):
        return Quantity(_times(node.value, factor), node.unit)
    return Num(node.value * factor) if isinstance(node, Num) else Apply("*", (Num(factor), node))


def _has_degrees(node: Node) -> bool:
    return isinstance(node, Apply) and (node.op == "deg" or any(map(_has_degrees, node.args)))


def _without_degrees(node: Node) -> Node:
    if not isinstance(node, Apply):
        return node
    return (
        _without_degrees(node.args[0]) if node.op == "deg" else Apply(node.op, tuple(map(_without_degrees, node.args)))
    )
