"""The Jinja environment for `ragflow_lg.dsl.templates.render`, with its limits.

Runaway templates are stopped: every loop round, call, filter, test, lookup, operation and printed value is charged to
the template's `Budget`, which stops rendering when time or size runs out. The steps between two charges are small,
because no value can exceed the budget.

Importing this module imports Jinja, so it is imported only when a template is parsed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, cast

from jinja2 import Environment, Template, TemplateError, meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS
from jinja2.visitor import NodeTransformer

from ragflow_lg.base.values import JsonValue
from ragflow_lg.base.worker_tasks import SMALL_SIZE, measure
from ragflow_lg.dsl.templates.functions import (
    FILTERS,
    FUNCTIONS,
    METHODS,
    TEXT_METHODS,
    find_operand_problem,
    format_value,
    list_forbidden_methods,
)
from ragflow_lg.dsl.templates.render_budget import charge


def check(source: str) -> None:
    """Check a template without running it.

    Raises:
        TemplateError: if it has a syntax error, or calls an unknown function or method.
        SyntaxError, ValueError, RecursionError, MemoryError: if it exceeds the limits of Python's parser.
    """
    environment = _environment()
    tree = environment.parse(source)
    calls = [call.node for call in tree.find_all(nodes.Call)]
    forbidden = list_forbidden_methods()
    for callee in calls:
        if isinstance(callee, nodes.Getattr) and callee.attr in forbidden:
            raise TemplateError(f"The method {callee.attr}() is not supported")
    unknown = meta.find_undeclared_variables(tree)
    for callee in calls:
        if isinstance(callee, nodes.Name) and callee.name in unknown:
            raise TemplateError(f"There is no function {callee.name}()")
    environment.compile(tree)


def parse(source: str) -> nodes.Template:
    """Return a template's syntax tree, in which the filter ``charged`` may enclose operands.

    Raises:
        TemplateError: if it has a syntax error.
    """
    return _environment().parse(source)


@functools.lru_cache(maxsize=64)
def compile_template(source: str) -> Template:
    """Compile a template. Rendering it can raise Jinja's errors and any error from the template's own code."""
    return _environment().from_string(source)


def tokenize(source: str) -> list[tuple[str, str]]:
    """Return the kind and text of every token. The concatenated texts form an equivalent template.

    Raises:
        TemplateError: if it cannot be split into tokens.
    """
    pairs = [(kind, text) for _, kind, text in _environment().lexer.tokeniter(source, None)]
    # Jinja drops one trailing newline from a template, and would drop another one from the joined text.
    return [*pairs, ("data", "\n")] if source.endswith(("\n", "\r")) else pairs


def _with_charge(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)  # keep the marks that tell Jinja which arguments to pass
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return charge(function(*args, **kwargs))

    return wrapper


class _ChargeInserter(NodeTransformer):
    """Inserts a charge for each new or compared value, each loop round and each macro call."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:
        """Convert ``a ~ b`` to a text addition, which the sandbox checks."""
        parts: list[nodes.Expr] = [_apply_filter(self.visit(part), "string") for part in node.nodes]
        return functools.reduce(nodes.Add, parts[1:], parts[0])

    def visit_Compare(self, node: nodes.Expr) -> nodes.Expr:
        self.generic_visit(node)
        return _apply_filter(node, "charged")

    visit_List = visit_Dict = visit_Compare

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Expr:
        return self.visit_Compare(node) if node.ctx == "load" else node

    def visit_For(self, node: nodes.For | nodes.Macro | nodes.CallBlock) -> nodes.Node:
        self.generic_visit(node)
        node.body = [nodes.ExprStmt(_apply_filter(nodes.Const(None), "charged")), *node.body]
        return node

    visit_Macro = visit_CallBlock = visit_For


def _apply_filter(node: nodes.Expr, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None)


class _TextMethod:
    """A method of a text. Unlike a partial, it has no attributes, and shows no address of the process."""

    __slots__ = ("__name", "__text")

    def __init__(self, name: str, text: str) -> None:
        self.__name, self.__text = name, text

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return TEXT_METHODS[self.__name](self.__text, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<method {self.__name}>"


class _Sandbox(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return _ChargeInserter().visit(super()._parse(source, name, filename))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if problem := find_operand_problem(operator, left, right):
            raise SecurityError(problem)
        return charge(super().call_binop(context, operator, left, right))

    def getitem(self, obj: Any, argument: Any) -> Any:
        item = super().getitem(obj, argument)
        # A lookup creates nothing, but a path in a filter argument may need any number of lookups.
        charge(item if isinstance(argument, slice) else None)
        return item

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, str) and attribute in TEXT_METHODS:
            return _TextMethod(attribute, obj)
        return super().getattr(obj, attribute)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        is_value = isinstance(obj, str | list | dict | tuple | int | float)
        return super().is_safe_attribute(obj, attr, value) and (attr in METHODS or not is_value)

    def wrap_str_format(self, value: Any) -> None:
        """Disable ``format``, because a width can create text of any length."""

    def call(self, *args: Any, **kwargs: Any) -> Any:
        result = super().call(*args, **kwargs)
        # A view counts as one entry, but values may contain it many times.
        is_view = isinstance(result, KeysView | ValuesView | ItemsView)
        return charge(list(cast("Iterable[Any]", result)) if is_view else result)

    @staticmethod
    def concat(pieces: Iterable[str]) -> str:
        """Join the output of a block or a macro."""
        return "".join(charge(list(pieces)))


@functools.lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = _Sandbox(autoescape=False, finalize=format_value, optimized=False)
    environment.filters = {name: _with_charge(function) for name, function in FILTERS.items()}
    environment.tests = {name: _with_charge(function) for name, function in TESTS.items()}
    globals_ = cast("dict[str, Any]", environment.globals)
    globals_.clear()
    globals_.update(FUNCTIONS)
    return environment


MAX_STEPS = 20_000
"""Maximum number of syntax nodes that are evaluated, loops included, which takes about ten milliseconds."""

_LINEAR_NODES = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.Const, nodes.Name, nodes.Getattr, nodes.Getitem),
    *(nodes.If, nodes.CondExpr, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Test),
    *(nodes.For, nodes.ExprStmt, nodes.Filter, nodes.List, nodes.Tuple),
)
"""Syntax whose cost is bounded by the size of the values. It cannot multiply, assign, call or repeat without a list."""

_LINEAR_FILTERS = frozenset(
    (
        *("capitalize", "charged", "count", "d", "default", "e", "escape", "first", "float", "int", "last", "length"),
        *("list", "lower", "safe", "string", "title", "tojson", "upper"),
    )
)
_LINEAR_TESTS = frozenset(
    (
        *("boolean", "defined", "eq", "equalto", "false", "float", "integer", "iterable", "mapping", "ne", "none"),
        *("number", "sequence", "string", "true", "undefined"),
    )
)


def is_cheap(source: str, values: Mapping[str, JsonValue]) -> bool:
    """Return whether rendering takes at most a few milliseconds. ``source`` is the template's Jinja source."""
    steps = _count_steps(source)
    if steps is None or measure(values, SMALL_SIZE) > SMALL_SIZE:
        return False
    fixed, in_loops = steps
    return fixed + in_loops * measure(values, SMALL_SIZE) <= MAX_STEPS if in_loops else fixed <= MAX_STEPS


@functools.lru_cache(maxsize=256)
def _count_steps(source: str) -> tuple[int, int] | None:
    """Return the number of syntax nodes outside and inside of loops; None if the cost is not linear.

    An invalid template costs nothing, because it is not rendered.
    """
    try:
        tree = parse(source)
    except (TemplateError, MemoryError, RecursionError, SyntaxError, ValueError):
        return 0, 0
    fixed = in_loops = 0
    for node, depth in _walk(tree, 0):
        if depth > 1 or not _is_linear(node):
            return None
        if depth:
            in_loops += 1
        else:
            fixed += 1
    return fixed, in_loops


def _walk(node: nodes.Node, depth: int) -> Iterator[tuple[nodes.Node, int]]:
    """Yield each node with the number of loops around it; a loop counts as inside of itself."""
    depth += isinstance(node, nodes.For)
    yield node, depth
    for child in node.iter_child_nodes():
        yield from _walk(child, depth)


def _is_linear(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Filter):
        return node.name in _LINEAR_FILTERS
    if isinstance(node, nodes.Test):
        return node.name in _LINEAR_TESTS
    return isinstance(node, _LINEAR_NODES)
