"""The graph for LangGraph's tools: its schemas, edits and drawing.

LangGraph discovers edges by simulating at most 250 supersteps and draws every declared destination as conditional. The
plan contains all edges and specifies which of them depend on the run. It also contains a request's fields and an edited
node's successors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.graph import Graph, Node
from langgraph.constants import END, START
from langgraph.errors import InvalidUpdateError
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateUpdate
from pydantic import BaseModel

from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.langgraph_internals import NOT_EDITS, convert_graph, find_subgraph, resolve_checkpointer
from ragflow_lg.component.plan import Plan
from ragflow_lg.dsl_compiler.langgraph_app.editing import resolve_edit, validate_edit
from ragflow_lg.dsl_compiler.langgraph_app.schemas import (
    CanvasConfig,
    CanvasSettings,
    NoConfig,
    colour_of,
    input_schema,
    output_schema,
)


class CanvasGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph whose schemas, edits and drawing come from its plan."""

    added_attributes: ClassVar[tuple[str, ...]] = ("plan", "names", "scope")
    """Attributes that LangGraph's own graphs do not have."""

    plan: Plan
    names: Mapping[NodeId, str]
    """Each node's name in the graph."""
    scope: NodeId | None
    """The region whose body this is, or None for the canvas."""

    # Schemas

    def get_input_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """Return the schema for a request."""
        return super().get_input_jsonschema(config) if self.scope else input_schema(self.plan)

    def get_output_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """Return the schema for the state after a turn."""
        return super().get_output_jsonschema(config) if self.scope else output_schema(self.plan)

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """Return the schema for an assistant's settings."""
        return None if self.scope else CanvasSettings.model_json_schema()

    def config_schema(self, *, include: Sequence[str] | None = None) -> type[BaseModel]:
        """Return the model for the config, which may also contain an assistant's settings."""
        return NoConfig if self.scope else CanvasConfig

    # Edits

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Edit the state. The turn can continue afterwards; see `ragflow_lg.dsl_compiler.langgraph_app.editing`.

        Raises:
            InvalidUpdateError: if the edit is invalid or there is no such checkpoint.
        """
        checkpointer = resolve_checkpointer(self, config)
        is_edit = len(supersteps) == 1 and len(supersteps[0]) == 1 and supersteps[0][0].as_node not in NOT_EDITS
        if is_edit and checkpointer is not None and find_subgraph(self, config) is None:
            snapshot = await self.aget_state(config)
            saved = await checkpointer.aget_tuple(snapshot.config)
            if saved is not None:
                supersteps = [[resolve_edit(self, snapshot, saved.pending_writes or (), supersteps[0][0])]]
            elif config.get("configurable", {}).get("checkpoint_id"):
                raise InvalidUpdateError("The checkpoint does not exist; it may have been deleted.")
            else:
                graph: Any = self
                validate_edit(supersteps[0][0].values, graph.channels)
        return await super().abulk_update_state(config, supersteps)

    # Drawing

    async def aget_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Graph:
        """Return the drawing."""
        return self.get_graph(config, xray=xray)

    def get_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Graph:
        """Return all nodes and edges. Only edges that depend on the run are conditional.

        With ``xray``, regions are drawn with their bodies; if it is a number, only down to that depth.
        """
        graph = Graph()
        start, end = graph.add_node(None, START), graph.add_node(None, END)
        ends: dict[NodeId, tuple[Node, Node]] = {}
        for id_, name in self.names.items():
            if self.plan.nodes[id_].parent == self.scope:
                ends[id_] = self._draw_node(graph, id_, name, xray)
        first = self.plan.regions[self.scope].entry if self.scope else self.plan.entry
        graph.add_edge(start, ends[first][0] if first in ends else next(iter(ends.values()))[0])
        for id_, (_, node) in ends.items():
            edges = [edge for edge in self.plan.nodes[id_].edges if edge.target in ends]
            for edge in edges:
                graph.add_edge(node, ends[edge.target][0], edge.label or None, edge.is_conditional)
            if not edges:
                graph.add_edge(node, end)
        return graph

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """Return the drawing for a notebook as text. LangGraph's own is a picture that a web service draws."""
        return {"text/plain": repr(self), "text/vnd.mermaid": self.get_graph().draw_mermaid()}

    def _draw_node(self, graph: Graph, id_: NodeId, name: str, xray: int | bool) -> tuple[Node, Node]:
        """Add a node, or a region's whole body. Return the first and last node that were added."""
        graph_node: Any = self.nodes[name]
        inner = graph_node.subgraphs[0] if graph_node.subgraphs and xray else None
        if isinstance(inner, CanvasGraph):
            deeper = xray if isinstance(xray, bool) else xray - 1
            body = inner.get_graph(xray=deeper)
            body.trim_first_node()
            body.trim_last_node()
            first, last = graph.extend(body, prefix=name)
            if first is not None and last is not None:
                return first, last
        # LangGraph would merge its own nodes' metadata into the config of every execution, several times.
        planned = self.plan.nodes[id_]
        metadata = {
            "component_id": id_,
            "component_type": planned.spec.name,
            "title": planned.title or id_,
            "kind": planned.spec.kind,
            "color": colour_of(planned.spec.kind),
        }
        node = graph.add_node(graph_node.bound, name, metadata=metadata)
        return node, node

    def copy(self, update: dict[str, Any] | None = None) -> Self:
        """Return a copy with some attributes changed, as LangGraph does, that keeps the added attributes."""
        attributes = {k: v for k, v in self.__dict__.items() if k not in ("__orig_class__", *self.added_attributes)}
        copy = type(self)(**{**attributes, **(update or {})})
        for name in self.added_attributes:
            setattr(copy, name, getattr(self, name))
        return copy


def as_canvas_graph(
    graph: CompiledStateGraph[Any, Any, Any, Any], plan: Plan, names: Mapping[NodeId, str], scope: NodeId | None = None
) -> CanvasGraph:
    """Turn a compiled graph into a `CanvasGraph`, in place."""
    return convert_graph(graph, CanvasGraph, plan=plan, names=names, scope=scope)
