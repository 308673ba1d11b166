"""How far an unfinished turn has got: which node executions are stored, and which nodes run again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from langgraph.constants import START
from msgspec import Struct, field

from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.langgraph_internals import NAMESPACE_SEPARATOR, TASK_SEPARATOR
from ragflow_lg.base.thinking import split_thinking
from ragflow_lg.base.values import to_text
from ragflow_lg.component.events import Delta, EngineEvent, MessagePiece, NodeFinished, NodeStarted, Preview
from ragflow_lg.component.plan import ERROR, STREAMED_OUTPUT, Plan
from ragflow_lg.engine.compiled_canvas import CompiledCanvas
from ragflow_lg.runs.pauses import open_pauses
from ragflow_lg.runs.stored_steps import ROUND_NODE
from ragflow_lg.services.chat import Usage

Visit: TypeAlias = tuple[str, NodeId]
"""The place and the node of an execution."""


class Progress(Struct):
    """The stored part of a turn."""

    plan: Plan
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The state outside all regions."""
    running: set[Visit] = field(default_factory=set[Visit])
    """The executions that are unfinished and run again."""
    finished: dict[Visit, NodeFinished] = field(default_factory=dict[Visit, NodeFinished])
    """The last stored execution of each node at each place that does not run again."""
    texts: dict[Visit, str] = field(default_factory=dict[Visit, str])
    """The texts of Messages whose output is without tags."""
    usage: Usage = Usage()
    """The model usage of all stored executions."""
    is_waiting: bool = False
    """Whether the turn waits for an answer."""

    @property
    def run_usage(self) -> Usage:
        """The part of the usage since the turn's last pause."""
        return self.usage.minus(Usage(*self.values.get("turn", {}).get("usage_before", ())))

    def events_of(self, visit: Visit) -> list[EngineEvent]:
        """Return the events of a stored execution."""
        finished, node = self.finished[visit], visit[1]
        previews: Mapping[NodeId, Preview] | None = {} if self.plan.nodes[node].streams_to else None
        events: list[EngineEvent] = [NodeStarted(node, finished.created_at, 0, finished.place, previews)]
        if previews is not None:
            answer = to_text(finished.outputs.get(STREAMED_OUTPUT))
            events += [
                Delta(node, part.text, part.mark, finished.place, part.is_aside) for part in split_thinking(answer)
            ]
        if node in self.plan.messages:
            text = self.texts.get(visit) or to_text(finished.outputs.get(STREAMED_OUTPUT))
            events.append(MessagePiece(node, 0, text, place=finished.place))
        return [*events, finished]


async def read_progress(canvas: CompiledCanvas, config: Any) -> Progress:
    """Return how far the last turn of a thread has got."""
    progress = Progress(canvas.plan)
    await _read_level(canvas, canvas.graph, config, "", (), progress)
    return progress


async def _read_level(
    canvas: CompiledCanvas, graph: Any, config: Any, namespace: str, rounds: tuple[int, ...], progress: Progress
) -> None:
    root: Any = canvas.graph
    place: Any = {**config, "configurable": {**config["configurable"], "checkpoint_ns": namespace}}
    snapshot = await root.aget_state(place)
    values: Mapping[str, Any] = snapshot.values
    if not namespace and {START, canvas.names[canvas.plan.entry]} & set(snapshot.next):
        values = {}  # nothing is stored of this turn
    if not namespace:
        progress.values = values
        progress.is_waiting = bool(open_pauses(snapshot))
    elif (number := values.get("scope", {}).get("round")) is not None:
        rounds = (*rounds, number)
    progress.usage = progress.usage.plus(Usage(*values.get("turn", {}).get("usage", ())))
    ids = {name: id_ for id_, name in canvas.names.items()}
    running = {ids[name] for name in snapshot.next if name in ids}
    spot = ".".join(map(str, rounds))
    progress.running |= {(spot, node) for node in running}
    _add_finished(canvas.plan, values, running, spot, progress)
    for task in snapshot.tasks:
        if (ids.get(task.name) in running or task.name == ROUND_NODE) and (inner := graph.nodes[task.name].subgraphs):
            prefix = f"{namespace}{NAMESPACE_SEPARATOR}" if namespace else ""
            inner_namespace = f"{prefix}{task.name}{TASK_SEPARATOR}{task.id}"
            counted = progress.usage
            await _read_level(canvas, inner[0], config, inner_namespace, rounds, progress)
            if task.result is not None:
                progress.usage = counted  # a finished round has already added its usage to the enclosing level


def _add_finished(plan: Plan, values: Mapping[str, Any], running: set[NodeId], place: str, progress: Progress) -> None:
    ends: Mapping[str, Any] = values.get("turn", {}).get("ends", {})
    unfinished = _find_later(plan, running) - plan.cyclic | running
    for id_, outputs in values.get("outputs", {}).items():
        node = plan.nodes.get(NodeId(id_))
        if node is None or node.id in unfinished:
            continue
        end: list[Any] = ends.get(id_) or [place, 0.0, 0.0, {}, None, ""]
        finished_place, created_at, elapsed_s, inputs, data, text = end
        if finished_place != place:
            continue  # it has not finished in this round
        visit = (place, node.id)
        if text:
            progress.texts[visit] = text
        progress.finished[visit] = NodeFinished(
            node.id,
            created_at,
            elapsed_s,
            inputs,
            outputs,
            outputs.get(ERROR) or None,
            () if node.chooses else node.downstream,
            end=data,
            place=place,
        )


def _find_later(plan: Plan, running: Iterable[NodeId]) -> set[NodeId]:
    """Return the nodes after those that are running, which in a Loop have outputs of an earlier round."""
    later, waiting = set[NodeId](), list(running)
    while waiting:
        node = plan.nodes[waiting.pop()]
        new = {t for t in node.targets if plan.nodes[t].parent == node.parent} - later
        later |= new
        waiting += new
    return later
