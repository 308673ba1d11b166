"""Lowering: from a Plan to a compiled LangGraph graph. The only place that builds one."""

from ragflow_lg.dsl_compiler.langgraph_app.application import CanvasApplication, OpenServices, as_application
from ragflow_lg.dsl_compiler.lower.graph import lower_plan

__all__ = ["CanvasApplication", "OpenServices", "as_application", "lower_plan"]
