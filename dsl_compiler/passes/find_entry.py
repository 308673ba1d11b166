"""Find the node where a turn starts."""

from __future__ import annotations

from msgspec.structs import replace

from ragflow_lg.base.ids import NodeId
from ragflow_lg.dsl_compiler.diagnostics import Reporter, extend_pointer
from ragflow_lg.dsl_compiler.draft import Draft

CLASSIC_ENTRY = NodeId("begin")
"""The id that RAGFlow's engine always starts from (``agent/canvas.py``)."""


def find_entry(draft: Draft, reporter: Reporter) -> Draft:
    """Choose the component ``begin``, or else the first one of kind ``entry``. Report any others."""
    entries = [node for node in draft.nodes.values() if node.spec.kind == "entry"]
    if not entries:
        reporter.report(
            "begin-missing",
            "error",
            extend_pointer(draft.base, ["components"]),
            "The canvas has no Begin component to start at.",
            hint='Add a component with id "begin" and component_name "Begin".',
        )
        return draft
    chosen = next((node for node in entries if node.id == CLASSIC_ENTRY), entries[0])
    for other in entries:
        if other is not chosen:
            reporter.report(
                "begin-multiple",
                "error" if chosen.id != CLASSIC_ENTRY else "warning",
                other.pointer,
                f"The canvas starts at {chosen.id!r}; this second Begin never runs.",
                hint="Keep only one Begin component.",
                component=draft.components[other.id],
            )
    return replace(draft, entry=chosen.id)
