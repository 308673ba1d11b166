"""The Jinja environment for `ragflow_lg.dsl.templates.render`: Jinja's own sandbox, with texts as elsewhere.

It bounds neither time nor size: templates are rendered in worker processes. Importing this module imports Jinja, so it
is imported only when a template is parsed.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any, cast

from jinja2 import Environment, Template, TemplateError, Undefined, meta, nodes, pass_context, pass_environment
from jinja2 import filters as jinja
from jinja2.sandbox import ImmutableSandboxedEnvironment, modifies_known_mutable
from jinja2.visitor import NodeTransformer

from ragflow_lg.base.values import to_text

_RANDOM = ("random", "lipsum")
"""A template gives the same text each time it is rendered."""

_TEXT_FILTERS = (
    *("capitalize", "center", "e", "escape", "forceescape", "indent", "lower", "replace", "safe", "string"),
    *("striptags", "title", "trim", "truncate", "upper", "urlize", "wordcount", "wordwrap"),
)
"""Filters for texts, which take the text of any other value."""

_FORBIDDEN_METHODS = frozenset(
    name for kind in (list, dict, set) for name in dir(kind) if modifies_known_mutable(kind(), name)
)
"""Methods that would change a value."""


def check(tree: nodes.Template) -> None:
    """Check a template without running it.

    Raises:
        TemplateError: if it calls an unknown function or method.
        SyntaxError, ValueError, RecursionError, MemoryError: if it exceeds the limits of Python's parser.
    """
    environment = _environment()
    calls = [call.node for call in tree.find_all(nodes.Call)]
    for callee in calls:
        if isinstance(callee, nodes.Getattr) and callee.attr in _FORBIDDEN_METHODS:
            raise TemplateError(f"The method {callee.attr}() is not supported")
    tracker: Any = meta.TrackingCodeGenerator(environment)  # `find_undeclared_variables` would compute constants
    tracker.optimizer = None
    tracker.visit(tree)
    for callee in calls:
        if isinstance(callee, nodes.Name) and callee.name in tracker.undeclared_identifiers:
            raise TemplateError(f"There is no function {callee.name}()")
    environment.compile(tree)


def parse(source: str, variables: AbstractSet[str] = frozenset()) -> nodes.Template:
    """Return a template's syntax tree. Jinja evaluates ``variables`` in plain text and in string literals as well.

    Raises:
        TemplateError: if it has a syntax error.
    """
    tree = _environment().parse(source)
    if tree.find(nodes.EvalContextModifier) is not None:  # its options would be computed by the compiler
        raise TemplateError("The tag autoescape is not supported")
    return _Rewriter(variables).visit(tree)


def compile_template(tree: nodes.Template) -> Template:
    """Compile a template. Rendering it can raise Jinja's errors and any error from the template's own code."""
    return _environment().from_string(tree)


@pass_context
def _finalize(_context: object, value: Any) -> str:
    """Convert a printed value to text. Because of the mark, Jinja computes no constant when it compiles a template."""
    return format_value(value)


def format_value(value: Any) -> str:
    """Convert a value to text as elsewhere in the project."""
    return str(value) if isinstance(value, Undefined) else to_text(_without_iterator(value))


def _without_iterator(value: Any) -> Any:
    """Return a value that is computed on demand as a list."""
    is_iterator = isinstance(value, Iterable) and not isinstance(value, str | list | tuple | dict | Undefined)
    return list(cast("Iterable[Any]", value)) if is_iterator else cast("Any", value)


def _dumps(value: Any, **options: Any) -> str:
    return json.dumps(_without_iterator(value), **options)


class _Join:
    """The method ``join`` of a text. Unlike a partial, it has no attributes that lead out of the sandbox."""

    __slots__ = ("__separator",)

    def __init__(self, separator: str) -> None:
        self.__separator = separator

    def __call__(self, values: Iterable[Any]) -> str:
        return self.__separator.join(map(format_value, values))

    def __repr__(self) -> str:
        return "<method join>"


class _Sandbox(ImmutableSandboxedEnvironment):
    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, str) and attribute == "join":
            return _Join(obj)
        return super().getattr(obj, attribute)


class _Rewriter(NodeTransformer):
    def __init__(self, variables: AbstractSet[str]) -> None:
        self._pattern = re.compile(f"({'|'.join(map(re.escape, variables)) or '(?!)'})")

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        """Visit a node. Refuse a variable in the name of something else."""
        is_variable = isinstance(node, nodes.Name) and self._pattern.fullmatch(node.name)
        for field in () if is_variable or isinstance(node, nodes.TemplateData | nodes.Const) else node.fields:
            name: Any = getattr(node, field, None)
            if isinstance(name, str) and self._pattern.search(name):
                raise TemplateError(f"A reference cannot be a part of a name, as in {name}")
        return super().visit(node, *args, **kwargs)

    def visit_TemplateData(self, node: nodes.TemplateData) -> list[nodes.Expr]:
        """Put variables into plain text."""
        return self._split(node.data, nodes.TemplateData)

    def visit_Const(self, node: nodes.Const) -> nodes.Expr:
        """Put variables into a string literal."""
        parts = self._split(node.value, nodes.Const) if isinstance(node.value, str) else []
        return _add(parts) if len(parts) > 1 or (parts and isinstance(parts[0], nodes.Name)) else node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:
        """Convert ``a ~ b`` to an addition of texts as elsewhere."""
        return _add([self.visit(part) for part in node.nodes])

    def _split(self, text: str, kind: type[nodes.TemplateData | nodes.Const]) -> list[nodes.Expr]:
        parts = enumerate(self._pattern.split(text))
        return [nodes.Name(part, "load") if number % 2 else kind(part) for number, part in parts if part]


def _add(parts: Iterable[nodes.Expr]) -> nodes.Expr:
    texts: list[nodes.Expr] = [nodes.Filter(part, "string", [], [], None, None) for part in parts]
    return functools.reduce(nodes.Add, texts[1:], texts[0])


def _of_text(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter for texts that takes the text of any other value, as elsewhere: null is empty."""
    is_passed = hasattr(function, "jinja_pass_arg")

    @functools.wraps(function)  # keep the mark that tells Jinja which argument to pass
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        passed, (value, *more) = args[:is_passed], args[is_passed:]
        return function(*passed, format_value(value), *more, **kwargs)

    return wrapper


@pass_environment
def _join(environment: Environment, values: Iterable[Any], separator: str = "", attribute: Any = None) -> str:
    found = values if attribute is None else map(jinja.make_attrgetter(environment, attribute), values)
    return separator.join(map(format_value, found))


@pass_environment
def _unique(
    environment: Environment, values: Iterable[Any], case_sensitive: bool = False, attribute: Any = None
) -> Iterator[Any]:
    """Drop duplicates, also among lists and maps, which Jinja's own filter cannot compare."""
    key_of = jinja.make_attrgetter(environment, attribute, None if case_sensitive else jinja.ignore_case)
    seen: list[Any] = []
    for value in values:
        if (key := key_of(value)) not in seen:
            seen.append(key)
            yield value


@functools.lru_cache(maxsize=1)
def _environment() -> Environment:
    environment: Any = _Sandbox(autoescape=False, finalize=_finalize, optimized=False)
    environment.filters |= {name: _of_text(jinja.FILTERS[name]) for name in _TEXT_FILTERS}
    environment.filters |= {"join": _join, "unique": _unique}
    environment.policies["json.dumps_function"] = _dumps
    for names in (environment.filters, environment.globals):
        for name in _RANDOM:
            names.pop(name, None)
    return environment
