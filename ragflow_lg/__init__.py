"""Run RAGFlow canvases on LangGraph.

`load_canvas` returns a LangGraph graph; `open_runner` runs sessions and yields RAGFlow's events.

>>> from ragflow_lg import load_canvas  # doctest: +SKIP
>>> graph = load_canvas("canvas.json")  # doctest: +SKIP
>>> state = await graph.ainvoke({"query": "Hello"})  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragflow_lg.base.errors import CompileError, RagflowLgError
    from ragflow_lg.runs.callbacks import RunCallbacks
    from ragflow_lg.runs.runner import Runner
    from ragflow_lg.server.assembly.library import load_graph as load_canvas
    from ragflow_lg.server.assembly.library import open_runner

    __version__: str

__all__ = ["CompileError", "RagflowLgError", "RunCallbacks", "Runner", "__version__", "load_canvas", "open_runner"]


def __dir__() -> list[str]:
    """Return the names that `__getattr__` imports as well."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Import the names on first use: components import this package, and ``check`` must stay fast."""
    if name == "__version__":
        from importlib.metadata import version

        return version("ragflow-lg")
    if name in ("CompileError", "RagflowLgError"):
        from ragflow_lg.base import errors

        return getattr(errors, name)
    if name == "Runner":
        from ragflow_lg.runs.runner import Runner

        return Runner
    if name == "RunCallbacks":
        from ragflow_lg.runs.callbacks import RunCallbacks

        return RunCallbacks
    if name in ("load_canvas", "open_runner"):
        from ragflow_lg.server.assembly import library

        return library.load_graph if name == "load_canvas" else library.open_runner
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
