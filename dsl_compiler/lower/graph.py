"""Build the graph: state schema, nodes, the two ends of a turn, the gates of joins."""

from __future__ import annotations

from typing import Annotated, Any

from langgraph.channels.ephemeral_value import EphemeralValue
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from dsl_compiler.lower.drawing import with_own_drawing
from dsl_compiler.lower.gate import JoinGate, gate_key
from dsl_compiler.lower.nodes import ClosingNode, EntryNode, Node
from dsl_compiler.names import CLOSING_NODE, graph_name
from ragflow_lg.compiled import CompiledCanvas
from ragflow_lg.context import TurnContext
from ragflow_lg.ids import NodeId
from ragflow_lg.node import NodeProgram
from ragflow_lg.plan import Plan, PlanNode
from ragflow_lg.state import CanvasState, TurnRequest

__all__ = ["lower_plan"]

_Request = TypedDict(
    "_Request", dict.fromkeys(TurnRequest.__annotations__, Annotated[Any, EphemeralValue]), total=False
)  # pyright: ignore[reportGeneralTypeIssues, reportArgumentType, reportAssignmentType, reportIncompatibleVariableOverride]


class _EntryState(CanvasState, _Request, total=False):  # pyright: ignore[reportGeneralTypeIssues, reportArgumentType, reportAssignmentType, reportIncompatibleVariableOverride]
    """What the entry node reads: the session and the request."""


def lower_plan(plan: Plan) -> CompiledCanvas:
    """Lower a plan that has no errors. The graph has no checkpointer; attach one with ``with_saver``."""
    nodes = {id_: node for id_, node in plan.nodes.items() if node.rank >= 0}
    names = {id_: graph_name(id_) for id_ in nodes}
    gates = {join: gate_key(join) for join in plan.joins}
    builder = StateGraph(
        _state_schema(plan), context_schema=TurnContext, input_schema=_Request, output_schema=CanvasState
    )
    for node in nodes.values():
        program = _program(plan, node, names, gates)
        is_entry = node.id == plan.entry
        builder.add_node(
            names[node.id],
            EntryNode(program, tuple(gates.values())) if is_entry else Node(program),
            input_schema=_EntryState if is_entry else CanvasState,
            metadata={"component_id": node.id, "component_type": node.spec.name, "title": node.title or node.id},
            destinations=tuple(names[target] for target in node.targets),
        )
    looping = [gates[join] for join, region in plan.joins.items() if region.looping]
    builder.add_node(CLOSING_NODE, ClosingNode(looping), input_schema=CanvasState, defer=True)
    builder.add_edge(START, names[plan.entry])
    graph = builder.compile(name=plan.title or "canvas")
    for join, key in gates.items():
        graph.nodes[names[join]].triggers.append(key)
    graph.validate()
    return CompiledCanvas(plan, with_own_drawing(graph, plan, names), names)


def _state_schema(plan: Plan) -> Any:
    gates = {gate_key(join): Annotated[dict[str, Any], JoinGate(region)] for join, region in plan.joins.items()}
    fields = {**_EntryState.__annotations__, **gates}
    return TypedDict("State", fields, total=False)  # pyright: ignore[reportGeneralTypeIssues, reportArgumentType, reportAssignmentType, reportIncompatibleVariableOverride]


def _program(plan: Plan, node: PlanNode, names: dict[NodeId, str], gates: dict[NodeId, str]) -> NodeProgram:
    return NodeProgram(
        plan,
        node,
        {target: names[target] for target in node.targets if target not in gates},
        tuple(gates[join] for join in node.reports_to),
        dict.fromkeys(node.outputs),
    )
