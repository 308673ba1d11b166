"""The Jinja environment of `ragflow_lg.templates`: what a template may do, and how much of it.

What stops a runaway: every round of a loop, call, filter, test, comparison and printed value is charged to
the `Budget` of its rendering, which ends it when time or size runs out. Each single step between two charges
is small, because nothing is made that is larger than the budget.

Importing this module imports Jinja, so it is imported only where a template is read.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import Any, cast

from jinja2 import Environment, Template, Undefined, nodes, pass_environment
from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS, make_attrgetter
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from ragflow_lg.errors import ComponentError
from ragflow_lg.values import to_text

__all__ = ["Budget", "check", "compiled", "start"]

MAX_OUTPUT_CHARS = 2_000_000
MAX_SIZE = 10_000_000
"""Most characters and entries that one rendering may make, those it throws away included."""
MAX_RANGE = 10_000
MAX_SECONDS = 2.0


class Budget:
    """What one rendering may still make, and how long it may go on."""

    def __init__(self) -> None:
        self._left = MAX_SIZE
        self._deadline = time.monotonic() + MAX_SECONDS

    def charge(self, value: object) -> None:
        """Take off the size of a value: its characters and entries, each counted as often as the value holds it.

        Raises:
            ComponentError: if nothing is left, or the time is over.
        """
        waiting = [value]
        while waiting:
            found = waiting.pop()
            self._left -= 1
            if isinstance(found, str):
                self._left -= len(found)
            elif isinstance(found, list | tuple):
                waiting.extend(cast("list[object]", found))
            elif isinstance(found, dict):
                for pair in cast("dict[object, object]", found).items():
                    waiting.extend(pair)
            if self._left < len(waiting):
                raise ComponentError(f"The template makes more than {MAX_SIZE:,} characters and entries on its way.")
        if time.monotonic() > self._deadline:
            raise ComponentError(f"The template did not finish within {MAX_SECONDS:g} s and was stopped.")


_budget: ContextVar[Budget] = ContextVar("template_budget")


def start() -> None:
    """Give the rendering that begins in this thread a budget of its own."""
    _budget.set(Budget())


def check(source: str) -> None:
    """Read a template without running it.

    Raises:
        TemplateError: if it has an error.
    """
    _environment().compile(source, raw=True)


@functools.lru_cache(maxsize=64)
def compiled(source: str) -> Template:
    """Give a template ready to run. Its errors are Jinja's, and whatever running the code of a template raises."""
    return _environment().from_string(source)


def _charged(value: Any) -> Any:
    _budget.get().charge(value)
    return value


def _charging(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)  # keeps the marks by which Jinja knows what to hand over
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return _charged(function(*args, **kwargs))

    return wrapper


# The language


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
    intercepted_binops = frozenset({"*", "**", "%", "+"})

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return _Charging().visit(super()._parse(source, name, filename))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if problem := _operand_problem(operator, left, right):
            raise SecurityError(problem)
        return _charged(super().call_binop(context, operator, left, right))

    def getitem(self, obj: Any, argument: Any) -> Any:
        found = super().getitem(obj, argument)
        return _charged(found) if isinstance(argument, slice) else found

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        is_value = isinstance(obj, str | list | dict | tuple | int | float)
        return super().is_safe_attribute(obj, attr, value) and (attr in _METHODS or not is_value)

    def wrap_str_format(self, value: Any) -> None:
        """Offer no ``format``: a width in it makes a text of any length."""

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return _charged(super().call(*args, **kwargs))

    @staticmethod
    def concat(pieces: Iterable[str]) -> str:
        """Join what a block or a macro has printed."""
        return "".join(_charged(list(pieces)))


@functools.lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = _Sandbox(autoescape=False, finalize=_printed, optimized=False)
    offered = {**{name: FILTERS[name] for name in _FILTERS}, **_OWN_FILTERS}
    environment.filters = {name: _charging(function) for name, function in offered.items()}
    environment.tests = {name: _charging(function) for name, function in TESTS.items()}
    globals_ = cast("dict[str, Any]", environment.globals)
    globals_.clear()
    globals_.update(range=_bounded_range, namespace=Namespace)
    return environment


def _operand_problem(operator: str, left: Any, right: Any) -> str:
    """Give why an operation could grow without bound, or ``""``: huge texts, huge numbers, formatting."""
    operands = (left, right)
    if operator == "%":
        return "text formatting is not offered; use ~ to join texts" if isinstance(left, str) else ""
    if operator == "**":
        is_small = all(isinstance(n, int | float) and abs(n) <= 1000 for n in operands)
        return "" if is_small else "numbers this large are not computed"
    if all(isinstance(n, int) for n in operands):
        is_small = all(abs(n) < 2**256 for n in operands)
        return "" if is_small else "numbers this large are not computed"
    length = sum(len(cast("list[Any]", v)) for v in operands if isinstance(v, str | list | tuple))
    times = max((n for n in operands if isinstance(n, int)), default=1) if operator == "*" else 1
    return "texts and lists this long are not made" if length * times > MAX_OUTPUT_CHARS else ""


_METHODS = frozenset(
    (
        *("capitalize", "count", "endswith", "find", "get", "index", "items", "keys", "lower", "lstrip", "rstrip"),
        *("split", "splitlines", "startswith", "strip", "title", "upper", "values"),
    )
)
"""Methods of texts, lists and maps that make nothing larger than what they are called on."""


# Functions and filters


def _bounded_range(*bounds: int) -> range:
    numbers = range(*bounds)
    if len(numbers) > MAX_RANGE:
        raise SecurityError(f"range() gives at most {MAX_RANGE:,} numbers")
    return numbers


def _printed(value: Any) -> str:
    """Write a value as everywhere else."""
    if isinstance(value, Undefined):
        return str(value)
    if isinstance(value, Iterable) and not isinstance(value, str | list | tuple | dict):
        value = list(cast("Iterable[Any]", value))
    return to_text(_charged(value))


def _replaced(text: Any, old: str, new: str) -> str:
    text = _printed(text)
    if len(text) + text.count(old) * len(new) > MAX_OUTPUT_CHARS:
        raise SecurityError("texts this long are not made")
    return text.replace(old, new)


@pass_environment
def _joined(environment: Environment, values: Iterable[Any], separator: str = "", attribute: Any = None) -> str:
    texts = [_printed(value) for value in _attributes(environment, values, attribute)]
    if len(texts) * len(separator) > MAX_OUTPUT_CHARS:
        raise SecurityError("texts this long are not made")
    return separator.join(texts)


@pass_environment
def _total(environment: Environment, values: Iterable[Any], attribute: Any = None, start: float = 0) -> float:
    """Add numbers. Jinja's own filter adds lists as well, and copies what it has at every step."""
    total = start
    for value in _attributes(environment, values, attribute):
        if not isinstance(value, int | float):
            raise SecurityError("only numbers are added up")
        total += value
    return total


def _attributes(environment: Environment, values: Iterable[Any], attribute: Any) -> Iterable[Any]:
    return values if attribute is None else map(make_attrgetter(environment, attribute), values)


def _rounded(value: float, precision: int = 0) -> float:
    if abs(precision) > 20:
        raise SecurityError("numbers are rounded to at most 20 digits")
    return round(value, precision)


def _same(value: Any) -> Any:
    return value


_FILTERS = (
    *("abs", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first", "float", "groupby", "int"),
    *("items", "last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "reverse", "select"),
    *("selectattr", "sort", "title", "trim", "unique", "upper", "wordcount"),
)
"""Jinja's own filters that are offered."""

_OWN_FILTERS: Mapping[str, Callable[..., Any]] = {
    "charged": _same,
    "join": _joined,
    "replace": _replaced,
    "round": _rounded,
    "string": _printed,
    "sum": _total,
    "tojson": _printed,
}
