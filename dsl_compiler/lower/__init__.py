"""Lowers a plan to a compiled LangGraph graph. No other room builds graphs.

Imports the engine and `langgraph_app`, whose applications it re-exports.
"""

from ragflow_lg.dsl_compiler.langgraph_app.application import CanvasApplication, OpenServices, as_application
from ragflow_lg.dsl_compiler.lower.graph import lower_plan

__all__ = ["CanvasApplication", "OpenServices", "as_application", "lower_plan"]
