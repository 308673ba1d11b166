"""A canvas compiled to LangGraph."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ragflow_lg.base.errors import RunError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import Plan

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

    from ragflow_lg.component.state import TurnRequest
    from ragflow_lg.component.turn_context import TurnContext

__all__ = ["CYCLE_STEPS", "CompiledCanvas", "run_to_end"]

CYCLE_STEPS = 10_000
"""Most supersteps that a canvas with a cycle outside of any Loop may take in one turn."""


class CompiledCanvas(Struct, frozen=True, eq=False):
    """The plan, the graph lowered from it, and the names of its nodes there."""

    plan: Plan
    graph: CompiledStateGraph[Any, Any, Any, Any]
    names: Mapping[NodeId, str]

    @property
    def recursion_limit(self) -> int:
        """How many supersteps a turn may take: each node once, the two ends and the settling of gates.

        Cycles outside of Loops have a fixed limit.
        """
        settling = sum(bool(join.looping) for join in self.plan.joins.values())
        return CYCLE_STEPS if self.plan.cyclic else len(self.plan.nodes) + settling + 10

    def with_saver(self, saver: BaseCheckpointSaver[Any] | None) -> CompiledCanvas:
        """Give the same canvas with a checkpointer; the compiled graph is shared."""
        return replace(self, graph=self.graph.copy(update={"checkpointer": saver})) if saver else self

    async def play_inside(self, request: TurnRequest, turn: TurnContext) -> dict[str, Any]:
        """Play a turn of its own within a node of another canvas; give the state that it leaves.

        Nothing of the graph around is seen: LangGraph would take this one for a part of it, checkpoints included.

        Raises:
            RunError: if the flow goes round a cycle too often.
        """
        from langchain_core.runnables.config import var_child_runnable_config
        from langgraph.errors import GraphRecursionError

        context = copy_context()
        context.run(var_child_runnable_config.set, None)
        config = {"recursion_limit": self.recursion_limit}
        playing = run_to_end(self.graph, {"query": "", **request}, config, context=turn)
        try:
            return await asyncio.create_task(playing, context=context)
        except GraphRecursionError:
            raise RunError("The flow went round a cycle too often and was stopped.") from None
        finally:
            turn.limits.close()


async def run_to_end(graph: Any, state: Mapping[str, Any], config: Any, *, context: Any) -> Any:
    """Run a graph; return its final state, None if there is none.

    Unlike LangGraph's ``ainvoke``, this does not collect the writes of every node in every superstep.

    Raises:
        GraphInterrupt: if a node of an inner graph waits for the user.
        GraphRecursionError: if the run exceeds the recursion limit of the config.
    """
    final = None
    async for values in graph.astream(state, config, context=context, stream_mode="values"):
        final = values
    return final
