"""The Jinja environment of `ragflow_lg.templates.render`: what a template may do, and how much of it.

What stops a runaway: every round of a loop, call, filter, test, look-up, operation and printed value is charged to
the `Budget` of its rendering, which ends it when time or size runs out. Each single step between two charges
is small, because nothing is made that is larger than the budget.

Importing this module imports Jinja, so it is imported only where a template is read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, ItemsView, Iterable, KeysView, ValuesView
from typing import Any, cast

from jinja2 import Environment, Template, TemplateError, meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS
from jinja2.visitor import NodeTransformer

from ragflow_lg.templates.functions import (
    FILTERS,
    FUNCTIONS,
    METHODS,
    TEXT_METHODS,
    find_operand_problem,
    format_value,
    list_forbidden_methods,
)
from ragflow_lg.templates.render_budget import charge

__all__ = ["check", "compile_template", "tokenize"]


def check(source: str) -> None:
    """Read a template without running it.

    Raises:
        TemplateError: if it has an error, or surely calls what there is not.
        SyntaxError, ValueError, RecursionError, MemoryError: if it is more than Python can read.
    """
    environment = _environment()
    tree = environment.parse(source)
    calls = [call.node for call in tree.find_all(nodes.Call)]
    refused = list_forbidden_methods()
    for called in calls:
        if isinstance(called, nodes.Getattr) and called.attr in refused:
            raise TemplateError(f"The method {called.attr}() is not offered")
    unknown = meta.find_undeclared_variables(tree)
    for called in calls:
        if isinstance(called, nodes.Name) and called.name in unknown:
            raise TemplateError(f"There is no function {called.name}()")
    environment.compile(tree)


@functools.lru_cache(maxsize=64)
def compile_template(source: str) -> Template:
    """Give a template ready to run. Its errors are Jinja's, and whatever running the code of a template raises."""
    return _environment().from_string(source)


def tokenize(source: str) -> list[tuple[str, str]]:
    """Give the kind and the text of every token; joined, the texts are a template of the same meaning.

    Raises:
        TemplateError: if it cannot be split into tokens.
    """
    found = [(kind, text) for _, kind, text in _environment().lexer.tokeniter(source, None)]
    # Jinja leaves out one line end at the end of a template, and would leave out another one of what is joined.
    return [*found, ("data", "\n")] if source.endswith(("\n", "\r")) else found


def _charging(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)  # keeps the marks by which Jinja knows what to hand over
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return charge(function(*args, **kwargs))

    return wrapper


class _Charging(NodeTransformer):
    """Puts a charge on what makes or compares values, and on each round of a loop and each run of a macro."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:
        """Read ``a ~ b`` as an addition of texts, which the sandbox checks."""
        parts: list[nodes.Expr] = [_filtered(self.visit(part), "string") for part in node.nodes]
        return functools.reduce(nodes.Add, parts[1:], parts[0])

    def visit_Compare(self, node: nodes.Expr) -> nodes.Expr:
        self.generic_visit(node)
        return _filtered(node, "charged")

    visit_List = visit_Dict = visit_Compare

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Expr:
        return self.visit_Compare(node) if node.ctx == "load" else node

    def visit_For(self, node: nodes.For | nodes.Macro | nodes.CallBlock) -> nodes.Node:
        self.generic_visit(node)
        node.body = [nodes.ExprStmt(_filtered(nodes.Const(None), "charged")), *node.body]
        return node

    visit_Macro = visit_CallBlock = visit_For


def _filtered(node: nodes.Expr, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None)


class _Sandbox(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return _Charging().visit(super()._parse(source, name, filename))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if problem := find_operand_problem(operator, left, right):
            raise SecurityError(problem)
        return charge(super().call_binop(context, operator, left, right))

    def getitem(self, obj: Any, argument: Any) -> Any:
        found = super().getitem(obj, argument)
        # A look-up makes nothing, but a path given to a filter may have any number of them.
        charge(found if isinstance(argument, slice) else None)
        return found

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, str) and attribute in TEXT_METHODS:
            return functools.partial(TEXT_METHODS[attribute], obj)
        return super().getattr(obj, attribute)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        is_value = isinstance(obj, str | list | dict | tuple | int | float)
        return super().is_safe_attribute(obj, attr, value) and (attr in METHODS or not is_value)

    def wrap_str_format(self, value: Any) -> None:
        """Offer no ``format``: a width in it makes a text of any length."""

    def call(self, *args: Any, **kwargs: Any) -> Any:
        made = super().call(*args, **kwargs)
        # A view counts as one entry, and may be held many times.
        is_view = isinstance(made, KeysView | ValuesView | ItemsView)
        return charge(list(cast("Iterable[Any]", made)) if is_view else made)

    @staticmethod
    def concat(pieces: Iterable[str]) -> str:
        """Join what a block or a macro has printed."""
        return "".join(charge(list(pieces)))


@functools.lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = _Sandbox(autoescape=False, finalize=format_value, optimized=False)
    environment.filters = {name: _charging(function) for name, function in FILTERS.items()}
    environment.tests = {name: _charging(function) for name, function in TESTS.items()}
    globals_ = cast("dict[str, Any]", environment.globals)
    globals_.clear()
    globals_.update(FUNCTIONS)
    return environment
