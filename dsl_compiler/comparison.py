"""What differs between two canvases for someone who runs them. Positions, sizes and stored run state do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from ragflow_lg.base.errors import CompileError
from ragflow_lg.base.lenient_values import as_list, as_map
from ragflow_lg.component.registry import Registry
from ragflow_lg.dsl_compiler.compiler import Source, add_positions, read_components
from ragflow_lg.dsl_compiler.draft import Draft, RawComponent

MISSING: Any = object()
"""The value of a parameter that a canvas does not have."""

EDGES, PARENT, TITLE, COMPONENT = "downstream", "parent", "title", "component"

_ENVIRONMENT = "env."

_UNREAD = frozenset(["debug_inputs", "form", "showStructuredOutput", "tenant_llm_id"])
"""Parameters that the editor writes and no component reads; so are those that begin with ``_``."""


class Difference(NamedTuple):
    """One difference between two canvases."""

    kind: Literal["added", "removed", "changed"]
    node: str
    """The id of the component, or ``""`` for the variables of the canvas."""
    title: str
    component: str
    path: tuple[str | int, ...] = ()
    """The parameter, or one of ``downstream``, ``parent``, ``title`` and ``component``; empty for a whole node."""
    old: Any = MISSING
    new: Any = MISSING


def compare_canvases(old: Source, new: Source, catalog: Registry) -> tuple[Difference, ...]:
    """Return the differences between two canvases, in the order of the new one, then what was removed.

    Both are brought into their current form first, so another spelling of the same canvas is no difference.

    Raises:
        CompileError: if one of them cannot be read.
    """
    before, after = _read(old, catalog), _read(new, catalog)
    return tuple(_compare(before, after))


def _read(source: Source, catalog: Registry) -> Draft:
    draft, diagnostics, text = read_components(source, catalog)
    if draft is None or any(d.severity == "error" for d in diagnostics):
        raise CompileError(add_positions(diagnostics, text))
    return draft


def _compare(before: Draft, after: Draft) -> Iterator[Difference]:
    for path, old, new in _differing(_variables(before), _variables(after), ()):
        yield Difference("changed", "", "", "variables", path, old, new)
    for id_, component in after.components.items():
        if (known := before.components.get(id_)) is None:
            yield Difference("added", id_, component.title, component.name, new=_describe(component))
        else:
            for path, old, new in _differing(_describe(known), _describe(component), ()):
                yield Difference("changed", id_, component.title, component.name, path, old, new)
    for id_, component in before.components.items():
        if id_ not in after.components:
            yield Difference("removed", id_, component.title, component.name, old=_describe(component))


def _describe(component: RawComponent) -> dict[str, Any]:
    """Return what a component is, without what only the editor uses."""
    params = {key: value for key, value in component.params.items() if key not in _UNREAD and key[:1] != "_"}
    around = {COMPONENT: component.name, TITLE: component.title, PARENT: component.parent or ""}
    return {**around, EDGES: sorted(component.downstream), **params}


def _variables(draft: Draft) -> dict[str, Any]:
    environment = {
        key: value for key, value in as_map(draft.document.get("globals")).items() if key.startswith(_ENVIRONMENT)
    }
    declared = as_map(draft.document.get("variables"))
    return {**environment, **{f"{_ENVIRONMENT}{name}": as_map(entry).get("value") for name, entry in declared.items()}}


def _differing(old: Any, new: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any, Any]]:
    """Yield the smallest parts that differ. Lists of values are compared as a whole, lists of objects by position."""
    before, after = _as_object(old), _as_object(new)
    if before is not None and after is not None:
        for key in dict.fromkeys([*before, *after]):
            yield from _differing(before.get(key, MISSING), after.get(key, MISSING), (*path, key))
    elif _are_objects(old) and _are_objects(new) and len(as_list(old)) == len(as_list(new)):
        for index, (left, right) in enumerate(zip(as_list(old), as_list(new), strict=True)):
            yield from _differing(left, right, (*path, index))
    elif type(old) is not type(new) or old != new:
        yield path, old, new


def _as_object(value: Any) -> Mapping[str, Any] | None:
    return as_map(value) if isinstance(value, Mapping) else None


def _are_objects(value: Any) -> bool:
    entries = as_list(value)
    return bool(entries) and all(isinstance(entry, Mapping) for entry in entries)
