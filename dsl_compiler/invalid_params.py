"""The node of a component whose params are wrong: it has the place and the ways of the real one.

So the later checks say what is wrong beside the params, and nothing that only follows from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from pydantic import ValidationError

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import ExceptionPolicy, PlanNode
from ragflow_lg.component.spec import AnySpec, ComponentParams, Kind, Route
from ragflow_lg.dsl.variable_references import ReferenceScope
from ragflow_lg.dsl_compiler.draft import RawComponent
from ragflow_lg.dsl_compiler.placeholder import placeholder
from ragflow_lg.dsl_compiler.shapes import as_texts

__all__ = ["stand_in", "value_path"]

MAX_TRIES = 3
MAX_PROBLEMS = 50

_KEPT: Mapping[str, Kind] = {
    "entry": "entry",
    "interrupt": "interrupt",
    "region": "region",
    "region_exit": "region_exit",
    "region_item": "region_item",
}
"""Kinds that a node keeps though its params are wrong: others are judged by them."""


def stand_in(component: RawComponent, spec: AnySpec, scope: ReferenceScope) -> PlanNode:
    """Make the node. It follows ``downstream`` and ``exception_goto``, or the routes as far as they can be read."""
    routes = _routes(component, spec, scope) if spec.kind == "route" else ()
    held = placeholder(spec.name, is_ready=True, kind=_KEPT.get(spec.kind, "plain"), routes=routes)
    goto = tuple(NodeId(target) for target in as_texts(component.params.get("exception_goto")))
    return PlanNode(
        NodeId(component.id),
        held,
        held.params.model_construct(**dict(component.params)),
        component.title,
        0,
        component.pointer,
        on_error=ExceptionPolicy("goto", None, goto) if goto else ExceptionPolicy(),
        parent=NodeId(component.parent) if component.parent else None,
    )


def value_path(location: Sequence[str | int]) -> list[str | int]:
    """Give the way to a value from pydantic's, which also names the validators on it."""
    return [segment for segment in location if not str(segment).startswith(("function-", "literal["))]


def _routes(component: RawComponent, spec: AnySpec, scope: ReferenceScope) -> tuple[Route, ...]:
    """Give the routes of params without what is wrong in them, else every component that they name."""
    params = _readable(component.params, spec, scope)
    if params is not None:
        return tuple(spec.routes(params))
    named = dict.fromkeys(text for text in _texts(component.params) if text in scope.nodes)
    targets = {**dict.fromkeys(t for t in component.downstream if t in scope.nodes), **named}
    return tuple(Route(target, (target,)) for target in targets)


def _readable(given: Mapping[str, Any], spec: AnySpec, scope: ReferenceScope) -> ComponentParams | None:
    """Leave out wrong entries of maps until the rest can be read; None where that is not enough."""
    for _ in range(MAX_TRIES):
        try:
            return spec.params.model_validate(given, context={"scope": scope})
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False, include_input=False)[:MAX_PROBLEMS]
        for problem in problems:
            given = _without(given, value_path(problem["loc"]))
    return None


def _without(value: Any, path: Sequence[str | int]) -> Any:
    """Give a value without an entry of a map in it; the same one where there is no such entry."""
    if not path:
        return value
    first, *rest = path
    if isinstance(value, Mapping):
        held = dict(cast("Mapping[Any, Any]", value))
        if first in held:
            entry = held.pop(first)
            return {**held, first: _without(entry, rest)} if rest else held
    elif isinstance(value, list) and isinstance(first, int):
        entries = list(cast("list[Any]", value))
        if first < len(entries):
            entries[first] = _without(entries[first], rest)
        return entries
    return cast("Any", value)


def _texts(value: Any) -> Iterator[str]:
    """Find every text in raw params."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for entry in cast("Mapping[str, Any]", value).values():
            yield from _texts(entry)
    elif isinstance(value, list):
        for entry in cast("list[Any]", value):
            yield from _texts(entry)
