"""The graph as LangGraph's tools see it: its drawing, its schemas, its state.

LangGraph finds edges by playing at most 250 supersteps and draws every declared goal dashed. The plan knows
all edges and which of them depend on the run. It also knows what a canvas takes, and what has to run behind an edit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.graph import Graph, Node
from langgraph.constants import END, START
from langgraph.errors import InvalidUpdateError
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateUpdate
from pydantic import BaseModel

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import Plan
from ragflow_lg.dsl_compiler.langgraph_app.edit_values import edit_values
from ragflow_lg.dsl_compiler.langgraph_app.editing import edited
from ragflow_lg.dsl_compiler.langgraph_app.schemas import (
    CanvasConfig,
    CanvasSettings,
    NoConfig,
    colour_of,
    input_schema,
    output_schema,
)

__all__ = ["CanvasGraph", "with_own_drawing"]

_NOT_EDITS = ("__start__", "__end__", "__input__", "__copy__")
"""What LangGraph takes in place of a node's name for updates that are no edits."""


class CanvasGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph that is drawn from its plan. ``scope`` is the region whose body it is, None for the canvas."""

    own: ClassVar[tuple[str, ...]] = ("plan", "names", "scope")
    """The attributes that LangGraph's graphs do not have."""

    plan: Plan
    names: Mapping[NodeId, str]
    scope: NodeId | None

    # What it takes and gives

    def get_input_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """Give the schema of a request."""
        return super().get_input_jsonschema(config) if self.scope else input_schema(self.plan)

    def get_output_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """Give the schema of the state that a turn leaves."""
        return super().get_output_jsonschema(config) if self.scope else output_schema(self.plan)

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """Give the schema of what an assistant can be set to."""
        return None if self.scope else CanvasSettings.model_json_schema()

    def config_schema(self, *, include: Sequence[str] | None = None) -> type[BaseModel]:
        """Give the model of the config, where an assistant can be set too."""
        return NoConfig if self.scope else CanvasConfig

    # Edits

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Edit the state. What was to run next still does; see `ragflow_lg.dsl_compiler.langgraph_app.editing`.

        Raises:
            InvalidUpdateError: if the state cannot be edited so, or there is no such checkpoint.
        """
        checkpointer = self._state_checkpointer(config)
        is_edit = len(supersteps) == 1 and len(supersteps[0]) == 1 and supersteps[0][0].as_node not in _NOT_EDITS
        if is_edit and self._subgraph_for_namespace(config, checkpointer) is None:
            snapshot = await self.aget_state(config)
            saved = await checkpointer.aget_tuple(snapshot.config)
            if saved is not None:
                supersteps = [[edited(self, snapshot, saved.pending_writes or (), supersteps[0][0])]]
            elif config.get("configurable", {}).get("checkpoint_id"):
                raise InvalidUpdateError("There is no such checkpoint; it may have been deleted.")
            else:
                edit_values(supersteps[0][0].values, self.channels)
        return await super().abulk_update_state(config, supersteps)

    # The drawing

    async def aget_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Graph:
        """Give the drawing."""
        return self.get_graph(config, xray=xray)

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
        about = {
            "component_id": id_,
            "component_type": planned.spec.name,
            "title": planned.title or id_,
            "kind": planned.spec.kind,
            "color": colour_of(planned.spec.kind),
        }
        node = graph.add_node(own.bound, name, metadata=about)
        return node, node

    def copy(self, update: dict[str, Any] | None = None) -> Self:
        """Give a copy with some attributes changed, as LangGraph does; the plan goes along."""
        attributes = {k: v for k, v in self.__dict__.items() if k not in ("__orig_class__", *self.own)}
        twin = type(self)(**{**attributes, **(update or {})})
        for name in self.own:
            setattr(twin, name, getattr(self, name))
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
