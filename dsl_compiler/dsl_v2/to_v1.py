"""DSL v2 to DSL v1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragflow_lg.base.lenient_values import as_list, as_map, as_text
from ragflow_lg.dsl_compiler.diagnostics import Reporter, extend_pointer
from ragflow_lg.dsl_compiler.dsl_v2.document import ComponentV2, DocumentV2, V1Component, read_document
from ragflow_lg.dsl_compiler.dsl_v2.ids import find_mentioned_keys, key_of_id
from ragflow_lg.dsl_compiler.editor_graph import EditorNode, draw_graph
from ragflow_lg.dsl_compiler.flow import find_predecessors

_REGIONS = ("Loop", "Iteration")

_STATE: dict[str, Any] = {"history": [], "path": [], "retrieval": []}
"""What RAGFlow expects in a document besides its components."""

_GLOBALS: dict[str, Any] = {"sys.query": "", "sys.user_id": "", "sys.conversation_turns": 0, "sys.files": []}


def to_v1(document: Mapping[str, Any], base: str, reporter: Reporter) -> dict[str, Any]:
    """Return a document of DSL v2 in DSL v1, or report why it cannot be one.

    A document that `to_v2` wrote becomes what it was. If someone has edited it since, the edits win, and the editor's
    drawing follows them. A document without ``v1`` gets keys, empty variables and a drawing as RAGFlow needs them.

    Args:
        document: A JSON object for which `is_v2` returns true.
        base: JSON pointer to the document in its file.
        reporter: Receives the errors.
    """
    read = read_document(document, base, reporter)
    keys = {} if read is None else _keys(read, base, reporter)
    if read is None or reporter.has_errors:
        return {}
    if read.v1_document is None:
        _check_regions(read, base, reporter)
    upstream = find_predecessors({id_: c.downstream for id_, c in read.components.items()})
    order = list(read.components) if read.v1_components else sorted(read.components, key=_rank)
    known = read.v1_components
    edited = {id_ for id_, c in read.components.items() if id_ not in known or known[id_].digest != c.digest()}
    components = {
        keys[id_]: _build_component(
            read.components[id_],
            read.v1_components.get(id_),
            keys,
            [keys[source] for source in upstream[id_]],
            is_edited=id_ in edited,
        )
        for id_ in order
    }
    rest = dict(read.v1_document) if read.v1_document is not None else {**_STATE, "globals": dict(_GLOBALS)}
    removed = read.v1_components.keys() - read.components.keys()
    if read.v1_document is None or edited or removed:
        rest["graph"] = _draw(components, as_map(rest.get("graph")), {keys[id_] for id_ in edited})
    return {"components": components, **rest}


def _rank(id_: str) -> tuple[bool, str]:
    return (not id_.startswith("begin_"), id_)


def _keys(document: DocumentV2, base: str, reporter: Reporter) -> dict[str, str]:
    """Return the keys in DSL v1 by id."""
    mentioned = find_mentioned_keys([c.params for c in document.components.values()], document.components)
    keys: dict[str, str] = {}
    owners: dict[str, str] = {}
    for id_, component in document.components.items():
        entry = document.v1_components.get(id_)
        key = entry.key if entry else mentioned.get(id_) or key_of_id(id_, component.name)
        if key in owners:
            message = f"{owners[key][:80]!r} and {id_[:80]!r} would have the same id in DSL v1, {key[:80]!r}."
            pointer = extend_pointer(base, ["components", id_])
            reporter.report("id-invalid", "error", pointer, message, "Give one of them another id.")
        owners[key] = id_
        keys[id_] = key
    return keys


def _check_regions(document: DocumentV2, base: str, reporter: Reporter) -> None:
    for id_, component in document.components.items():
        if component.name in _REGIONS:
            message = f"{id_[:80]!r} is a {component.name}, and plain DSL v2 does not say which nodes stand in it."
            hint = "Convert the original again, without --plain."
            reporter.report("document-shape", "error", extend_pointer(base, ["components", id_]), message, hint)


def _build_component(
    component: ComponentV2, entry: V1Component | None, keys: Mapping[str, str], upstream: list[str], *, is_edited: bool
) -> dict[str, Any]:
    targets = [keys[target] for target in component.downstream]
    usual: dict[str, Any] = {"obj": {"component_name": component.name, "params": dict(component.params)}}
    if entry is None:
        usual["obj"]["downstream"] = targets
        return {**usual, "downstream": targets, "upstream": upstream}
    if entry.obj is None:
        if not is_edited:
            return dict(entry.entry)
        outer = {key: value for key, value in entry.entry.items() if key in ("upstream", "parent_id")}
        return {**usual, "downstream": targets, **outer}
    usual["obj"]["params"] |= entry.params
    inner = dict(entry.obj)
    if is_edited and "downstream" in inner:
        inner["downstream"] = targets
    outer = dict(entry.entry) if "upstream" in entry.entry else {"upstream": upstream, **entry.entry}
    if outer["upstream"] is None:
        del outer["upstream"]
    return {"obj": {**usual["obj"], **inner}, "downstream": targets, **outer}


def _draw(components: Mapping[str, Any], old: Mapping[str, Any], edited: set[str]) -> dict[str, Any]:
    """Return the editor's drawing, where only nodes that were edited or are new differ from the old one."""
    nodes = {as_text(node.get("id")): node for node in map(as_map, as_list(old.get("nodes")))}
    titles = {id_: as_text(as_map(node.get("data")).get("name")) for id_, node in nodes.items()}
    drawn = draw_graph(
        old,
        [
            EditorNode(
                key,
                as_text(as_map(entry.get("obj")).get("component_name")) or as_text(entry.get("component_name")),
                dict(as_map(as_map(entry.get("obj")).get("params"))),
                as_list(entry.get("downstream")),
                as_text(entry.get("parent_id")),
                titles.get(key, ""),
            )
            for key, entry in components.items()
        ],
    )
    fresh_nodes = {node["id"]: node for node in drawn["nodes"]}
    is_gone = {id_ for id_ in nodes if ":" in id_ and id_ not in fresh_nodes and _is_component(nodes[id_])}
    kept_nodes = [
        fresh_nodes[id_] if id_ in edited and id_ in fresh_nodes else dict(node)
        for id_, node in nodes.items()
        if id_ not in is_gone
    ]
    new_nodes = [node for id_, node in fresh_nodes.items() if id_ not in nodes]
    old_edges = [as_map(edge) for edge in as_list(old.get("edges"))]
    kept_edges = [
        dict(edge)
        for edge in old_edges
        if edge.get("source") not in edited and not {edge.get("source"), edge.get("target")} & is_gone
    ]
    new_edges = [edge for edge in drawn["edges"] if edge["source"] in edited]
    return {**old, "nodes": [*kept_nodes, *new_nodes], "edges": [*kept_edges, *new_edges]}


def _is_component(node: Mapping[str, Any]) -> bool:
    """Return whether a node of the drawing is a component, not a note, a tool or an agent's sub-agent."""
    return as_map(node.get("data")).get("label") not in ("Note", "Tool", "Agent", "Placeholder")
