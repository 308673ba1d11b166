"""Lowering: from a Plan to a compiled LangGraph graph. The only place that builds one."""

from dsl_compiler.lower.application import CanvasApplication, OpenServices, as_application
from dsl_compiler.lower.graph import lower_plan

__all__ = ["CanvasApplication", "OpenServices", "as_application", "lower_plan"]
