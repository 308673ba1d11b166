"""Rebuild components from an editor's ``graph``, for exports that hold nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragflow_lg.dsl_compiler.diagnostics import Reporter, pointer_of
from ragflow_lg.dsl_compiler.draft import Draft, RawComponent
from ragflow_lg.dsl_compiler.shapes import as_list, as_map, as_text

__all__ = ["components_from_graph"]

_NOT_COMPONENTS = frozenset({"Note", "Placeholder", "Tool"})
"""Labels of nodes that are drawn but never run; the tools of an Agent are listed in its own form."""

_TOOL_HANDLES = frozenset({"agentBottom", "tool"})
"""Edges from these handles lead to a tool of the source, not to its successor."""


def components_from_graph(draft: Draft, reporter: Reporter) -> list[RawComponent]:
    """Make components of nodes and edges.

    A node's label is its component name, its form the params. An Agent below another one is folded into
    the tools of the upper one. Routers keep the targets of their form; an edge fills in what it lacks.
    """
    graph = as_map(draft.document.get("graph"))
    edges = [as_map(edge) for edge in as_list(graph.get("edges"))]
    below = {as_text(e.get("target")) for e in edges if as_text(e.get("sourceHandle")) in _TOOL_HANDLES}
    by_source: dict[str, list[Mapping[str, Any]]] = {}
    for edge in edges:
        by_source.setdefault(as_text(edge.get("source")), []).append(edge)
    nodes = dict(_nodes(graph))
    by_id = {as_text(node.get("id")): node for node in nodes.values()}
    found: list[RawComponent] = []
    for index, node in nodes.items():
        id_, data = as_text(node.get("id")), as_map(node.get("data"))
        name = as_text(data.get("label")) or as_text(data.get("component_name"))
        if name in _NOT_COMPONENTS or id_ in below or not name:
            continue
        pointer = pointer_of(draft.base, ["graph", "nodes", index])
        outgoing = [e for e in by_source.get(id_, ()) if as_text(e.get("sourceHandle")) not in _TOOL_HANDLES]
        params = _params(data, _branches(outgoing), _folded(id_, by_source, by_id))
        found.append(
            RawComponent(
                id_,
                name,
                params,
                tuple(dict.fromkeys(as_text(e.get("target")) for e in outgoing if e.get("target"))),
                as_text(node.get("parentId")) or None,
                pointer,
                pointer_of(pointer, ["data", "form"]),
                as_text(data.get("name")),
            )
        )
    if found:
        reporter.report(
            "document-rewritten",
            "info",
            pointer_of(draft.base, ["graph"]),
            "The document has no components; they were rebuilt from its graph.",
        )
    return found


def _nodes(graph: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for index, node in enumerate(as_list(graph.get("nodes"))):
        if as_text(as_map(node).get("id")):
            yield index, as_map(node)


def _branches(outgoing: list[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Give the targets of each named handle: ``Case 1``, ``end_cpn_ids``, or the uuid of a category."""
    branches: dict[str, list[str]] = {}
    for edge in outgoing:
        handle = as_text(edge.get("sourceHandle"))
        if handle not in ("", "start", "end"):
            branches.setdefault(handle, []).append(as_text(edge.get("target")))
    return branches


def _params(data: Mapping[str, Any], branches: Mapping[str, list[str]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    params = dict(as_map(data.get("form")))
    conditions = as_list(params.get("conditions"))
    if conditions:
        params["conditions"] = [
            _with_targets(as_map(c), "to", branches.get(f"Case {n}")) for n, c in enumerate(conditions, 1)
        ]
        params = _with_targets(params, "end_cpn_ids", branches.get("end_cpn_ids"))
    if "category_description" not in params and (items := as_list(params.get("items"))):
        params["items"] = [_with_targets(as_map(i), "to", branches.get(as_text(as_map(i).get("uuid")))) for i in items]
    if tools:
        params["tools"] = [*as_list(params.get("tools")), *tools]
    return params


def _with_targets(holder: Mapping[str, Any], key: str, targets: list[str] | None) -> dict[str, Any]:
    return {**holder, key: holder.get(key) or targets or []}


def _folded(
    id_: str, by_source: Mapping[str, list[Mapping[str, Any]]], by_id: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Give the Agents drawn below a node as tools, theirs included. An Agent below itself is not followed."""
    tools: list[dict[str, Any]] = []
    held: dict[str, list[dict[str, Any]]] = {id_: tools}
    queue = [id_]
    for source in queue:
        for edge in by_source.get(source, ()):
            target = as_text(edge.get("target"))
            if edge.get("sourceHandle") != "agentBottom" or target in held:
                continue
            data = as_map(as_map(by_id.get(target)).get("data"))
            held[target] = list(as_list(as_map(data.get("form")).get("tools")))
            params = {**as_map(data.get("form")), "tools": held[target]}
            held[source].append(
                {
                    "component_name": as_text(data.get("label")),
                    "id": target,
                    "name": as_text(data.get("name")),
                    "params": params,
                }
            )
            queue.append(target)
    return tools
