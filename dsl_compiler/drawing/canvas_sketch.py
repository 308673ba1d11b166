"""The sketch of a canvas that is given as a document."""

from __future__ import annotations

from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.component.registry import Registry
from ragflow_lg.dsl_compiler.compiler import Source, check_canvas, read_components
from ragflow_lg.dsl_compiler.deployment import Deployment
from ragflow_lg.dsl_compiler.drawing.sketch import Sketch, sketch_draft, sketch_plan


def sketch_source(
    source: Source, catalog: Registry, deployment: Deployment
) -> tuple[Sketch | None, tuple[Diagnostic, ...]]:
    """Return the sketch of a canvas, and all diagnostics.

    A canvas that cannot run is sketched with all its components. The sketch is None if there are none.
    """
    plan, diagnostics = check_canvas(source, catalog, deployment)
    draft, _, _ = read_components(source, catalog)
    if plan is not None:
        return sketch_plan(plan, draft), diagnostics
    if draft is None or not draft.components:
        return None, diagnostics
    return sketch_draft(draft, diagnostics), diagnostics
