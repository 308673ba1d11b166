"""Recognise documents that are no agent canvas of today."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from ragflow_lg.dsl_compiler.diagnostics import Reporter, pointer_of
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.known_components import LEGACY, PIPELINE

__all__ = ["classify_document"]


def classify_document(draft: Draft, reporter: Reporter) -> Draft:
    """Name ingestion pipelines as such, and each component from before RAGFlow 0.20 with what replaces it.

    A pipeline is a document of the category ``dataflow_canvas``, or one with a pipeline component and no
    Begin.
    """
    named = list(_named(draft))
    names = {name for name, _ in named}
    pipeline = sorted(names & PIPELINE)
    is_declared = draft.document.get("canvas_category") == "dataflow_canvas" or draft.category == "dataflow_canvas"
    if is_declared or (pipeline and not any(name.lower() == "begin" for name in names)):
        found = f" (found {', '.join(pipeline)})" if pipeline else ""
        reporter.report(
            "pipeline-document",
            "error",
            draft.base,
            f"This is an ingestion pipeline{found}, not an agent canvas; it prepares documents and answers nobody.",
            hint="Run it in RAGFlow, or give an agent canvas.",
        )
        return draft
    for name, pointer in named:
        if name in LEGACY and draft.catalog.get(name) is None:
            reporter.report(
                "legacy-component",
                "error",
                pointer,
                f"{name} was removed in RAGFlow 0.20.",
                hint=f"Replaced by {LEGACY[name]}.",
            )
    return draft


def _named(draft: Draft) -> Iterator[tuple[str, str]]:
    """Give every component name with its pointer, from ``components``, or from ``graph`` where there are none."""
    components = draft.document.get("components")
    if isinstance(components, Mapping) and components:
        base = pointer_of(draft.base, ["components"])
        for id_, component in cast("Mapping[str, Any]", components).items():
            if isinstance(component, Mapping):
                held = cast("Mapping[str, Any]", component)
                obj = held.get("obj")
                inner = cast("Mapping[str, Any]", obj) if isinstance(obj, Mapping) else held
                name = inner.get("component_name") or inner.get("name")
                if isinstance(name, str):
                    yield name, pointer_of(base, [id_])
        return
    graph = draft.document.get("graph")
    nodes = cast("Mapping[str, Any]", graph).get("nodes") if isinstance(graph, Mapping) else None
    for index, node in enumerate(cast("list[Any]", nodes) if isinstance(nodes, list) else []):
        data = cast("Mapping[str, Any]", node).get("data") if isinstance(node, Mapping) else None
        label = cast("Mapping[str, Any]", data).get("label") if isinstance(data, Mapping) else None
        if isinstance(label, str):
            yield label, pointer_of(draft.base, ["graph", "nodes", index])
