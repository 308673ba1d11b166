"""Run RAGFlow canvases on LangGraph.

>>> from ragflow_lg import load_canvas  # doctest: +SKIP
>>> canvas = load_canvas("canvas.json")  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragflow_lg.runner import Runner
    from server.library import load_canvas

__all__ = ["Runner", "load_canvas"]


def __getattr__(name: str) -> Any:
    """Load the parts on first use: components import this package, and ``check`` has to stay light."""
    if name == "Runner":
        from ragflow_lg.runner import Runner

        return Runner
    if name == "load_canvas":
        from server.library import load_canvas

        return load_canvas
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
