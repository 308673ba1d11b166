"""Builds the graphs: one for the canvas and one for each region's body, with the gates for joins."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from langgraph.channels.ephemeral_value import EphemeralValue
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from msgspec.structs import replace
from typing_extensions import TypedDict

from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.langgraph_internals import add_trigger, set_stream_channels, set_subgraph
from ragflow_lg.component.plan import Plan, PlanNode, Region
from ragflow_lg.component.state import CanvasState, ParallelState, RegionState, TurnRequest
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.dsl.joins import JoinRegion
from ragflow_lg.dsl_compiler.draft import enclosing
from ragflow_lg.dsl_compiler.langgraph_app.canvas_graph import as_canvas_graph
from ragflow_lg.dsl_compiler.langgraph_app.gate import JoinGate, gate_key
from ragflow_lg.dsl_compiler.lower.nodes import (
    ClosingNode,
    EntryNode,
    Node,
    ParallelEntry,
    ParallelRound,
    RegionEntry,
    RegionNode,
    RoundClosing,
)
from ragflow_lg.dsl_compiler.names import CLOSING_NODE, ROUND_NODE, graph_name
from ragflow_lg.engine.compiled_canvas import CYCLE_STEPS, CompiledCanvas
from ragflow_lg.engine.node_program import NodeProgram
from ragflow_lg.engine.scope import RegionProgram

SubGraph = CompiledStateGraph[Any, Any, Any, Any]

_Request = TypedDict(
    "_Request", dict.fromkeys(TurnRequest.__annotations__, Annotated[Any, EphemeralValue]), total=False
)  # pyright: ignore[reportGeneralTypeIssues, reportArgumentType, reportAssignmentType, reportIncompatibleVariableOverride]


class _EntryState(CanvasState, _Request, total=False):  # pyright: ignore[reportGeneralTypeIssues, reportArgumentType, reportAssignmentType, reportIncompatibleVariableOverride]
    """The entry node's state: the session and the request."""


@cache
def _with_channels(schema: Any) -> Any:
    """Return a schema whose fields have channels. LangGraph would make them from the annotations, for each graph."""
    builder: Any = StateGraph(schema)
    fields = {name: Annotated[Any, channel] for name, channel in builder.channels.items()}
    return TypedDict(schema.__name__, fields, total=False)  # pyright: ignore[reportGeneralTypeIssues, reportArgumentType, reportAssignmentType, reportIncompatibleVariableOverride]


def lower_plan(plan: Plan) -> CompiledCanvas:
    """Lower a plan that has no errors. Attach a checkpointer to the graph with `CompiledCanvas.with_saver`."""
    plan = replace(plan, nodes={id_: _with_graphs(node) for id_, node in plan.nodes.items()})
    names = {id_: graph_name(id_) for id_, node in plan.nodes.items() if node.rank >= 0}
    graph = _Lowering(plan, names).build_canvas()
    return CompiledCanvas(plan, as_canvas_graph(graph, plan, names), names)


def _with_graphs(node: PlanNode) -> PlanNode:
    """Add the graphs for the canvases that a node and its tools run."""
    if node.tools:
        node = replace(node, tools=tuple(_with_graphs(tool) for tool in node.tools))
    if node.canvas is None:
        return node
    return replace(node, canvas=replace(node.canvas, compiled=lower_plan(node.canvas.plan)))


class _Lowering:
    """Builds all graphs for one canvas."""

    def __init__(self, plan: Plan, names: Mapping[NodeId, str]) -> None:
        self._plan = plan
        self._names = names

    def build_canvas(self) -> SubGraph:
        """Build the graph for the canvas itself."""
        plan, joins = self._plan, self._joins(None)
        gates = {join: gate_key(join) for join in joins}
        builder: Any = StateGraph(
            _with_gates("State", _EntryState, joins),
            context_schema=TurnContext,
            input_schema=_with_channels(_Request),
            output_schema=_with_channels(CanvasState),
        )
        regions: dict[str, SubGraph] = {}
        shells: dict[str, Node] = {}
        for node in self._scope(None):
            is_entry = node.id == plan.entry
            shell = (
                EntryNode(self._program(node, gates), tuple(gates.values()))
                if is_entry
                else self._shell(node, gates, regions)
            )
            schema = _with_channels(_EntryState if is_entry else CanvasState)
            builder.add_node(self._names[node.id], shell, input_schema=schema)
            shells[self._names[node.id]] = shell
        self._join_followers(shells)
        builder.add_node(
            CLOSING_NODE, ClosingNode(plan, _looping(joins)), input_schema=_with_channels(CanvasState), defer=True
        )
        builder.add_edge(START, self._names[plan.entry])
        return self._finish(builder.compile(name=plan.title or "canvas"), gates, regions)

    def _build_region(self, region: Region) -> tuple[RegionProgram, SubGraph, int]:
        """Build the graph for a region's body. Also return its program and the maximum supersteps per round."""
        joins = self._joins(region.owner)
        gates = {join: gate_key(join) for join in joins}
        entry = graph_name(region.entry)
        program = self._region_program(region, gates)
        schema = _with_channels(RegionState)
        builder: Any = StateGraph(_with_gates("Body", schema, joins), context_schema=TurnContext)
        regions: dict[str, SubGraph] = {}
        shells: dict[str, Node] = {}
        first = RegionEntry(region.entry)
        builder.add_node(entry, first, input_schema=schema)
        for node in self._scope(region.owner):
            if node.id != region.item:
                shell = self._shell(node, gates, regions, region)
                builder.add_node(self._names[node.id], shell, input_schema=schema)
                shells[self._names[node.id]] = shell
        self._join_followers(shells, first)
        if region.needs_closing:
            closing = RoundClosing(_looping(joins))
            builder.add_node(CLOSING_NODE, closing, input_schema=schema, defer=True)
        builder.add_edge(START, entry)
        graph = self._finish(builder.compile(name=region.owner), gates, regions)
        in_cycle = any(node in self._plan.cyclic for node in region.body)
        steps = CYCLE_STEPS if in_cycle else len(region.body) + len(_looping(joins)) + 2
        if region.item:
            graph = as_canvas_graph(graph, self._plan, self._names, region.owner)
        return program, _build_parallel_region(region, graph, steps) if program.max_concurrency > 1 else graph, steps

    def _join_followers(self, shells: Mapping[str, Node], *before: RegionEntry) -> None:
        """Set the nodes that may run in the same superstep after each node of a scope."""
        joined = {name: shell for name, shell in shells.items() if self._takes_turns(shell.node)}
        for shell in (*joined.values(), *before):
            shell.followers = joined

    def _takes_turns(self, node: PlanNode) -> bool:
        """Return whether nothing else can run beside a node, which neither waits for the user nor can repeat for ever.

        A node that has an effect with its params is left out when it runs.
        """
        if (
            node.spec.kind in ("entry", "interrupt", "region")
            or node.tools
            or node.canvas
            or node.id in self._plan.cyclic
        ):
            return False
        owners = enclosing(node, self._plan.nodes)
        return node.runs_alone and all(
            owner.runs_alone and owner.spec.region and owner.spec.region.max_concurrency(owner.params) == 1
            for owner in owners
        )

    def _region_program(self, region: Region, gates: Mapping[NodeId, str]) -> RegionProgram:
        item = self._plan.nodes[region.item] if region.item else None
        owner = self._plan.nodes[region.owner]
        rules = owner.spec.region
        assert rules is not None
        collects = rules.collects(owner.params)
        return RegionProgram(
            self._program(owner, {join: gate_key(join) for join in self._joins(owner.parent)}),
            region,
            rules,
            self._program(item, gates) if item else None,
            tuple(self._names[node] for node in region.start if node not in gates),
            tuple(gates.values()),
            tuple(gates[join] for join, gate in self._joins(region.owner).items() if region.entry in gate.watched),
            frozenset(self._plan.nodes_inside(region)),
            collects,
            any(reference.kind == "global" for reference, path in owner.references if path == ("items_ref",)),
        )

    def _scope(self, parent: NodeId | None) -> list[PlanNode]:
        return [node for node in self._plan.nodes.values() if node.rank >= 0 and node.parent == parent]

    def _joins(self, parent: NodeId | None) -> dict[NodeId, JoinRegion]:
        return {join: gate for join, gate in self._plan.joins.items() if self._plan.nodes[join].parent == parent}

    def _shell(
        self, node: PlanNode, gates: Mapping[NodeId, str], regions: dict[str, SubGraph], around: Region | None = None
    ) -> Node:
        closing = CLOSING_NODE if around else ""
        is_closer = around is not None and node.id in around.closers
        region = self._plan.regions.get(node.id)
        if region is None:
            return Node(self._program(node, gates), closing, is_closer=is_closer)
        program, graph, steps = self._build_region(region)
        regions[self._names[node.id]] = graph
        return RegionNode(program, graph, steps, closing, is_closer=is_closer)

    def _program(self, node: PlanNode, gates: Mapping[NodeId, str]) -> NodeProgram:
        return NodeProgram(
            self._plan,
            node,
            {
                target: self._names[target]
                for target in node.targets
                if self._plan.nodes[target].parent == node.parent
                and target not in gates
                and self._plan.nodes[target].spec.kind != "region_item"
            },
            tuple(gates[join] for join in node.reports_to if join in gates),
            dict.fromkeys(node.outputs),
            frozenset(t for t in node.targets if self._leaves(node, t)),
        )

    def _leaves(self, node: PlanNode, target: NodeId) -> bool:
        """Return whether an edge leads out of the body that contains the node."""
        parent = node.parent
        return parent is not None and target != parent and self._plan.nodes[target].parent != parent

    def _finish(self, graph: SubGraph, gates: Mapping[NodeId, str], regions: Mapping[str, SubGraph]) -> SubGraph:
        for join, key in gates.items():
            add_trigger(graph, self._names[join], key)
        for name, subgraph in regions.items():
            set_subgraph(graph, name, subgraph)
        # Gates and the request are internal.
        set_stream_channels(graph, (*CanvasState.__annotations__, *RegionState.__annotations__))
        graph.validate()
        return graph


def _build_parallel_region(region: Region, body: SubGraph, steps: int) -> SubGraph:
    """Build the graph that runs a body for several items in parallel, each as a separate task."""
    builder: Any = StateGraph(ParallelState, context_schema=TurnContext)
    builder.add_node(graph_name(region.entry), ParallelEntry(region.entry), input_schema=ParallelState)
    builder.add_node(ROUND_NODE, ParallelRound(graph_name(region.entry), body, steps), input_schema=_OneRound)
    builder.add_edge(START, graph_name(region.entry))
    graph = builder.compile(name=region.owner)
    set_subgraph(graph, ROUND_NODE, body)
    return graph


class _OneRound(TypedDict):
    """The input of a round."""

    round: int


def _looping(joins: Mapping[NodeId, JoinRegion]) -> list[str]:
    return [gate_key(join) for join, gate in joins.items() if gate.looping]


def _with_gates(name: str, base: Any, joins: Mapping[NodeId, JoinRegion]) -> Any:
    gates = {gate_key(join): Annotated[dict[str, Any], JoinGate(gate)] for join, gate in joins.items()}
    fields = {**_with_channels(base).__annotations__, **gates}
    return TypedDict(name, fields, total=False)  # pyright: ignore[reportGeneralTypeIssues, reportArgumentType, reportAssignmentType, reportIncompatibleVariableOverride]
