"""A position in a list of tokens, with the checks that every part of the parser makes."""

from collections.abc import Sequence

from reasonrl_math.tokens import Token
from reasonrl_math.tree import Apply, Matrix, Node, Num, Sym, Unreadable

EXPRESSION = (Num, Sym, Apply, Matrix)
MAX_DEPTH = 60  # of the descent; the bounds refuse far less deep brackets, this guards the rest


def negative(node: Node) -> Node:
    """The node with its sign changed."""
    return Num(-node.value) if isinstance(node, Num) else Apply("neg", (node,))


def need_expressions(*nodes: Node) -> None:
    """Refuse collections within an expression."""
    if not all(isinstance(node, EXPRESSION) for node in nodes):
        raise Unreadable("a collection within an expression")


class Cursor:
    """`at` is the position in the tokens, `bars` counts open |, `depth` the levels of the descent."""

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

    def braced(self) -> list[Token]:
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

    def deeper(self) -> None:
        """One level down.

        Raises:
            Unreadable: too many levels.
        """
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable("nested too deeply")
