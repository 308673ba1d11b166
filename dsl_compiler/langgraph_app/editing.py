"""Edits to a stored state after which the turn can continue.

When a state is edited, LangGraph discards the nodes that were next and derives them again from the edges. A canvas has
no edges, since its nodes name their successors, so the edit has to name the next nodes. These are the nodes that were
next before, unless the edit is made as one of them. In that case, the edit replaces that node's run, and the node's
successors are next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

import msgspec
from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.serde.types import TASKS
from langgraph.errors import InvalidUpdateError
from langgraph.types import Command, StateSnapshot, StateUpdate
from msgspec import Struct, field
from typing_extensions import TypedDict

from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.langgraph_internals import BRANCH_PREFIX, OVERWRITE
from ragflow_lg.base.values import shorten_integers
from ragflow_lg.component.plan import NEXT, Plan, PlanNode
from ragflow_lg.component.state import CanvasState, ParallelState, replace_list
from ragflow_lg.dsl_compiler.langgraph_app.gate import RESET, gate_key
from ragflow_lg.dsl_compiler.names import CLOSING_NODE

_NOT_RESULTS = {*WRITES_IDX_MAP, TASKS}
"""Channels of pending writes that are not a task's results."""


class EditableGraph(Protocol):
    """The parts of a compiled canvas that an edit needs."""

    @property
    def plan(self) -> Plan:
        """The canvas's plan."""
        ...

    @property
    def names(self) -> Mapping[NodeId, str]:
        """Each node's name in the graph."""
        ...

    @property
    def scope(self) -> NodeId | None:
        """The region whose body this is, or None for the canvas."""
        ...

    @property
    def nodes(self) -> Mapping[str, Any]:
        """LangGraph's nodes by name."""
        ...

    @property
    def channels(self) -> Mapping[str, Any]:
        """LangGraph's channels by name."""
        ...


class _Edit(Struct):
    """An edit's writes and the nodes that are next."""

    writes: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    goto: list[str] = field(default_factory=list[str])


def resolve_edit(
    graph: EditableGraph, snapshot: StateSnapshot, pending: Iterable[Any], update: StateUpdate
) -> StateUpdate:
    """Return the LangGraph update that has the effect of a requested edit.

    Args:
        graph: The canvas or a region's body.
        snapshot: The state before the edit.
        pending: Writes by tasks that have run since the snapshot's checkpoint, as (task id, channel, value).
        update: The requested edit.

    Raises:
        InvalidUpdateError: if the values are invalid for the state, or the edit replaces the run of a node whose
            successors are unknown.
    """
    if isinstance(update.values, Command):
        return update
    values = validate_edit(update.values, graph.channels)
    ids = {name: id_ for id_, name in graph.names.items()}
    results = _results(snapshot, pending)
    edit = _Edit()
    is_replaced = False
    for task in snapshot.tasks:
        if task.id in results:
            _add_results(graph, edit, results[task.id])
        elif task.name == update.as_node and not is_replaced:
            is_replaced = True
            _continue_after(graph, edit, ids.get(task.name), values, snapshot)
        else:
            edit.goto.append(task.name)
    edit.writes += values
    goto = [name for name in dict.fromkeys(edit.goto) if name in graph.nodes]
    as_node = update.as_node or _last_node(graph, snapshot, ids)
    return StateUpdate(cast("Any", Command(update=edit.writes, goto=goto)), as_node, update.task_id)


def _results(snapshot: StateSnapshot, pending: Iterable[Any]) -> Mapping[str, list[tuple[str, Any]]]:
    """Return the writes of finished tasks by task id, or none if all have finished, since all then run again."""
    results: dict[str, list[tuple[str, Any]]] = {}
    for id_, channel, value in pending:
        if channel not in _NOT_RESULTS:
            results.setdefault(id_, []).append((channel, value))
    return {} if all(task.id in results for task in snapshot.tasks) else results


def _add_results(graph: EditableGraph, edit: _Edit, writes: Iterable[tuple[str, Any]]) -> None:
    """Preserve a finished task's results."""
    for channel, value in writes:
        if channel.startswith(BRANCH_PREFIX):
            edit.goto.append(channel.removeprefix(BRANCH_PREFIX))
        elif channel in graph.channels:
            edit.writes.append((channel, value))


def _continue_after(
    graph: EditableGraph, edit: _Edit, id_: NodeId | None, values: Iterable[tuple[str, Any]], snapshot: StateSnapshot
) -> None:
    """Continue after the node whose run the edit replaces."""
    if id_ is None:
        return  # the closing node
    if graph.scope is not None:
        raise InvalidUpdateError(
            "An edit cannot replace a node's run inside a Loop or Iteration: omit as_node to run the node next."
        )
    plan = graph.plan
    node = plan.nodes[id_]
    targets = _chosen_targets(node, dict(values)) if node.chooses else node.downstream
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


def _chosen_targets(node: PlanNode, values: Mapping[str, Any]) -> list[NodeId]:
    entry = values.get("outputs", {})
    outputs = entry.get(node.id, {}) if isinstance(entry, Mapping) else {}
    chosen: Any = cast("Mapping[str, Any]", outputs).get(NEXT) if isinstance(outputs, Mapping) else None
    if not isinstance(chosen, list) or any(target not in node.targets for target in cast("list[Any]", chosen)):
        example = {"outputs": {node.id: {NEXT: list(node.targets)[:1]}}}
        raise InvalidUpdateError(
            f"{node.id!r} chooses its successors; name one or more of {', '.join(node.targets)}, as in {example}."
        )
    return [NodeId(target) for target in cast("list[str]", chosen)]


def _last_node(graph: EditableGraph, snapshot: StateSnapshot, ids: Mapping[str, NodeId]) -> str:
    """Return the node to store the edit as. Every node can write to all channels."""
    outputs = snapshot.values.get("outputs", {}) if isinstance(snapshot.values, dict) else {}
    ran = [name for name, id_ in ids.items() if id_ in outputs and name in graph.nodes]
    if ran:
        return max(ran, key=lambda name: graph.plan.nodes[ids[name]].rank)
    return next(name for name in graph.nodes if name in ids)


class _Turn(TypedDict, total=False):
    """`ragflow_lg.component.state.TurnRecord` with the exact types of its lists."""

    number: int
    seed: int
    inputs: dict[str, Any]
    status: str
    canvas_hash: str
    regions: dict[str, str]
    last: tuple[int, int, str]
    error: tuple[int, int, str, str]
    visits: dict[str, int]
    settled: int
    references: dict[str, dict[str, Any]]
    cites_last: bool
    files: dict[str, list[Any]]
    shown: dict[str, str | None]
    ends: dict[str, tuple[str, float, float, dict[str, Any], dict[str, Any] | None, str]]
    usage: tuple[float, float, float, float]
    usage_before: tuple[float, float, float, float]
    answers: dict[str, Any]


_KINDS: Mapping[str, Any] = {
    "globals": dict[str, Any],
    "outputs": dict[str, dict[str, Any]],
    "history": list[tuple[str, Any]],
    "messages": list[dict[str, Any]],
    "turn": _Turn,
}
_KEYS = {key for state in (CanvasState, ParallelState) for key in state.__annotations__}


def validate_edit(values: Any, channels: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return an edit's writes as pairs of channel and value. An edited list replaces the stored one.

    Raises:
        InvalidUpdateError: if there is no such channel or the value is invalid for it.
    """
    edits = list(_pairs(values))
    keys = sorted(_KEYS & channels.keys() | {"scope"} & channels.keys())
    for key, value in edits:
        if key not in keys:
            raise InvalidUpdateError(f"The state has no key {key!r}; its keys are {', '.join(keys)}.")
        try:
            msgspec.convert(value, _KINDS.get(key, dict[str, Any]))
        except msgspec.ValidationError as error:
            raise InvalidUpdateError(f"The value of {key!r} is invalid: {error}.") from None
        if shorten_integers(value) != value:
            raise InvalidUpdateError(f"The value of {key!r} has an integer that is longer than 64 bits.")
        if isinstance(value, Mapping):
            _check_reserved_keys(key, cast("Mapping[str, Any]", value))
    return [(key, replace_list(value) if isinstance(value, list) else value) for key, value in edits]


def _pairs(values: Any) -> Iterator[tuple[str, Any]]:
    parts = cast("Sequence[Any]", values if isinstance(values, list | tuple) else [values])
    for part in parts:
        if isinstance(part, Mapping):
            yield from cast("Mapping[str, Any]", part).items()
        elif isinstance(part, tuple) and len(cast("tuple[Any, ...]", part)) == 2:
            yield cast("tuple[str, Any]", part)
        elif part is not None:
            raise InvalidUpdateError(f"An edit should be a map of state keys, not {type(part).__name__}.")


def _check_reserved_keys(key: str, value: Mapping[str, Any]) -> None:
    if reserved := [name for name in value if name.startswith("__")]:
        raise InvalidUpdateError(f"{reserved[0]!r} in {key!r} is reserved.")
    if value.get("type") == OVERWRITE:
        raise InvalidUpdateError(f"{OVERWRITE!r} in {key!r} is reserved.")
