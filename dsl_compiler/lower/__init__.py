"""Lowering: from a Plan to a compiled LangGraph graph. The only place that builds one."""

from dsl_compiler.lower.graph import lower_plan

__all__ = ["lower_plan"]
