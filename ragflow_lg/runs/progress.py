"""How far an unfinished turn has got: which node executions are stored, and which nodes run again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.langgraph_internals import NAMESPACE_SEPARATOR, START, TASK_SEPARATOR
from ragflow_lg.base.thinking import split_thinking
from ragflow_lg.base.values import to_text
from ragflow_lg.component.events import Delta, EngineEvent, MessagePiece, NodeFinished, NodeStarted, Preview
from ragflow_lg.component.plan import ERROR, STREAMED_OUTPUT, Plan
from ragflow_lg.engine.compiled_canvas import CompiledCanvas
from ragflow_lg.services.chat import Usage
from ragflow_lg.services.sessions import NO_ENTRIES, with_recent_entries


class OpenVisit(Struct, frozen=True):
    """A node that runs when the turn continues."""

    node: NodeId
    earlier: int | None
    """How often it has finished in this turn; None if that is unknown."""


class Progress(Struct):
    """The stored part of a turn."""

    plan: Plan
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The state outside all regions."""
    open: list[OpenVisit] = field(default_factory=list[OpenVisit])
    finished: dict[NodeId, NodeFinished] = field(default_factory=dict[NodeId, NodeFinished])
    """The last stored execution of each node that does not run again."""
    texts: dict[NodeId, str] = field(default_factory=dict[NodeId, str])
    """The texts of Messages whose output is without tags."""
    usage: Usage = Usage()
    """The model usage of all stored executions."""

    @property
    def run_usage(self) -> Usage:
        """The part of the usage since the turn's last pause."""
        return self.usage.minus(Usage(*self.values.get("turn", {}).get("usage_before", ())))

    def events_of(self, node: NodeId) -> list[EngineEvent]:
        """Return the events of a node's stored execution."""
        finished = self.finished[node]
        previews: Mapping[NodeId, Preview] | None = {} if self.plan.nodes[node].streams_to else None
        events: list[EngineEvent] = [NodeStarted(node, finished.created_at, 0, finished.place, previews)]
        if previews is not None:
            answer = to_text(finished.outputs.get(STREAMED_OUTPUT))
            events += [Delta(node, piece, mark, finished.place) for piece, mark in split_thinking(answer)]
        if node in self.plan.messages:
            text = self.texts.get(node) or to_text(finished.outputs.get(STREAMED_OUTPUT))
            events.append(MessagePiece(node, 0, text, place=finished.place))
        return [*events, finished]


async def read_progress(canvas: CompiledCanvas, config: Any) -> Progress:
    """Return how far the last turn of a thread has got. Rounds that run side by side are not described."""
    progress = Progress(canvas.plan)
    await _read_level(canvas, canvas.graph, config, "", (), progress)
    return progress


async def _read_level(
    canvas: CompiledCanvas, graph: Any, config: Any, namespace: str, rounds: tuple[int, ...], progress: Progress
) -> None:
    root: Any = canvas.graph
    place: Any = {**config, "configurable": {**config["configurable"], "checkpoint_ns": namespace}}
    snapshot = await root.aget_state(with_recent_entries(place, {**NO_ENTRIES, "history": 1}))
    values: Mapping[str, Any] = snapshot.values
    if not namespace and {START, canvas.names[canvas.plan.entry]} & set(snapshot.next):
        values = {}  # nothing is stored of this turn
    if not namespace:
        progress.values = values
    elif (number := values.get("scope", {}).get("round")) is not None:
        rounds = (*rounds, number)
    progress.usage = progress.usage.plus(Usage(*values.get("turn", {}).get("usage", ())))
    ids = {name: id_ for id_, name in canvas.names.items()}
    running = {ids[name] for name in snapshot.next if name in ids}
    for node in running:
        progress.finished.pop(node, None)
        repeats = node in canvas.plan.cyclic or len(rounds) > 1
        progress.open.append(OpenVisit(node, None if repeats else rounds[0] if rounds else 0))
    if namespace and len(rounds) == 1 and (item := _item_of(canvas.plan, running)) is not None:
        progress.open.append(OpenVisit(item, rounds[0] + 1))  # the last node of a round runs it for the next one
    _add_finished(canvas.plan, values, running, rounds, progress)
    for task in snapshot.tasks:
        if ids.get(task.name) in running and (inner := graph.nodes[task.name].subgraphs):
            prefix = f"{namespace}{NAMESPACE_SEPARATOR}" if namespace else ""
            inner_namespace = f"{prefix}{task.name}{TASK_SEPARATOR}{task.id}"
            await _read_level(canvas, inner[0], config, inner_namespace, rounds, progress)


def _item_of(plan: Plan, running: set[NodeId]) -> NodeId | None:
    """Return the item node of the region whose body is running, unless it is running itself."""
    parent = next((plan.nodes[node].parent for node in running), None)
    item = plan.regions[parent].item if parent is not None and parent in plan.regions else None
    return item if item not in running else None


def _add_finished(
    plan: Plan, values: Mapping[str, Any], running: set[NodeId], rounds: tuple[int, ...], progress: Progress
) -> None:
    ends: Mapping[str, Any] = values.get("turn", {}).get("ends", {})
    for id_, outputs in values.get("outputs", {}).items():
        node = plan.nodes.get(NodeId(id_))
        if node is None or node.id in running:
            continue
        place = ".".join(map(str, rounds))
        end: list[Any] = ends.get(id_) or [place, 0.0, 0.0, {}, None, ""]
        finished_place, created_at, elapsed_s, inputs, data, text = end
        if finished_place != place:
            continue  # it has not finished in this round
        if text:
            progress.texts[node.id] = text
        progress.finished[node.id] = NodeFinished(
            node.id,
            created_at,
            elapsed_s,
            inputs,
            outputs,
            outputs.get(ERROR),
            () if node.chooses else node.downstream,
            end=data,
            place=place,
        )
