"""Compiles RAGFlow's canvas JSON (DSL v1) to LangGraph. It reads no files and opens no connections.

Imports every room below it except the catalog, which is an argument. Only `lower` and `langgraph_app` import LangGraph.
"""

from ragflow_lg.dsl_compiler.compiler import (
    CheckedCanvas,
    add_positions,
    check_canvas,
    compile_canvas,
    inspect_canvas,
    upgrade_source,
)
from ragflow_lg.dsl_compiler.deployment import NO_LIMITS, CanvasLimits
from ragflow_lg.dsl_compiler.diagnostics import extend_pointer
from ragflow_lg.dsl_compiler.passes.components_from_graph import with_components
from ragflow_lg.dsl_compiler.upgrade.old_canvas import is_old_canvas

__all__ = [
    "NO_LIMITS",
    "CanvasLimits",
    "CheckedCanvas",
    "add_positions",
    "check_canvas",
    "compile_canvas",
    "extend_pointer",
    "inspect_canvas",
    "is_old_canvas",
    "upgrade_source",
    "with_components",
]
