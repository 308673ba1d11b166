"""Canvases in LangGraph Studio and on the Agent Server: what the module that ``ragflow-lg studio`` writes imports."""

from ragflow_lg.server.studio.graph_factories import canvas_factory, open_sessions

__all__ = ["canvas_factory", "open_sessions"]
