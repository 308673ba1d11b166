"""A canvas compiled to LangGraph."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ragflow_lg.base.errors import RunError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.langgraph_internals import copy_context_without_run
from ragflow_lg.component.plan import Plan

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

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

        from ragflow_lg.engine.graph_run import play

        config = {"recursion_limit": self.recursion_limit}
        apart = copy_context_without_run()
        run = apart.run(play, self.graph, {"query": "", **request}, config, context=turn)
        try:
            return await asyncio.create_task(run, context=apart)
        except GraphRecursionError:
            raise RunError("The flow repeated a cycle too often and was stopped.") from None
