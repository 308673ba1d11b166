"""A canvas compiled to LangGraph, and running its graph to the end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ragflow_lg.base.errors import RagflowLgError, RunError
from ragflow_lg.base.ids import NodeId, SessionId, thread_of_session
from ragflow_lg.base.langgraph_internals import copy_context_without_run
from ragflow_lg.component.events import EventSink
from ragflow_lg.component.plan import Plan

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.runtime import RunControl

    from ragflow_lg.component.state import TurnRequest
    from ragflow_lg.component.turn_context import TurnContext


CYCLE_STEPS = 10_000
"""Maximum number of supersteps per turn for a canvas with a cycle outside any Loop."""


class CompiledCanvas(Struct, frozen=True, eq=False):
    """A plan, the graph built from it, and the graph names of its nodes."""

    plan: Plan
    graph: CompiledStateGraph[Any, Any, Any, Any]
    names: Mapping[NodeId, str]

    @property
    def recursion_limit(self) -> int:
        """The maximum number of supersteps per turn: one per node, plus the entry, the exit and the settling of gates.

        Canvases with cycles outside Loops have a fixed limit.
        """
        gates = sum(bool(join.looping) for join in self.plan.joins.values())
        return CYCLE_STEPS if self.plan.cyclic else len(self.plan.nodes) + gates + 10

    def thread_config(self, session: SessionId | str) -> Any:
        """Return the LangGraph config for a session."""
        return {"configurable": {"thread_id": thread_of_session(session)}, "recursion_limit": self.recursion_limit}

    @property
    def has_saver(self) -> bool:
        """Whether its sessions are stored."""
        graph: Any = self.graph
        return graph.checkpointer is not None

    def with_saver(self, saver: BaseCheckpointSaver[Any] | None) -> CompiledCanvas:
        """Return the same canvas with a checkpointer; the compiled graph is shared."""
        return replace(self, graph=self.graph.copy(update={"checkpointer": saver})) if saver else self

    async def play_inside(self, request: TurnRequest, turn: TurnContext) -> dict[str, Any]:
        """Run a separate turn within a node of another canvas; return its final state.

        Raises:
            RunError: if a cycle repeats too often.
        """
        from langgraph.errors import GraphRecursionError

        config = {"recursion_limit": self.recursion_limit}
        apart = copy_context_without_run()
        run = apart.run(play, self.graph, {"query": "", **request}, config, context=turn)
        try:
            return await asyncio.create_task(run, context=apart)
        except GraphRecursionError:
            raise RunError("The flow repeated a cycle too often and was stopped.") from None


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
