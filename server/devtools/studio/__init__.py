"""Canvases in LangGraph Studio: the files, graph factories and server process of ``ragflow-lg studio``.

May import `server.assembly`, `server.settings`, `server.http.edge` and the compiler. The generated modules import the
names below.
"""

from ragflow_lg.server.devtools.studio.graph_factories import canvas_factory, open_memories, open_sessions

__all__ = ["canvas_factory", "open_memories", "open_sessions"]
