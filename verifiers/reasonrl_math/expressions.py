r"""Recursive descent over the tokens of one expression: sums, products and powers.

Implicit products bind as written products do; a number directly after another factor is no product ("2 3" is not 6).
"""

from fractions import Fraction

from reasonrl_math.cursor import need_expressions, negative
from reasonrl_math.primaries import STARTS, Primaries
from reasonrl_math.tokens import Token
from reasonrl_math.tree import Apply, Node, NoValue, Num, Sym, Unreadable

MAX_FACTORS = 100  # of one product: the tree is as deep


class Expressions(Primaries):
    """Reads expressions."""

    def sum(self) -> Node:
        """term ± term …"""
        self.deeper()
        terms = [self.signed()]
        while self.here("+", "-", "pm", "mp"):
            sign = self.next().text
            right = self.signed()
            need_expressions(terms[-1], right)
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
            need_expressions(node)
            return negative(node)
        if self.take("+"):
            return self.signed()
        if self.take("pm", "mp"):
            node = self.product()
            need_expressions(node)
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
                if self.token.kind == "number" and self.tokens[self.at - 1].text not in (")", "}", "!"):
                    raise Unreadable("a number directly after a factor")
                op, right = "*", self.power()
            else:
                return node
            need_expressions(node, right)
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
                need_expressions(node)
                double = self.take("!")
                node = Apply("factorial2" if double else "factorial", (node,))
            elif self.take("%"):
                need_expressions(node)
                node = Num(node.value / 100) if isinstance(node, Num) else Apply("/", (node, Num(Fraction(100))))
            elif self.take("circ"):
                node = Apply("deg", (node,))
            elif self.here("'") and isinstance(node, Sym):
                self.next()
                node = Sym(node.name + "'")
            else:
                return node

    def _raised(self, node: Node) -> Node:
        need_expressions(node)
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
        need_expressions(node)
        return node

    def group(self) -> Node:
        """An expression in braces."""
        self.need("{")
        node = self.sum()
        self.need("}")
        need_expressions(node)
        return node

    def argument(self) -> Node:
        r"""The argument of a command: a group or one token; of a number one digit (`\frac12` is a half)."""
        if self.here("{"):
            return self.group()
        if self.token.kind == "number":
            digits = self.token.text
            if digits == ".":
                raise Unreadable("a point without digits")
            if len(digits) == 1 or "." in digits:
                self.next()
                return Num(Fraction(digits))
            self.tokens[self.at] = Token("number", digits[1:])
            return Num(Fraction(digits[0]))
        return self.primary()
