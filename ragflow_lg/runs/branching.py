"""Forks and reruns: new sessions that begin at an earlier point in another session, which is not changed.

LangGraph's own time travel replays a region from its first round and moves the session's head. This module copies the
checkpoints at one point in time, including the checkpoints of open regions, so that the new session continues as the
old one would have continued.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.serde.types import INTERRUPT
from msgspec import Struct

from ragflow_lg.base.errors import CheckpointError, ConflictError, RunCancelled
from ragflow_lg.base.ids import NodeId, thread_of_session
from ragflow_lg.base.langgraph_internals import NAMESPACE_SEPARATOR, TASK_SEPARATOR
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.events import EngineEvent, NodeStarted
from ragflow_lg.component.node_names import find_node, has_title
from ragflow_lg.component.plan import Plan
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.engine.compiled_canvas import CompiledCanvas, play
from ragflow_lg.runs.canvas_changes import Change, changed_channels, read_changes
from ragflow_lg.runs.pauses import belong_to_conversation, read_pause
from ragflow_lg.runs.stored_steps import StoredSteps
from ragflow_lg.services.sessions import LEASE_TOKEN, Leases, hold_lease

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

    from ragflow_lg.services.services import Services


class _Level(Struct, frozen=True):
    """A stored superstep in a namespace, and the tasks that run again."""

    namespace: str
    checkpoint: str
    rerun_tasks: frozenset[str] | None
    """The task ids; None for all."""


async def _find_levels(
    steps: StoredSteps, namespace: str, checkpoint: str, rerun_tasks: frozenset[str] | None
) -> list[_Level]:
    """Return a superstep and the supersteps that surround it, from the inside out."""
    levels = [_Level(namespace, checkpoint, rerun_tasks)]
    while namespace:
        namespace, _, segment = namespace.rpartition(NAMESPACE_SEPARATOR)
        task = segment.partition(TASK_SEPARATOR)[2]
        outer = await steps.find_task(namespace, task, before=levels[-1].checkpoint)
        levels.append(_Level(namespace, _checkpoint_id(outer), frozenset({task})))
    return levels


class _Target:
    """The new session, which a fork or rerun fills."""

    def __init__(self, plan: Plan, saver: BaseCheckpointSaver[Any], session: str) -> None:
        self._plan = plan
        self._saver = saver
        self._name = session
        self._target: dict[str, Any] = {"thread_id": thread_of_session(session)}

    @asynccontextmanager
    async def reserved(self, leases: Leases | None) -> AsyncGenerator[None]:
        """Hold a lease for the new session.

        Raises:
            ConflictError: if the session exists or is being created.
        """
        async with AsyncExitStack() as stack:
            if leases is not None:
                self._target[LEASE_TOKEN] = await stack.enter_async_context(hold_lease(leases, self._name))
            place: Any = {"configurable": {"thread_id": self._target["thread_id"], "checkpoint_ns": ""}}
            if await self._saver.aget_tuple(place) is not None:
                raise ConflictError(f"The session {self._name!r} already exists. Choose another name.")
            # A process may have crashed while creating it.
            await self._saver.adelete_thread(self._target["thread_id"])
            yield

    async def copy(
        self,
        stored: CheckpointTuple,
        *,
        without: Collection[str] | None = None,
        changes: Mapping[str, Any] | None = None,
    ) -> None:
        """Copy a checkpoint and its pending writes, except writes by the tasks in ``without``, under the same ids.

        The tasks in ``without`` run again. A form that is shown again has the same id as before, so its old answer is
        removed; otherwise the new session would treat the form as answered.

        Raises:
            ConflictError: if a node that does not run again asks about its calls. What it has done is not copied.
        """
        place: Any = stored.config.get("configurable", {})
        writes = [
            (task, channel, _without_usage(channel, value))
            for task, channel, value in stored.pending_writes or ()
            if task not in (without or ())
        ]
        values = {**stored.checkpoint["channel_values"], **(changes or {})}
        values = {channel: _without_usage(channel, value) for channel, value in values.items()}
        if without is not None:
            pauses = [read_pause(pause) for _, channel, value in writes if channel == INTERRUPT for pause in value]
            if not all(belong_to_conversation(self._plan, [pause]) for pause in pauses):
                raise ConflictError(
                    "A node beside it asks about its calls. Answer that first, or fork the session as it is now."
                )
            open_ids = {pause.id for pause in pauses}
            writes = [
                (task, channel, _without_closed_answers(channel, value, open_ids)) for task, channel, value in writes
            ]
            values = {channel: _without_closed_answers(channel, value, open_ids) for channel, value in values.items()}
        versions = stored.checkpoint["channel_versions"]
        versions = {**dict.fromkeys(changes or (), max(versions.values(), default=None)), **versions}
        checkpoint: Any = {**stored.checkpoint, "channel_values": values, "channel_versions": versions}
        namespace: Any = {**self._target, "checkpoint_ns": place.get("checkpoint_ns", "")}
        copy_place: Any = {**namespace, "checkpoint_id": checkpoint["id"]}
        by_task: dict[str, list[tuple[str, Any]]] = {}
        for task, channel, value in writes:
            by_task.setdefault(task, []).append((channel, value))
        for task, task_writes in by_task.items():
            await self._saver.aput_writes({"configurable": copy_place}, task_writes, task)
        # Last, because it makes the rest visible: until then, the session does not exist.
        metadata: Any = {**stored.metadata, "source": "fork"}
        await self._saver.aput({"configurable": namespace}, checkpoint, metadata, checkpoint["channel_versions"])

    async def copy_results(self, steps: StoredSteps) -> None:
        """Copy the results of steps inside nodes, so that a node that has begun goes on where it is."""
        saver: Any = self._saver
        if hasattr(saver, "steps"):
            results = saver.steps({"configurable": self._target})
            async for key, result in saver.steps(steps.config("")).all():
                await results.put(key, result)


async def fork(
    canvas: CompiledCanvas,
    saver: BaseCheckpointSaver[Any],
    session: str,
    target: str,
    checkpoint: str = "",
    *,
    changes: Mapping[str, JsonValue] | None = None,
    leases: Leases | None = None,
    services: Services | None = None,
) -> None:
    """Create a session from another session's checkpoint or current state, with some values changed.

    ``checkpoint`` is the id, or a unique prefix of the id, of a checkpoint of the canvas or of a region. The id or
    title of a node stands for the newest checkpoint of the last turn at which the node was about to run; with
    ``services``, also inside a step that it shared with others. At the newest
    checkpoint, everything is copied, including open forms; at an older one, the next nodes run again. Nodes that ran
    concurrently with a region keep their results. With ``changes``, the next nodes always run again, and closed forms
    ask again.

    Raises:
        CheckpointError: if there is no such session or checkpoint, or a change has an unknown name or would be
        overwritten. ConflictError: if a session with the new name exists, or a node beside it asks about its calls.
    """
    steps, copies = StoredSteps(canvas, saver, session), _Target(canvas.plan, saver, target)
    async with copies.reserved(leases):
        newest = await steps.newest("")
        if not newest or not (checkpoint or changes):
            await _copy_present(steps, copies, canvas)
            return
        namespace, checkpoint_id = "", newest
        if checkpoint:
            steps, namespace, checkpoint_id = await _find_place(steps, canvas, checkpoint, services)
        levels = await _find_levels(steps, namespace, checkpoint_id, None)
        if not changes and all([await steps.newest(level.namespace) == level.checkpoint for level in levels]):
            await _copy_present(steps, copies, canvas)
            return
        stored = [await steps.tuple(level.namespace, level.checkpoint) for level in levels]
        new_values: tuple[Change, ...] = ()
        if changes:
            info = await steps.info(namespace, checkpoint_id)
            root_values = stored[-1].checkpoint["channel_values"]
            for start in (info.next if info is not None else ()) or (NodeId(""),):
                new_values = read_changes(canvas.plan, start, changes, root_values)
        for level, entry in zip(levels, stored, strict=True):
            tasks = {task for task, _, _ in entry.pending_writes or ()}
            values = entry.checkpoint["channel_values"]
            channels = changed_channels(values, new_values, is_root=not level.namespace)
            await copies.copy(
                entry, without=tasks if level.rerun_tasks is None else level.rerun_tasks, changes=channels
            )


async def _find_place(
    steps: StoredSteps, canvas: CompiledCanvas, name: str, services: Services | None
) -> tuple[StoredSteps, str, str]:
    """Return the namespace and id of a checkpoint, or of the newest one at which a node was about to run."""
    try:
        return steps, *await steps.find_place(name)
    except CheckpointError:
        if not has_title(canvas.plan, name) and find_node(canvas.plan, name) is None:
            raise
    found, namespace, snapshot = await _find_start(steps, canvas, steps.find_node(name), None, services)
    return found, namespace, _checkpoint_id(snapshot)


async def _find_start(
    steps: StoredSteps, canvas: CompiledCanvas, node: NodeId, round: int | None, services: Services | None
) -> tuple[StoredSteps, str, Any]:
    """Return the newest namespace and snapshot in the last turn at which a node was about to run, and their steps.

    If the node shared a step with the nodes before it, that step is played again in memory, node by node.
    """
    nodes, head, missing = canvas.plan.nodes, "", CheckpointError("")
    try:
        found = await steps.find(node, round)
        if services is None or round is not None or nodes[node].parent is None:
            return steps, *found
        head = _checkpoint_id(found[1])  # a later round may have run in the same step
    except CheckpointError as error:
        missing = error
    ends: dict[str, tuple[list[NodeId], str]] = {}
    async for namespace, snapshot in steps.last_turn():
        ids = [id_ for id_, name in canvas.names.items() if name in snapshot.next]
        record: Mapping[str, Any] = snapshot.values.get("scope") or {}
        is_candidate = [(nodes[id_].parent, nodes[id_].spec.kind == "entry") for id_ in ids] == [
            (nodes[node].parent, False)
        ]
        has_run = namespace in ends and (round is None or record.get("round", 0) <= round)
        if services is not None and is_candidate and has_run:
            apart = await _play_apart(steps, canvas, services, namespace, snapshot, ends[namespace])
            try:
                place, start = await apart.find(node, round)
                if _checkpoint_id(start) != _checkpoint_id(snapshot):
                    return apart, place, start
            except CheckpointError as error:
                missing = error
        if _checkpoint_id(snapshot) == head:
            return steps, namespace, snapshot
        if ids or namespace not in ends:
            ends[namespace] = ids, str(record.get("round", ""))
    raise missing


async def _play_apart(
    steps: StoredSteps,
    canvas: CompiledCanvas,
    services: Services,
    namespace: str,
    snapshot: Any,
    end: tuple[Collection[NodeId], str],
) -> StoredSteps:
    """Play a step in memory, node by node, up to an effect or the nodes and the round of the next. Return the steps."""
    from langgraph.checkpoint.memory import InMemorySaver

    saver: Any = InMemorySaver()
    saver.get_next_version = steps.saver.get_next_version  # savers write versions in forms that do not compare
    canvas, copies = canvas.with_saver(saver), _Target(canvas.plan, saver, steps.session)
    for level in await _find_levels(
        steps, namespace, _checkpoint_id(snapshot), frozenset(task.id for task in snapshot.tasks)
    ):
        await copies.copy(await steps.tuple(level.namespace, level.checkpoint), without=level.rerun_tasks)
    turn = TurnContext(services)

    def stop_before_effects(event: EngineEvent) -> tuple[()]:
        if isinstance(event, NodeStarted):
            node = canvas.plan.nodes[event.node]
            is_end = event.node in end[0] and event.place.rpartition(".")[2] == end[1]
            if is_end or node.spec.effects_of(RunContext(canvas.plan, node, turn, {}), node.params) != "none":
                raise RunCancelled(node.id)
        return ()

    turn.render_event = stop_before_effects
    with suppress(RunCancelled):
        await play(canvas.graph, None, canvas.thread_config(steps.session), context=turn, durability="sync")
    return StoredSteps(canvas, saver, steps.session)


async def _copy_present(steps: StoredSteps, copies: _Target, canvas: CompiledCanvas) -> None:
    """Copy a session in its current state, with open regions and forms."""
    root = await steps.tuple("")
    root_id = root.checkpoint["id"]
    snapshot = await canvas.graph.aget_state(steps.config("", root_id))
    open_tasks = {f"{task.name}{TASK_SEPARATOR}{task.id}" for task in snapshot.tasks}
    for namespace, checkpoint in (await _newest_of_tasks(steps, open_tasks, root_id) if open_tasks else {}).items():
        await copies.copy(await steps.tuple(namespace, checkpoint))
    if open_tasks:
        await copies.copy_results(steps)
    # The canvas itself is last, as in `copy`.
    await copies.copy(root)


async def _newest_of_tasks(steps: StoredSteps, tasks: Collection[str], since: str) -> dict[str, str]:
    """Return the newest checkpoint of each namespace of some tasks, of those that are not older than ``since``."""
    namespaces: dict[str, str] = {}
    async for namespace, checkpoint in steps.places():
        if checkpoint < since:
            break
        if namespace.partition(NAMESPACE_SEPARATOR)[0] in tasks:
            namespaces.setdefault(namespace, checkpoint)
    return namespaces


async def rerun(
    canvas: CompiledCanvas,
    saver: BaseCheckpointSaver[Any],
    session: str,
    target: str,
    node: str,
    *,
    round: int | None = None,
    changes: Mapping[str, JsonValue] | None = None,
    leases: Leases | None = None,
    services: Services | None = None,
) -> None:
    """Create a session that continues just before a node of the last turn, with some values changed.

    ``node`` is an id or a title, and so are the names of nodes in ``changes``. Nodes that ran concurrently keep their
    results. A node in a region restarts in the given round, or in its last
    round.

    Raises:
        CheckpointError: if the node did not run, or a change has an unknown name. ConflictError: if a session with the
        new name exists, or a node beside it asks about its calls.
    """
    steps, copies = StoredSteps(canvas, saver, session), _Target(canvas.plan, saver, target)
    async with copies.reserved(leases):
        start = steps.find_node(node)
        steps, namespace, snapshot = await _find_start(steps, canvas, start, round, services)
        name = canvas.names[start]
        rerun_tasks = frozenset(task.id for task in snapshot.tasks if task.name == name)
        levels = await _find_levels(steps, namespace, _checkpoint_id(snapshot), rerun_tasks)
        stored = [await steps.tuple(level.namespace, level.checkpoint) for level in levels]
        root_values = stored[-1].checkpoint["channel_values"]
        new_values = read_changes(canvas.plan, start, changes or {}, root_values)
        for level, entry in zip(levels, stored, strict=True):
            values = entry.checkpoint["channel_values"]
            channels = changed_channels(values, new_values, is_root=not level.namespace)
            await copies.copy(entry, without=level.rerun_tasks, changes=channels)


def _checkpoint_id(snapshot: Any) -> str:
    return snapshot.config["configurable"]["checkpoint_id"]


def _without_closed_answers(channel: str, value: Any, open_ids: Collection[str]) -> Any:
    """Remove the answers to pauses that are not open."""
    if channel != "turn" or "answers" not in value:
        return value
    return {**value, "answers": {id_: answer for id_, answer in value["answers"].items() if id_ in open_ids}}


def _without_usage(channel: str, value: Any) -> Any:
    """Remove the model usage of the original session."""
    if channel != "turn":
        return value
    return {name: entry for name, entry in value.items() if name not in ("usage", "usage_before")}
