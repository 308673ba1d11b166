"""Estimates whether a Jinja template is rendered so quickly that the event loop may do it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

from jinja2 import TemplateError, nodes

from ragflow_lg.base.values import JsonValue
from ragflow_lg.base.worker_tasks import SMALL_SIZE, measure
from ragflow_lg.dsl.templates.sandbox import parse

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
