"""Running a compiled graph to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from ragflow_lg.base.errors import RagflowLgError, RunError
from ragflow_lg.component.events import EventSink

if TYPE_CHECKING:
    from langgraph.runtime import RunControl


async def play(
    graph: Any, state: Any, config: Any, *, context: Any, control: RunControl | None = None, durability: Any = None
) -> Any:
    """Run a graph, within the run of the caller's context, and return its final state.

    Unlike LangGraph's ``ainvoke``, this does not collect the writes of every node.

    Raises:
        GraphInterrupt: if a node in an inner graph waits for the user.
        GraphRecursionError: if the run exceeds the recursion limit in the config.
        GraphDrained: if ``control`` requests it.
    """
    options = {"context": context, "control": control, "durability": durability}
    given = {name: value for name, value in options.items() if value is not None}
    final = None
    async for values in graph.astream(state, config, stream_mode="values", **given):
        final = values
    return final


class GraphTask(AbstractAsyncContextManager[None]):
    """A block in which the graph of a run runs. When it is left, the graph is stopped if it is still running."""

    def __init__(self, sink: EventSink) -> None:
        from langgraph.runtime import RunControl

        self._sink = sink
        self._task: asyncio.Task[None] | None = None
        self.control = RunControl()
        """Stops the graph at the end of a superstep."""

    def start(self, playing: Coroutine[Any, Any, None]) -> None:
        """Start the task. The sink of the run is closed when it ends."""
        self._task = asyncio.create_task(playing)
        self._task.add_done_callback(lambda _: self._sink.close())

    def __await__(self) -> Any:
        """Wait for the end of the graph, and raise its error."""
        assert self._task is not None
        return self._task.__await__()

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Stop the graph.

        Raises:
            RunError: if ``error`` is one of the engine.
        """
        self._sink.close()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if isinstance(error, Exception) and not isinstance(error, RagflowLgError):
            raise RunError(_describe_error(error)) from error


def _describe_error(error: Exception) -> str:
    from langgraph.errors import GraphRecursionError

    if isinstance(error, GraphRecursionError):
        return "The flow repeated a cycle too often and was stopped. Check the condition that leaves the cycle."
    return f"{type(error).__name__}: {error}"
