"""The graph's own drawing.

LangGraph finds edges by playing at most 250 supersteps and draws every declared goal dashed. The plan knows
all edges and which of them depend on the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.graph import Graph
from langgraph.constants import END, START
from langgraph.graph.state import CompiledStateGraph

from ragflow_lg.ids import NodeId
from ragflow_lg.plan import Plan

__all__ = ["CanvasGraph", "with_own_drawing"]


class CanvasGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph that is drawn from its plan."""

    plan: Plan
    names: Mapping[NodeId, str]

    def get_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Graph:
        """Give all nodes and edges; only edges that depend on the run are conditional."""
        graph = Graph()
        start, end = graph.add_node(None, START), graph.add_node(None, END)
        drawn = {
            id_: graph.add_node(self.nodes[name].bound, name, metadata=dict(self.nodes[name].metadata or {}))
            for id_, name in self.names.items()
        }
        graph.add_edge(start, drawn[self.plan.entry])
        for id_, node in drawn.items():
            edges = self.plan.nodes[id_].edges
            for edge in edges:
                graph.add_edge(node, drawn[edge.target], edge.label or None, edge.is_conditional)
            if not edges:
                graph.add_edge(node, end)
        return graph

    def copy(self, update: dict[str, Any] | None = None) -> Self:
        """Give a copy with some attributes changed, as LangGraph does; the plan goes along."""
        attributes = {k: v for k, v in self.__dict__.items() if k not in ("__orig_class__", "plan", "names")}
        twin = type(self)(**{**attributes, **(update or {})})
        twin.plan, twin.names = self.plan, self.names
        return twin


def with_own_drawing(
    graph: CompiledStateGraph[Any, Any, Any, Any], plan: Plan, names: Mapping[NodeId, str]
) -> CanvasGraph:
    """Make a compiled graph draw itself from its plan. It stays the same object."""
    graph.__class__ = CanvasGraph
    canvas = cast("CanvasGraph", graph)
    canvas.plan, canvas.names = plan, names
    return canvas
