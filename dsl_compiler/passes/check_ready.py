"""Report components that this version knows but cannot run."""

from __future__ import annotations

from ragflow_lg.dsl_compiler.diagnostics import Reporter, extend_pointer
from ragflow_lg.dsl_compiler.draft import Draft


def check_ready(draft: Draft, reporter: Reporter) -> Draft:
    """Report every node whose spec is not ready."""
    for node in draft.nodes.values():
        if not node.spec.is_ready:
            reporter.report(
                "component-not-yet",
                "error",
                extend_pointer(node.pointer, ["obj", "component_name"]),
                f"{node.spec.name} is a RAGFlow component that this version cannot run yet.",
                hint="`ragflow-lg components` lists the components that it can run.",
                component=draft.components[node.id],
            )
    return draft
