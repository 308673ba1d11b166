"""The graph's own drawing.

LangGraph finds edges by playing at most 250 supersteps and draws every declared goal dashed. The plan knows
all edges and which of them depend on the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.graph import Graph, Node
from langgraph.constants import END, START
from langgraph.graph.state import CompiledStateGraph

from ragflow_lg.ids import NodeId
from ragflow_lg.plan import Plan

__all__ = ["CanvasGraph", "with_own_drawing"]


class CanvasGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph that is drawn from its plan. ``scope`` is the region whose body it is, None for the canvas."""

    plan: Plan
    names: Mapping[NodeId, str]
    scope: NodeId | None

    def get_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Graph:
        """Give all nodes and edges; only edges that depend on the run are conditional.

        With ``xray`` regions are drawn with what is inside of them, to that depth if it is a number.
        """
        graph = Graph()
        start, end = graph.add_node(None, START), graph.add_node(None, END)
        ends: dict[NodeId, tuple[Node, Node]] = {}
        for id_, name in self.names.items():
            if self.plan.nodes[id_].parent == self.scope:
                ends[id_] = self._drawn(graph, id_, name, xray)
        first = self.plan.regions[self.scope].entry if self.scope else self.plan.entry
        graph.add_edge(start, ends[first][0] if first in ends else next(iter(ends.values()))[0])
        for id_, (_, node) in ends.items():
            edges = [edge for edge in self.plan.nodes[id_].edges if edge.target in ends]
            for edge in edges:
                graph.add_edge(node, ends[edge.target][0], edge.label or None, edge.is_conditional)
            if not edges:
                graph.add_edge(node, end)
        return graph

    def _drawn(self, graph: Graph, id_: NodeId, name: str, xray: int | bool) -> tuple[Node, Node]:
        """Add a node, or the whole of a region; give where it begins and where it ends."""
        own = self.nodes[name]
        inner = own.subgraphs[0] if own.subgraphs and xray else None
        if isinstance(inner, CanvasGraph):
            deeper = xray if isinstance(xray, bool) else xray - 1
            drawn = inner.get_graph(xray=deeper)
            drawn.trim_first_node()
            drawn.trim_last_node()
            first, last = graph.extend(drawn, prefix=name)
            if first is not None and last is not None:
                return first, last
        # Given to the nodes themselves, LangGraph would merge it into the config of every visit, several times over.
        planned = self.plan.nodes[id_]
        about = {"component_id": id_, "component_type": planned.spec.name, "title": planned.title or id_}
        node = graph.add_node(own.bound, name, metadata=about)
        return node, node

    def copy(self, update: dict[str, Any] | None = None) -> Self:
        """Give a copy with some attributes changed, as LangGraph does; the plan goes along."""
        own = ("__orig_class__", "plan", "names", "scope")
        attributes = {k: v for k, v in self.__dict__.items() if k not in own}
        twin = type(self)(**{**attributes, **(update or {})})
        twin.plan, twin.names, twin.scope = self.plan, self.names, self.scope
        return twin


def with_own_drawing(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    plan: Plan,
    names: Mapping[NodeId, str],
    scope: NodeId | None = None,
) -> CanvasGraph:
    """Make a compiled graph draw itself from its plan. It stays the same object."""
    graph.__class__ = CanvasGraph
    canvas = cast("CanvasGraph", graph)
    canvas.plan, canvas.names, canvas.scope = plan, names, scope
    return canvas
