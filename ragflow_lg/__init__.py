"""Run RAGFlow canvases on LangGraph.

`load_canvas` returns a LangGraph graph; `open_runner` runs sessions and yields RAGFlow's events; `check_canvas` returns
the problems of a canvas. `ragflow_lg.langchain` has its counterparts of LangChain.

>>> from ragflow_lg import load_canvas  # doctest: +SKIP
>>> graph = load_canvas("canvas.json")  # doctest: +SKIP
>>> state = graph.invoke({"query": "Hello"})  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragflow_lg.base.errors import CompileError, RagflowLgError
    from ragflow_lg.runs.callbacks import RunCallbacks
    from ragflow_lg.runs.runner import Runner
    from ragflow_lg.server.assembly.library import check_source as check_canvas
    from ragflow_lg.server.assembly.library import load_graph as load_canvas
    from ragflow_lg.server.assembly.library import open_runner

    __version__: str

__all__ = [
    "CompileError",
    "RagflowLgError",
    "RunCallbacks",
    "Runner",
    "__version__",
    "check_canvas",
    "load_canvas",
    "open_runner",
]

_LIBRARY = {"check_canvas": "check_source", "load_canvas": "load_graph", "open_runner": "open_runner"}


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
    if name in _LIBRARY:
        from ragflow_lg.server.assembly import library

        return getattr(library, _LIBRARY[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
