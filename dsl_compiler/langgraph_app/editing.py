"""Edits of a stored state, so that the turn goes on behind them.

LangGraph forgets what was to run next when a state is edited, and works it out anew from edges. Nodes here name their
successors themselves, so an edit has to say what comes next: all that was to run before it, unless a node is named that
has not run yet. Then the edit stands for that node, and its successors come next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, cast

from langgraph.errors import InvalidUpdateError
from langgraph.types import Command, StateSnapshot, StateUpdate
from msgspec import Struct, field

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import NEXT, Plan, PlanNode
from ragflow_lg.dsl_compiler.langgraph_app.edit_values import edit_values
from ragflow_lg.dsl_compiler.langgraph_app.gate import RESET, gate_key
from ragflow_lg.dsl_compiler.names import CLOSING_NODE

__all__ = ["EditableGraph", "edited"]

_ENTERED = "branch:to:"
_NOT_A_RESULT = frozenset(
    {"__error__", "__error_source_node__", "__interrupt__", "__resume__", "__scheduled__", "__pregel_tasks"}
)


class EditableGraph(Protocol):
    """What an edit has to know of a compiled canvas."""

    @property
    def plan(self) -> Plan:
        """Return the plan of the canvas."""
        ...

    @property
    def names(self) -> Mapping[NodeId, str]:
        """Return the graph's name of each node."""
        ...

    @property
    def scope(self) -> NodeId | None:
        """Return the region whose body this is, None for the canvas."""
        ...

    @property
    def nodes(self) -> Mapping[str, Any]:
        """Return LangGraph's nodes by name."""
        ...

    @property
    def channels(self) -> Mapping[str, Any]:
        """Return LangGraph's channels by name."""
        ...


class _Edit(Struct):
    """What is written, and what is entered next."""

    writes: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    goto: list[str] = field(default_factory=list[str])


def edited(graph: EditableGraph, snapshot: StateSnapshot, pending: Iterable[Any], update: StateUpdate) -> StateUpdate:
    """Give the update that LangGraph has to be told for one that somebody asks for.

    ``snapshot`` is the state before it, and ``pending`` what LangGraph has stored of tasks that have run meanwhile.

    Raises:
        InvalidUpdateError: if the state cannot have these values, or they stand for a node of which it cannot be known
            what follows.
    """
    given = update.values
    if isinstance(given, Command):
        return update
    values = edit_values(given, graph.channels)
    ids = {name: id_ for id_, name in graph.names.items()}
    results = _results(snapshot, pending)
    edit = _Edit()
    is_done = False
    for task in snapshot.tasks:
        if task.id in results:
            _keep(graph, edit, results[task.id])
        elif task.name == update.as_node and not is_done:
            is_done = True
            _go_on(graph, edit, ids.get(task.name), values, snapshot)
        else:
            edit.goto.append(task.name)
    edit.writes += values
    goto = [name for name in dict.fromkeys(edit.goto) if name in graph.nodes]
    as_node = update.as_node or _last(graph, snapshot, ids)
    return StateUpdate(cast("Any", Command(update=edit.writes, goto=goto)), as_node, update.task_id)


def _results(snapshot: StateSnapshot, pending: Iterable[Any]) -> Mapping[str, list[tuple[str, Any]]]:
    """Give what tasks have written, by their ids; nothing where all of them have, for then they are to run again."""
    results: dict[str, list[tuple[str, Any]]] = {}
    for id_, channel, value in pending:
        if channel not in _NOT_A_RESULT:
            results.setdefault(id_, []).append((channel, value))
    return {} if all(task.id in results for task in snapshot.tasks) else results


def _keep(graph: EditableGraph, edit: _Edit, written: Iterable[tuple[str, Any]]) -> None:
    """Keep what a task has done already."""
    for channel, value in written:
        if channel.startswith(_ENTERED):
            edit.goto.append(channel.removeprefix(_ENTERED))
        elif channel in graph.channels:
            edit.writes.append((channel, value))


def _go_on(
    graph: EditableGraph,
    edit: _Edit,
    id_: NodeId | None,
    values: Iterable[tuple[str, Any]],
    snapshot: StateSnapshot,
) -> None:
    """Go on behind a node in whose place the edit stands."""
    if id_ is None:
        return  # the closing node
    if graph.scope is not None:
        raise InvalidUpdateError(
            "An edit cannot stand for a node in a Loop or Iteration: edit without as_node, and the node runs next."
        )
    plan = graph.plan
    node = plan.nodes[id_]
    targets = _chosen(node, dict(values)) if node.chooses else node.downstream
    joins = {join for join in plan.joins if plan.nodes[join].parent is None}
    edit.goto += [graph.names[target] for target in targets if target not in joins]
    edit.writes += [
        (gate_key(join), {id_: list(targets) if node.chooses else None}) for join in node.reports_to if join in joins
    ]
    if id_ in joins:
        edit.writes.append((gate_key(id_), RESET))
    if id_ == plan.entry:
        edit.goto.append(CLOSING_NODE)
    if not targets:
        step = cast("Mapping[str, Any]", snapshot.metadata or {}).get("step", 0)
        edit.writes.append(("turn", {"last": [step + 1, node.rank, id_]}))


def _chosen(node: PlanNode, values: Mapping[str, Any]) -> list[NodeId]:
    entry = values.get("outputs", {})
    outputs = entry.get(node.id, {}) if isinstance(entry, Mapping) else {}
    chosen: Any = cast("Mapping[str, Any]", outputs).get(NEXT) if isinstance(outputs, Mapping) else None
    if not isinstance(chosen, list) or any(target not in node.targets for target in cast("list[Any]", chosen)):
        example = {"outputs": {node.id: {NEXT: list(node.targets)[:1]}}}
        raise InvalidUpdateError(
            f"{node.id!r} chooses where the flow goes on; say where, among {', '.join(node.targets)}, as in {example}."
        )
    return [NodeId(target) for target in cast("list[str]", chosen)]


def _last(graph: EditableGraph, snapshot: StateSnapshot, ids: Mapping[str, NodeId]) -> str:
    """Name a node as which the edit is stored: every one can write all there is."""
    outputs = snapshot.values.get("outputs", {}) if isinstance(snapshot.values, dict) else {}
    ran = [name for name, id_ in ids.items() if id_ in outputs and name in graph.nodes]
    if ran:
        return max(ran, key=lambda name: graph.plan.nodes[ids[name]].rank)
    return next(name for name in graph.nodes if name in ids)
