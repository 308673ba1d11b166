"""Find the node where a turn begins."""

from __future__ import annotations

from msgspec.structs import replace

from ragflow_lg.base.ids import NodeId
from ragflow_lg.dsl_compiler.diagnostics import Reporter, pointer_of
from ragflow_lg.dsl_compiler.draft import Draft

__all__ = ["find_entry"]

CLASSIC_ENTRY = NodeId("begin")
"""The id that RAGFlow's engine starts from, whatever else there is (``agent/canvas.py``)."""


def find_entry(draft: Draft, reporter: Reporter) -> Draft:
    """Take the component ``begin``, or else the only one whose kind is ``entry``."""
    entries = [node for node in draft.nodes.values() if node.spec.kind == "entry"]
    if not entries:
        reporter.report(
            "begin-missing",
            "error",
            pointer_of(draft.base, ["components"]),
            "The canvas has no Begin component, so there is nowhere to start.",
            hint='Add a component with the id "begin" and the component_name "Begin".',
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
                hint="Keep one Begin component.",
                component=draft.components[other.id],
            )
    return replace(draft, entry=chosen.id)
