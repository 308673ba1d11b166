"""A canvas compiled to LangGraph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ragflow_lg.ids import NodeId
from ragflow_lg.plan import Plan

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

__all__ = ["CYCLE_STEPS", "CompiledCanvas"]

CYCLE_STEPS = 10_000
"""Most supersteps that a canvas with a cycle outside of any Loop may take in one turn."""


@dataclass(frozen=True, slots=True, eq=False)
class CompiledCanvas:
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
