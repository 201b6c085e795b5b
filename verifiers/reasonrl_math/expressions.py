r"""Recursive descent over the tokens of one expression: sums, products, powers, functions of the allow-list.

Brackets, sets and matrices are read by the subclass in `parse.py`. Implicit products bind as written products do; a
number directly after another factor is no product ("2 3" is not 6).
"""

import re
from collections.abc import Sequence
from fractions import Fraction

from reasonrl_math.tokens import FUNCTIONS, Token
from reasonrl_math.tree import Apply, Matrix, Node, NoValue, Num, Sym, Unreadable

GREEK = frozenset(
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho sigma tau phi "
    "varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega ell".split()
)
TRIGONOMETRIC = frozenset("sin cos tan cot sec csc".split())
OPENING = {"lfloor": ("rfloor", "floor"), "lceil": ("rceil", "ceil")}
STARTS = FUNCTIONS | GREEK | {"frac", "binom", "pi", "infty", "lfloor", "lceil", "abs", "begin", "sum", "prod"}
MAX_DEPTH = 60  # of the descent; the bounds refuse far less deep brackets, this guards the rest
MAX_FACTORS = 100  # of one product: the tree is as deep
EXPRESSION = (Num, Sym, Apply, Matrix)
INTEGER = re.compile(r"\d+")


def negative(node: Node) -> Node:
    """The node with its sign changed."""
    return Num(-node.value) if isinstance(node, Num) else Apply("neg", (node,))


class Expressions:
    """Reads expressions; `at` is the position in the tokens."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = list(tokens)
        self.at = 0
        self.bars = 0  # open |
        self.depth = 0

    @property
    def token(self) -> Token:
        """The token that is next."""
        return self.tokens[self.at]

    def next(self) -> Token:
        """Take the next token."""
        token = self.tokens[self.at]
        self.at += token.kind != "end"
        return token

    def here(self, *texts: str) -> bool:
        """Whether a symbol or command is next."""
        return self.token.kind in ("symbol", "command") and self.token.text in texts

    def take(self, *texts: str) -> bool:
        """Take a symbol or command if it is next."""
        if self.here(*texts):
            self.next()
            return True
        return False

    def need(self, text: str) -> None:
        """Take a symbol or command that must be next."""
        if not self.take(text):
            raise Unreadable(f"{text!r} is missing before {self.token.text!r}")

    def sum(self) -> Node:
        """term ± term …"""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable("nested too deeply")
        terms = [self.signed()]
        while self.here("+", "-", "pm", "mp"):
            sign = self.next().text
            right = self.product()
            self._check(terms[-1], right)
            if sign in ("pm", "mp"):
                left = terms[0] if len(terms) == 1 else Apply("+", tuple(terms))
                terms = [Apply("pm", (left, right if sign == "pm" else negative(right)))]
            else:
                terms.append(right if sign == "+" else negative(right))
        self.depth -= 1
        return terms[0] if len(terms) == 1 else Apply("+", tuple(terms))

    def signed(self) -> Node:
        """A term with the signs before it."""
        if self.take("-"):
            node = self.signed()
            self._check(node)
            return negative(node)
        if self.take("+"):
            return self.signed()
        if self.take("pm", "mp"):
            node = self.product()
            self._check(node)
            return Apply("pm", (node,))
        return self.product()

    def product(self) -> Node:
        """factor · factor / factor …, with and without signs between them."""
        node = self.power()
        for _ in range(MAX_FACTORS):
            if self.here("*", "/"):
                op = self.next().text
                right = self.factor_with_sign()
            elif self.starts_factor():
                if self.token.kind == "number" and self.tokens[self.at - 1].text not in (")", "}"):
                    raise Unreadable("a number directly after a factor")
                op, right = "*", self.power()
            else:
                return node
            self._check(node, right)
            if isinstance(node, Num) and isinstance(right, Num) and op == "/" and right.value:
                node = Num(node.value / right.value)
            else:
                node = Apply(op, (node, right))
        raise NoValue("too many factors")

    def factor_with_sign(self) -> Node:
        """A factor after an operator, which may have a sign."""
        if self.take("-"):
            return negative(self.factor_with_sign())
        return self.factor_with_sign() if self.take("+") else self.power()

    def starts_factor(self) -> bool:
        """Whether what is next can be multiplied with what stands before it."""
        if self.token.kind in ("letter", "number"):
            return True
        if self.token.kind == "command":
            return self.token.text in STARTS
        return self.here("(", "{", "[") or (self.here("|") and not self.bars)

    def power(self) -> Node:
        """A primary with what follows it: powers, factorials, percent signs, degrees, primes."""
        node = self.primary()
        while True:
            if self.take("^"):
                node = self._raised(node)
            elif self.take("!"):
                self._check(node)
                double = self.take("!")
                node = Apply("factorial2" if double else "factorial", (node,))
            elif self.take("%"):
                self._check(node)
                node = Num(node.value / 100) if isinstance(node, Num) else Apply("/", (node, Num(Fraction(100))))
            elif self.take("circ"):
                node = Apply("deg", (node,))
            elif self.here("'") and isinstance(node, Sym):
                self.next()
                node = Sym(node.name + "'")
            else:
                return node

    def _raised(self, node: Node) -> Node:
        self._check(node)
        closing = self.at
        if self.take("circ"):
            return Apply("deg", (node,))
        if self.take("{"):
            if self.take("circ"):
                self.need("}")
                return Apply("deg", (node,))
            self.at = closing
        return Apply("^", (node, self.exponent()))

    def exponent(self) -> Node:
        """What stands after ^: a group, a signed number or letter, a power of powers to the right."""
        if self.take("-"):
            return negative(self.exponent())
        self.take("+")
        node = self.group() if self.here("{") else self.primary(mixed=False)
        while self.here("^"):
            self.next()
            node = Apply("^", (node, self.exponent()))
        self._check(node)
        return node

    def group(self) -> Node:
        """An expression in braces."""
        self.need("{")
        node = self.sum()
        self.need("}")
        self._check(node)
        return node

    def argument(self) -> Node:
        r"""The argument of a command: a group or one token; of a number one digit (`\frac12` is a half)."""
        if self.here("{"):
            return self.group()
        if self.token.kind == "number":
            digits = self.token.text
            if len(digits) == 1 or "." in digits:
                self.next()
                return Num(Fraction(digits))
            self.tokens[self.at] = Token("number", digits[1:])
            return Num(Fraction(digits[0]))
        return self.primary()

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

    def bracket(self, opened: str) -> Node:
        """What a bracket opens; read by the subclass."""
        raise NotImplementedError

    def matrix(self) -> Node:
        r"""What `\\begin` opens; read by the subclass."""
        raise NotImplementedError

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
        digits = "".join(token.text for token in self._braced())
        if not point or not digits.isdigit():
            raise Unreadable("a bar over something else than decimals")
        top = int(whole + fixed + digits) - int((whole + fixed) or "0")
        return Num(Fraction(top, int("9" * len(digits) + "0" * len(fixed))))

    def _braced(self) -> list[Token]:
        """The tokens of a group, or one token."""
        if not self.take("{"):
            return [self.next()]
        start, depth = self.at, 1
        while depth:
            token = self.next()
            if token.kind == "end":
                raise Unreadable("a brace is never closed")
            depth += (token.text == "{") - (token.text == "}")
        return self.tokens[start : self.at - 1]

    def symbol(self, name: str) -> Node:
        """A letter with its subscript, which may stand after its exponent, or a function of simple arguments."""
        raised = None
        if self.here("^") and "_" in [token.text for token in self.tokens[self.at + 1 : self.at + 5]]:
            back = self.at
            self.next()
            inside = self._braced()
            if self.here("_"):
                raised = inside
            else:
                self.at = back
        if self.take("_"):
            name += "_" + "".join(token.text for token in self._braced()).replace(" ", "")
        elif name in ("f", "g", "h", "F", "G", "H", "P", "Q") or self._names_a_function():
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
        self._check(node)
        return (node,)

    @staticmethod
    def _check(*nodes: Node) -> None:
        if not all(isinstance(node, EXPRESSION) for node in nodes):
            raise Unreadable("a collection within an expression")


def _in_radians(node: Node) -> Node:
    if not isinstance(node, Apply):
        return node
    args = tuple(_in_radians(arg) for arg in node.args)
    if node.op == "deg":
        return Apply("*", (args[0], Apply("/", (Sym("pi"), Num(Fraction(180))))))
    return Apply(node.op, args)
