"""Run RAGFlow canvases on LangGraph.

>>> from ragflow_lg import load_canvas  # doctest: +SKIP
>>> canvas = load_canvas("canvas.json")  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragflow_lg.callbacks import RunCallbacks
    from ragflow_lg.runner import Runner
    from server.library import load_canvas, open_runner

__all__ = ["RunCallbacks", "Runner", "load_canvas", "open_runner"]


def __getattr__(name: str) -> Any:
    """Load the parts on first use: components import this package, and ``check`` has to stay light."""
    if name == "Runner":
        from ragflow_lg.runner import Runner

        return Runner
    if name == "RunCallbacks":
        from ragflow_lg.callbacks import RunCallbacks

        return RunCallbacks
    if name in ("load_canvas", "open_runner"):
        from server import library

        return getattr(library, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
