"""Take the components out of the document, whatever its shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ragflow_lg.component.state import OPERATIONS
from ragflow_lg.dsl_compiler.diagnostics import Reporter, pointer_of
from ragflow_lg.dsl_compiler.draft import Draft, RawComponent
from ragflow_lg.dsl_compiler.passes.components_from_graph import components_from_graph
from ragflow_lg.dsl_compiler.shapes import as_list, as_map, as_text, as_texts

__all__ = ["collect_components"]

MAX_COMPONENTS = 10_000
"""Most components. Real canvases are below 300."""

MAX_NESTING = 100
"""Most regions around a component."""

MAX_ID_CHARS = 1_000
"""Longest id. It stands in every message about the component."""


def collect_components(draft: Draft, reporter: Reporter) -> Draft:
    """Read ``components``, or, in an editor's export that has none, rebuild them from ``graph``.

    ``upstream`` is derived from ``downstream`` and therefore ignored. Titles, and parents that ``components``
    does not name, come from the graph.
    """
    components = draft.document.get("components")
    if components is not None and not isinstance(components, Mapping):
        _wrong_type(reporter, draft, "components", "a map from id to component")
        return draft
    if components:
        found = _from_components(draft, as_map(components), reporter)
    else:
        found = components_from_graph(draft, reporter)
    if not found and not reporter.has_errors:
        reporter.report(
            "document-empty",
            "error",
            draft.base,
            "The document holds no component.",
            hint='A canvas has "components", or a "graph" with nodes. Is this the right file?',
        )
    if problem := _size_problem(found):
        hint = "Split it into several canvases."
        reporter.report("document-too-large", "error", draft.base, problem, hint=hint)
        return draft
    return replace(draft, components={c.id: c for c in found if _has_usable_id(c, reporter)})


def _size_problem(found: Sequence[RawComponent]) -> str:
    """Give why the canvas is more than the later passes can work on in bounded time, or ``""``."""
    if len(found) > MAX_COMPONENTS:
        return f"The canvas has {len(found):,} components; the limit is {MAX_COMPONENTS:,}."
    parents = {component.id: component.parent for component in found}
    for component in found:
        around: set[str] = set()
        parent = component.parent
        while parent and parent in parents and parent not in around and len(around) <= MAX_NESTING:
            around.add(parent)
            parent = parents[parent]
        if len(around) > MAX_NESTING:
            return f"Regions stand inside each other more than {MAX_NESTING} deep."
    return ""


def _from_components(draft: Draft, components: Mapping[str, Any], reporter: Reporter) -> list[RawComponent]:
    nodes = {
        as_text(node.get("id")): node for node in map(as_map, as_list(as_map(draft.document.get("graph")).get("nodes")))
    }
    found: list[RawComponent] = []
    for id_, value in components.items():
        pointer = pointer_of(draft.base, ["components", id_])
        component = _component(id_, value, pointer, nodes.get(id_, {}), reporter)
        if component is not None:
            found.append(component)
    return found


def _component(
    id_: str, value: Any, pointer: str, graph_node: Mapping[str, Any], reporter: Reporter
) -> RawComponent | None:
    if not isinstance(value, Mapping):
        _not_a_component(reporter, pointer, f"Component {id_!r} is {_kind(value)}, not a map.")
        return None
    held = as_map(value)
    obj, is_flat = as_map(held.get("obj")), "obj" not in held
    inner = held if is_flat else obj
    name = inner.get("component_name") or (inner.get("name") if is_flat else None)
    if not isinstance(name, str) or not name.strip():
        _not_a_component(reporter, pointer, f"Component {id_!r} has no component_name.")
        return None
    params, where = inner.get("params"), [] if is_flat else ["obj"]
    params_pointer = pointer_of(pointer, [*where, "params"])
    if params is not None and not isinstance(params, Mapping):
        _not_a_component(reporter, params_pointer, f"The params of {id_!r} are {_kind(params)}, not a map.")
        return None
    downstream, extra = _downstream(held.get("downstream"))
    data = as_map(graph_node.get("data"))
    return RawComponent(
        id_,
        name.strip(),
        {**as_map(params), **extra},
        downstream,
        as_text(held.get("parent_id")) or as_text(graph_node.get("parentId")) or None,
        pointer,
        params_pointer,
        as_text(data.get("name")),
    )


def _downstream(value: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Read ``downstream``; a map from category to targets (a simplified Categorize) is kept for its rewrite."""
    if isinstance(value, Mapping):
        targets = {key: as_texts(entry) for key, entry in as_map(value).items()}
        return tuple(dict.fromkeys(t for entry in targets.values() for t in entry)), {
            "downstream": {key: list(entry) for key, entry in targets.items()}
        }
    return as_texts(value), {}


def _has_usable_id(component: RawComponent, reporter: Reporter) -> bool:
    if component.id and component.id != OPERATIONS and len(component.id) <= MAX_ID_CHARS:
        return True
    shown = component.id if len(component.id) <= MAX_ID_CHARS else component.id[:60] + "…"
    reporter.report(
        "id-invalid",
        "error",
        component.pointer,
        f"{shown!r} cannot be the id of a component.",
        hint="Give it a short id of letters, digits, '_' and ':'.",
        component=replace(component, id=shown),
    )
    return False


def _kind(value: Any) -> str:
    names = {"str": "a text", "list": "a list", "bool": "true or false", "int": "a number", "float": "a number"}
    return names.get(type(value).__name__, "null")


def _wrong_type(reporter: Reporter, draft: Draft, key: str, wanted: str) -> None:
    reporter.report(
        "document-shape",
        "error",
        pointer_of(draft.base, [key]),
        f'"{key}" is {_kind(draft.document.get(key))}; it should be {wanted}.',
        hint="Export the canvas again.",
    )


def _not_a_component(reporter: Reporter, pointer: str, message: str) -> None:
    reporter.report(
        "document-shape",
        "error",
        pointer,
        message,
        hint='A component is {"obj": {"component_name": …, "params": {…}}, "downstream": […]}.',
    )
