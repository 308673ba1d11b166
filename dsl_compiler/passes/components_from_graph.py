"""Rebuild components from an editor's ``graph``, for exports that contain only the graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragflow_lg.base.lenient_values import as_list, as_map, as_text
from ragflow_lg.dsl_compiler.diagnostics import Reporter, extend_pointer
from ragflow_lg.dsl_compiler.draft import RawComponent

_NOT_COMPONENTS = frozenset({"Note", "Placeholder", "Tool"})
"""Labels of nodes that never run. An Agent's tools are also listed in its form."""

_TOOL_HANDLES = frozenset({"agentBottom", "tool"})
"""Handles whose edges lead to one of the source's tools, not to a successor."""

_OLD_HANDLES = frozenset({"yes", "no"})
"""Handles of Relevant, which has a parameter for each."""


def components_from_graph(document: Mapping[str, Any], base: str, reporter: Reporter) -> list[RawComponent]:
    """Build components from nodes and edges.

    A node's label is its component name, and its form contains the params. An Agent below another Agent becomes one of
    that Agent's tools. Routers use the targets from their form, or edges where the form has none.
    """
    graph = as_map(document.get("graph"))
    edges = [as_map(edge) for edge in as_list(graph.get("edges"))]
    below = {as_text(e.get("target")) for e in edges if as_text(e.get("sourceHandle")) in _TOOL_HANDLES}
    by_source: dict[str, list[Mapping[str, Any]]] = {}
    for edge in edges:
        by_source.setdefault(as_text(edge.get("source")), []).append(edge)
    nodes = dict(_nodes(graph))
    by_id = {as_text(node.get("id")): node for node in nodes.values()}
    components: list[RawComponent] = []
    for index, node in nodes.items():
        id_, data = as_text(node.get("id")), as_map(node.get("data"))
        name = as_text(data.get("label")) or as_text(data.get("component_name"))
        if name in _NOT_COMPONENTS or id_ in below or not name:
            continue
        pointer = extend_pointer(base, ["graph", "nodes", index])
        outgoing = [e for e in by_source.get(id_, ()) if as_text(e.get("sourceHandle")) not in _TOOL_HANDLES]
        params = _params(data, _targets_by_handle(outgoing), _tools_below(id_, by_source, by_id))
        components.append(
            RawComponent(
                id_,
                name,
                params,
                tuple(dict.fromkeys(as_text(e.get("target")) for e in outgoing if e.get("target"))),
                as_text(node.get("parentId")) or None,
                pointer,
                extend_pointer(pointer, ["data", "form"]),
                as_text(data.get("name")),
            )
        )
    if components:
        message = "The document has no components; they were rebuilt from the graph."
        reporter.report("document-rewritten", "info", extend_pointer(base, ["graph"]), message)
    return components


def with_components(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a document with the components that its graph stands for, if it has none."""
    if document.get("components"):
        return document
    components: dict[str, Any] = {}
    for component in components_from_graph(document, "", Reporter()):
        parent = {"parent_id": component.parent} if component.parent else {}
        obj = {"component_name": component.name, "params": dict(component.params)}
        components[component.id] = {"obj": obj, "downstream": list(component.downstream), **parent}
    return {**document, "components": components} if components else document


def _nodes(graph: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for index, node in enumerate(as_list(graph.get("nodes"))):
        if as_text(as_map(node).get("id")):
            yield index, as_map(node)


def _targets_by_handle(outgoing: list[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the targets of each named handle: ``Case 1``, ``end_cpn_ids``, ``yes``, a category or its uuid."""
    targets: dict[str, list[str]] = {}
    for edge in outgoing:
        handle = as_text(edge.get("sourceHandle"))
        if handle not in ("", "start", "end"):
            targets.setdefault(handle, []).append(as_text(edge.get("target")))
    return targets


def _params(data: Mapping[str, Any], targets: Mapping[str, list[str]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    params = dict(as_map(data.get("form")))
    conditions = as_list(params.get("conditions"))
    if conditions:
        params["conditions"] = [
            _with_targets(as_map(c), "to", targets.get(f"Case {n}")) for n, c in enumerate(conditions, 1)
        ]
        params = _with_targets(params, "end_cpn_ids", targets.get("end_cpn_ids"))
    if categories := as_map(params.get("category_description")):
        params["category_description"] = {
            name: _with_targets(as_map(entry), "to", targets.get(as_text(name))) for name, entry in categories.items()
        }
    if "category_description" not in params and (items := as_list(params.get("items"))):
        params["items"] = [_with_targets(as_map(i), "to", targets.get(as_text(as_map(i).get("uuid")))) for i in items]
    for handle in _OLD_HANDLES & targets.keys():
        params = _with_targets(params, handle, targets[handle])
    if tools:
        params["tools"] = [*as_list(params.get("tools")), *tools]
    return params


def _with_targets(holder: Mapping[str, Any], key: str, targets: list[str] | None) -> dict[str, Any]:
    return {**holder, key: holder.get(key) or targets or []}


def _tools_below(
    id_: str, by_source: Mapping[str, list[Mapping[str, Any]]], by_id: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the Agents below a node as tools, including their own tools. Cycles are not followed."""
    tools: list[dict[str, Any]] = []
    tools_of: dict[str, list[dict[str, Any]]] = {id_: tools}
    queue = [id_]
    for source in queue:
        for edge in by_source.get(source, ()):
            target = as_text(edge.get("target"))
            if edge.get("sourceHandle") != "agentBottom" or target in tools_of:
                continue
            data = as_map(as_map(by_id.get(target)).get("data"))
            tools_of[target] = list(as_list(as_map(data.get("form")).get("tools")))
            params = {**as_map(data.get("form")), "tools": tools_of[target]}
            tools_of[source].append(
                {
                    "component_name": as_text(data.get("label")),
                    "id": target,
                    "name": as_text(data.get("name")),
                    "params": params,
                }
            )
            queue.append(target)
    return tools
