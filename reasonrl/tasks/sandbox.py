"""The jinja2 environment of templates: a sandbox in which nothing large is computed, neither at load nor on a row.

Every operation is one of four kinds, and each spends from the budget of its rendering: operators, filters and tests,
calls, and what is put out. The tree of a template is rewritten a little, for jinja2 has no hook for the rest.
"""

import functools
import inspect
import json
import re
import types
from collections.abc import Callable, Mapping
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.filters import sync_do_slice
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from reasonrl.tasks.budget import STEP, counted, spend, weigh, weighed
from reasonrl.tasks.growth import FILTERS, check_filter, check_method, check_operation

# Without those for HTML, random ones, and those that are quadratic in a text.
_NAMES = (
    "abs attr batch capitalize center count d default dictsort e escape first float format groupby indent int items "
    "join last length list lower map max min reject rejectattr replace reverse round safe select selectattr slice sort "
    "string sum title tojson trim truncate unique upper wordcount"
)
_BUILTIN = (types.BuiltinMethodType, types.MethodDescriptorType, types.ClassMethodDescriptorType)


class Sandbox(ImmutableSandboxedEnvironment):
    """A column that is not there is an error; one without a value renders as nothing."""

    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "%", "**"))

    def __init__(self) -> None:
        super().__init__(
            undefined=jinja2.StrictUndefined, keep_trailing_newline=True, finalize=_put_out, optimized=False
        )
        self.filters["slice"] = sync_do_slice  # the other one takes more than its signature says
        self.filters = {name: _spending(name, self.filters[name]) for name in _NAMES.split()}
        self.filters |= {"_counted": counted, "_weighed": weighed}
        self.tests |= {name: _spending(name, test) for name, test in dict[str, Any](self.tests).items()}
        self.globals |= {"range": range, "namespace": _Namespace}
        del self.globals["lipsum"]
        self.policies["json.dumps_function"] = _json

    def template(self, text: str) -> jinja2.Template:
        """Compile a template.

        Raises:
            jinja2.TemplateSyntaxError: it is none.
        """
        return self.from_string(_Rewriting().visit(self.parse(text)))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """`left operator right`."""
        check_operation(operator, left, right)
        return weighed(super().call_binop(context, operator, left, right))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """`obj(…)`: a method of a value, a macro, a function of jinja2."""
        arguments, named = list(args), dict(kwargs)
        spend(5 * STEP)
        weigh((arguments, named))
        if isinstance(__obj, _BUILTIN):
            owner = getattr(__obj, "__self__", None)
            if not isinstance(owner, Mapping):  # in which nothing is searched
                weigh(owner)
            check_method(__obj.__name__, owner, arguments, named)
        return weighed(super().call(__context, __obj, *arguments, **named))

    def getitem(self, obj: Any, argument: Any) -> Any:
        """`obj[argument]`, where a tuple is hashed: each place in it."""
        if isinstance(argument, tuple):
            weigh(argument)
        return super().getitem(obj, argument)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """`"…".format(…)`, field by field."""
        if super().wrap_str_format(value) is None:
            return None

        def formatted(*args: Any, **kwargs: Any) -> str:
            fields = args[0] if value.__name__ == "format_map" else kwargs
            return _Formatter(self).vformat(value.__self__, args, fields)

        return formatted


class _Namespace(Namespace):
    """Written out, it does not show what it holds, which is not weighed."""

    def __repr__(self) -> str:
        return "<namespace>"


class _Formatter(SandboxedFormatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if re.search("[0-9]{5}", format_spec):
            raise ValueError(f"{format_spec!r}: a width is a number of at most four digits")
        text = str(super().format_field(value, format_spec))
        spend(STEP + len(text))
        return text


class _Rewriting(NodeTransformer):
    """Loops count their turns; `~`, comparisons, slices, keys and the text around expressions are weighed."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.iter = _filter(node.iter, "_counted")
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _filter(nodes.List(node.nodes, lineno=node.lineno), "join")

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        node.expr = _filter(node.expr, "_weighed")
        for operand in node.ops:
            operand.expr = _filter(operand.expr, "_weighed")
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        return _filter(node, "_weighed") if isinstance(node.arg, nodes.Slice) else node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:
        self.generic_visit(node)
        node.key = _filter(node.key, "_weighed")
        return node

    def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Node:
        return nodes.Const(node.data, lineno=node.lineno)


def _filter(node: nodes.Node, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


def _spending(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter or test that spends for what it is given and for what it makes."""

    signature = inspect.signature(function) if name in FILTERS else None

    @functools.wraps(function)  # with jinja2's mark of what is passed first
    def call(*args: Any, **kwargs: Any) -> Any:
        arguments, named = list(args), dict(kwargs)
        weigh((arguments, named))
        if signature is not None:
            check_filter(name, signature, arguments, named)
        return weighed(function(*arguments, **named))

    return call


@jinja2.pass_context  # so that jinja2 puts nothing out as it loads a template
def _put_out(context: Context, value: Any) -> str:
    if value is None:
        return ""
    weigh(value)
    return str(value)


def _json(value: Any, **options: Any) -> str:
    pieces = []
    if isinstance(indent := options.get("indent"), int):
        spend(1000 * indent)  # each line has a multiple of it
    for piece in json.JSONEncoder(**options).iterencode(value):
        spend(len(piece))
        pieces.append(piece)
    return "".join(pieces)
