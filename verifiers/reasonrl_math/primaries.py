r"""Numbers, symbols and functions of the allow-list: what an expression is made of.

`Expressions` in `expressions.py` joins them; brackets and matrices are read by `Answers` in `answers.py`.
"""

import re
from abc import ABC, abstractmethod
from fractions import Fraction

from reasonrl_math.cursor import Cursor, need_expressions
from reasonrl_math.tokens import FUNCTIONS, Token
from reasonrl_math.tree import Apply, Node, NoValue, Num, Sym, Unreadable

GREEK_NAMES = (
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho sigma tau phi "
    "varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega ell"
)
GREEK = frozenset(GREEK_NAMES.split())
TRIGONOMETRIC = frozenset({"sin", "cos", "tan", "cot", "sec", "csc"})
CALLED = frozenset("fghFGHPQ")  # letters that name a function before simple arguments
OPENING = {"lfloor": ("rfloor", "floor"), "lceil": ("rceil", "ceil")}
STARTS = FUNCTIONS | GREEK | {"frac", "binom", "pi", "infty", "lfloor", "lceil", "abs", "begin", "sum", "prod"}
INTEGER = re.compile(r"\d+")


class Primaries(Cursor, ABC):
    """Reads one primary; the sums, products and powers within it are the subclass's."""

    @abstractmethod
    def sum(self) -> Node:
        """term ± term …"""

    @abstractmethod
    def product(self) -> Node:
        """factor · factor …"""

    @abstractmethod
    def power(self) -> Node:
        """A primary with its powers."""

    @abstractmethod
    def exponent(self) -> Node:
        """What stands after ^."""

    @abstractmethod
    def argument(self) -> Node:
        """The argument of a command."""

    def primary(self, mixed: bool = True) -> Node:
        """A number, a symbol, a function or a bracket."""
        token = self.next()
        if token.kind == "number":
            return self._number(token.text, mixed)
        if token.kind == "letter":
            return self.symbol(token.text)
        if token.kind == "command":
            return self._command(token.text)
        if token.kind == "symbol" and token.text in ("(", "[", "{", "{set"):
            return self.bracket(token.text)
        if token.kind == "symbol" and token.text == "|":
            self.bars += 1
            node = self.sum()
            self.bars -= 1
            self.need("|")
            return Apply("abs", (node,))
        raise Unreadable(f"unexpected {token.text!r}")

    @abstractmethod
    def bracket(self, opened: str) -> Node:
        """What a bracket opens; read by the subclass."""

    @abstractmethod
    def matrix(self) -> Node:
        r"""What `\\begin` opens; read by the subclass."""

    def _number(self, text: str, mixed: bool) -> Node:
        if self.here("overline"):
            return self._repeating(text)
        value = Fraction(text.rstrip("."))
        if not mixed or not INTEGER.fullmatch(text):
            return Num(value)
        after = [(token.kind, token.text) for token in self.tokens[self.at : self.at + 3]]
        if self.token.spaced and [kind for kind, _ in after] == ["number", "symbol", "number"] and after[1][1] == "/":
            self.at += 3
            return self._mixed(value, Fraction(after[0][1]), Fraction(after[2][1]))
        if self.here("frac"):
            back = self.at, list(self.tokens)
            self.next()
            top, bottom = self.argument(), self.argument()
            numbers = [part.value for part in (top, bottom) if isinstance(part, Num)]
            if len(numbers) == 2 and all(number.denominator == 1 and number >= 0 for number in numbers):
                return self._mixed(value, *numbers)
            self.at, self.tokens = back
        return Num(value)

    def _mixed(self, whole: Fraction, top: Fraction, bottom: Fraction) -> Node:
        if not top < bottom:
            raise NoValue("a mixed number with an improper part")
        return Num(whole + top / bottom)

    def _repeating(self, text: str) -> Node:
        r"""`0.1\overline{6}` is (16 − 1) / 90."""
        whole, point, fixed = text.partition(".")
        self.next()
        digits = "".join(token.text for token in self.braced())
        if not point or not digits.isdigit():
            raise Unreadable("a bar over something else than decimals")
        top = int(whole + fixed + digits) - int((whole + fixed) or "0")
        return Num(Fraction(top, int("9" * len(digits) + "0" * len(fixed))))

    def symbol(self, name: str) -> Node:
        """A letter with its subscript, which may stand after its exponent, or a function of simple arguments."""
        raised = None
        if self.here("^") and "_" in [token.text for token in self.tokens[self.at + 1 : self.at + 5]]:
            back = self.at
            self.next()
            inside = self.braced()
            if self.here("_"):
                raised = inside
            else:
                self.at = back
        if self.take("_"):
            name += "_" + "".join(token.text for token in self.braced()).replace(" ", "")
        elif name in CALLED or self._names_a_function():
            name += self._called()
        node = Sym(name)
        if raised is None:
            return node
        exponent = type(self)([*raised, Token("end", "")]).sum()
        return Apply("^", (node, exponent))

    def _simple_call(self) -> int:
        """How many tokens a call of simple arguments takes, such as (x) or (2, n); 0 if it is none."""
        if not self.here("("):
            return 0
        length = 1
        while self.tokens[self.at + length].kind in ("letter", "number"):
            length += 1
            after = self.tokens[self.at + length].text
            length += 1
            if after == ")":
                return length
            if after != ",":
                return 0
        return 0

    def _names_a_function(self) -> bool:
        """p(x) = …: a letter before a call is a name if the call is what is defined."""
        length = self._simple_call()
        return length > 0 and self.tokens[self.at + length].text == "="

    def _called(self) -> str:
        length = self._simple_call()
        start, self.at = self.at, self.at + length
        return "".join(token.text for token in self.tokens[start : self.at])

    def _command(self, name: str) -> Node:
        if name == "frac":
            top = self.argument()
            bottom = self.argument()
            if isinstance(top, Num) and isinstance(bottom, Num) and bottom.value:
                return Num(top.value / bottom.value)
            return Apply("/", (top, bottom))
        if name == "binom":
            return Apply("binom", (self.argument(), self.argument()))
        if name in ("pi", "infty"):
            return Sym("pi" if name == "pi" else "inf")
        if name in GREEK:
            return self.symbol(name)
        if name in OPENING:
            closing, op = OPENING[name]
            node = self.sum()
            self.need(closing)
            return Apply(op, (node,))
        if name in ("sum", "prod"):
            return self._indexed(name)
        if name == "begin":
            return self.matrix()
        if name in FUNCTIONS or name == "abs":
            return self._function(name)
        raise Unreadable(f"the command {name!r}")

    def _indexed(self, name: str) -> Node:
        self.need("_")
        self.need("{")
        index = self.primary()
        self.need("=")
        low = self.sum()
        self.need("}")
        self.need("^")
        high = self.argument()
        if not isinstance(index, Sym):
            raise Unreadable("a sum over something else than an index")
        return Apply(name, (index, low, high, self.product()))

    def _function(self, name: str) -> Node:
        if name == "sqrt":
            index: Node = Num(Fraction(2))
            if self.take("["):
                index = self.sum()
                self.need("]")
            whole_number = self.token.kind == "number"
            return Apply("root", (self.primary(mixed=False) if whole_number else self.argument(), index))
        base = None
        if name == "log" and self.take("_"):
            base = self.argument()
        raised = self.exponent() if self.take("^") else None
        args = self._function_arguments(name)
        if name in TRIGONOMETRIC:
            args = tuple(_in_radians(arg) for arg in args)
        if raised == Num(Fraction(-1)) and name in TRIGONOMETRIC:
            return Apply(f"arc{name}", args)
        node: Node = Apply("log", (*args, base)) if base is not None else Apply("ln" if name == "log" else name, args)
        return node if raised is None else Apply("^", (node, raised))

    def _function_arguments(self, name: str) -> tuple[Node, ...]:
        """In parentheses, or the factors up to the next function, bracket or sign."""
        if self.take("("):
            if self.here("["):
                raise Unreadable("a list as an argument")
            args = [self.sum()]
            while self.take(","):
                args.append(self.sum())
            self.need(")")
            if len(args) > 1 and name not in ("max", "min", "gcd"):
                raise Unreadable(f"{name} of several arguments")
            return tuple(args)
        node = self.power()
        while self.token.kind in ("letter", "number") or self.here("pi", *GREEK) or self.here("/", "*"):
            op = self.next().text if self.here("/", "*") else "*"
            node = Apply(op, (node, self.power()))
        need_expressions(node)
        return (node,)


def _in_radians(node: Node) -> Node:
    if not isinstance(node, Apply):
        return node
    args = tuple(_in_radians(arg) for arg in node.args)
    if node.op == "deg":
        return Apply("*", (args[0], Apply("/", (Sym("pi"), Num(Fraction(180))))))
    return Apply(node.op, args)
