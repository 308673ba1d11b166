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
    from ragflow_lg.base.errors import AnswerError, CompileError, RagflowLgError, RunFailedError
    from ragflow_lg.dsl_compiler.langgraph_app.canvas_state import CanvasState, TurnFailure
    from ragflow_lg.library import check_canvas, load_canvas, open_runner
    from ragflow_lg.runs.callbacks import RunCallbacks
    from ragflow_lg.runs.runner import Runner
    from ragflow_lg.runs.wire.wire_events import (
        Message,
        MessageEnd,
        MessageReset,
        UserInputs,
        WireEvent,
        WireNodeFinished,
        WireNodeStarted,
        WorkflowFinished,
        WorkflowStarted,
    )

    __version__: str

__all__ = [
    "AnswerError",
    "CanvasState",
    "CompileError",
    "Message",
    "MessageEnd",
    "MessageReset",
    "RagflowLgError",
    "RunCallbacks",
    "RunFailedError",
    "Runner",
    "TurnFailure",
    "UserInputs",
    "WireEvent",
    "WireNodeFinished",
    "WireNodeStarted",
    "WorkflowFinished",
    "WorkflowStarted",
    "__version__",
    "check_canvas",
    "load_canvas",
    "open_runner",
]

_MODULES = {
    **dict.fromkeys(("check_canvas", "load_canvas", "open_runner"), "library"),
    **dict.fromkeys(("AnswerError", "CompileError", "RagflowLgError", "RunFailedError"), "base.errors"),
    **dict.fromkeys(("CanvasState", "TurnFailure"), "dsl_compiler.langgraph_app.canvas_state"),
    "RunCallbacks": "runs.callbacks",
    "Runner": "runs.runner",
    **dict.fromkeys(
        (
            *("Message", "MessageEnd", "MessageReset", "UserInputs", "WireEvent", "WireNodeFinished"),
            *("WireNodeStarted", "WorkflowFinished", "WorkflowStarted"),
        ),
        "runs.wire.wire_events",
    ),
}
"""Where the names are."""


def __dir__() -> list[str]:
    """Return the names that `__getattr__` imports as well."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Import the names on first use: components import this package, and ``check`` must stay fast."""
    if name == "__version__":
        from importlib.metadata import version

        return version("ragflow-lg")
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(f"ragflow_lg.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
