"""Recognize ingestion pipelines and canvases from before RAGFlow 0.20."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ragflow_lg.dsl_compiler.diagnostics import Reporter, extend_pointer
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.known_components import LEGACY, PIPELINE
from ragflow_lg.dsl_compiler.shapes import as_list, as_map


def classify_document(draft: Draft, reporter: Reporter) -> Draft:
    """Report an ingestion pipeline, and each component from before RAGFlow 0.20 with its replacement.

    A pipeline is a document in the category ``dataflow_canvas``, or one with a pipeline component but without Begin.
    """
    named = list(_component_names(draft))
    names = {name for name, _ in named}
    pipeline = sorted(names & PIPELINE)
    is_declared = draft.document.get("canvas_category") == "dataflow_canvas" or draft.category == "dataflow_canvas"
    if is_declared or (pipeline and not any(name.lower() == "begin" for name in names)):
        components = f" (it has {', '.join(pipeline)})" if pipeline else ""
        reporter.report(
            "pipeline-document",
            "error",
            draft.base,
            f"This is an ingestion pipeline{components}, not an agent canvas; it only prepares documents.",
            hint="Run it in RAGFlow or pass an agent canvas.",
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


def _component_names(draft: Draft) -> Iterator[tuple[str, str]]:
    """Yield every component name with its pointer, from ``components`` or, if that is empty, from ``graph``."""
    components = draft.document.get("components")
    if isinstance(components, Mapping) and components:
        base = extend_pointer(draft.base, ["components"])
        for id_, component in as_map(components).items():
            if isinstance(component, Mapping):
                outer = as_map(component)
                inner = as_map(outer["obj"]) if isinstance(outer.get("obj"), Mapping) else outer
                name = inner.get("component_name") or inner.get("name")
                if isinstance(name, str):
                    yield name, extend_pointer(base, [id_])
        return
    for index, node in enumerate(as_list(as_map(draft.document.get("graph")).get("nodes"))):
        label = as_map(as_map(node).get("data")).get("label")
        if isinstance(label, str):
            yield label, extend_pointer(draft.base, ["graph", "nodes", index])
