"""Upgrade a canvas from before RAGFlow 0.20 before anything else reads it."""

from __future__ import annotations

from msgspec.structs import replace

from ragflow_lg.dsl_compiler.diagnostics import Reporter, extend_pointer
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.passes.components_from_graph import components_from_graph, with_components
from ragflow_lg.dsl_compiler.upgrade import MAX_COMPONENTS, count_components, is_old_canvas, upgrade_canvas

HINT = "Save the upgraded canvas: ragflow-lg canvas upgrade FILE -o NEW.json"


def upgrade_document(draft: Draft, reporter: Reporter) -> Draft:
    """Replace an old canvas by the upgraded one, and report what became of its components.

    Pointers refer to the document as written, where the components have the same ids.
    """
    document = with_components(draft.document)
    if not is_old_canvas(document, draft.catalog):
        return draft
    if count_components(document) > MAX_COMPONENTS:
        message = f"A canvas from before RAGFlow 0.20 may have {MAX_COMPONENTS:,} components at most."
        reporter.report("document-too-large", "error", draft.base, message, "Split it into several canvases.")
        return draft
    upgrade = upgrade_canvas(document, draft.catalog)
    message = f"The canvas was made before RAGFlow 0.20; {len(upgrade.changes)} components were upgraded in memory."
    reporter.report("legacy-component", "warning", draft.base, message, HINT)
    is_drawn = document is not draft.document
    drawn = components_from_graph(draft.document, draft.base, Reporter()) if is_drawn else ()
    places = {component.id: component.pointer for component in drawn}
    for change in upgrade.changes:
        pointer = places.get(change.id) or extend_pointer(draft.base, ["components", change.id])
        severity = "warning" if change.is_difference else "info"
        reporter.report("legacy-component", severity, pointer, str(change), HINT)
    return replace(draft, document=upgrade.document)
