"""The Jinja environment for `ragflow_lg.dsl.templates.render`: Jinja's own sandbox, with texts as elsewhere.

It bounds neither time nor size: templates are rendered in worker processes. Importing this module imports Jinja, so it
is imported only when a template is parsed.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator
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


def check(source: str) -> None:
    """Check a template without running it.

    Raises:
        TemplateError: if it has a syntax error, or calls an unknown function or method.
        SyntaxError, ValueError, RecursionError, MemoryError: if it exceeds the limits of Python's parser.
    """
    environment = _environment()
    tree = environment.parse(source)
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


def parse(source: str) -> nodes.Template:
    """Return a template's syntax tree.

    Raises:
        TemplateError: if it has a syntax error.
    """
    return _environment().parse(source)


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
    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = _Concatenations().visit(super()._parse(source, name, filename))
        if tree.find(nodes.EvalContextModifier) is not None:  # its options would be computed by the compiler
            raise TemplateError("The tag autoescape is not supported")
        return tree

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, str) and attribute == "join":
            return _Join(obj)
        return super().getattr(obj, attribute)


class _Concatenations(NodeTransformer):
    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:
        """Convert ``a ~ b`` to an addition of texts as elsewhere."""
        parts: list[nodes.Expr] = [nodes.Filter(self.visit(part), "string", [], [], None, None) for part in node.nodes]
        return functools.reduce(nodes.Add, parts[1:], parts[0])


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
