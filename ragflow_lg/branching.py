"""Forks and reruns: a new session that begins where another one has been. The other one is not touched.

LangGraph's own time travel replays a region from its first round and moves the session's head. Here the
checkpoints of one moment are copied, those of the regions that were open at that moment too, so that the new session
goes on as the old one would have.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ragflow_lg.compiled import CompiledCanvas
from ragflow_lg.errors import CheckpointError, ConflictError
from ragflow_lg.ids import NodeId, thread_of_session
from ragflow_lg.refs import parse_reference
from ragflow_lg.sessions import LEASE_TOKEN, Leases, leased
from ragflow_lg.state import merge_outputs, output_patch
from ragflow_lg.values import JsonValue, write_path

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

__all__ = ["Moment", "fork", "moments", "rerun"]


@dataclass(frozen=True, slots=True)
class Moment:
    """A stored superstep of a session. ``next`` are the nodes that come next, by component id."""

    checkpoint: str
    namespace: str
    """Which region the step belongs to, ``""`` for the canvas itself."""
    step: int
    created_at: str
    """ISO 8601."""
    next: tuple[NodeId, ...]
    round: int | None
    size_bytes: int


class _Branching:
    """What forking and rerunning share: reading one session, writing another."""

    def __init__(self, canvas: CompiledCanvas, saver: BaseCheckpointSaver[Any], source: str) -> None:
        self._canvas = canvas
        self._saver = saver
        self._source = thread_of_session(source)
        self._target: dict[str, Any] = {}
        self._ids = {name: id_ for id_, name in canvas.names.items()}

    def config(self, namespace: str, checkpoint: str = "") -> Any:
        """Give LangGraph's config of a place in the session."""
        place = {"thread_id": self._source, "checkpoint_ns": namespace}
        return {"configurable": place | ({"checkpoint_id": checkpoint} if checkpoint else {})}

    async def history(self, namespace: str) -> AsyncIterator[Any]:
        """Go through LangGraph's snapshots of a namespace, newest first."""
        listed = self._canvas.graph.aget_state_history(self.config(namespace))
        async with aclosing(cast("Any", listed)):
            async for snapshot in listed:
                yield snapshot

    async def namespaces(self) -> list[str]:
        """Give every namespace of the session, the one with the newest checkpoint first."""
        everything: Any = {"configurable": {"thread_id": self._source}}
        newest: dict[str, str] = {}
        async for found in self._saver.alist(everything):
            place: Any = found.config.get("configurable", {})
            newest.setdefault(place.get("checkpoint_ns", ""), place["checkpoint_id"])
        return sorted(newest, key=newest.__getitem__, reverse=True)

    @asynccontextmanager
    async def target(self, session: str, leases: Leases | None) -> AsyncGenerator[None]:
        """Hold the new session, to which `copy` writes.

        Raises:
            ConflictError: if it is there already, or somebody is about to make it.
        """
        async with AsyncExitStack() as held:
            self._target = {"thread_id": thread_of_session(session)}
            if leases is not None:
                self._target[LEASE_TOKEN] = await held.enter_async_context(leased(leases, session))
            place: Any = {"configurable": {"thread_id": self._target["thread_id"], "checkpoint_ns": ""}}
            if await self._saver.aget_tuple(place) is not None:
                raise ConflictError(f"There is a session {session!r} already; choose another name.")
            yield

    async def copy(
        self,
        found: CheckpointTuple,
        *,
        without: Collection[str] = (),
        changes: Mapping[str, Any] | None = None,
    ) -> None:
        """Copy a checkpoint and what its tasks have written, except those of ``without``, under the same ids."""
        place: Any = found.config.get("configurable", {})
        values = {**found.checkpoint["channel_values"], **(changes or {})}
        checkpoint: Any = {**found.checkpoint, "channel_values": values}
        config: Any = {"configurable": {**self._target, "checkpoint_ns": place.get("checkpoint_ns", "")}}
        metadata: Any = {**found.metadata, "source": "fork"}
        stored = await self._saver.aput(config, checkpoint, metadata, checkpoint["channel_versions"])
        by_task: dict[str, list[tuple[str, Any]]] = {}
        for task, channel, value in found.pending_writes or ():
            if task not in without:
                by_task.setdefault(task, []).append((channel, value))
        for task, writes in by_task.items():
            await self._saver.aput_writes(_at(config, stored), writes, task)

    async def tuple(self, namespace: str, checkpoint: str = "") -> CheckpointTuple:
        """Give a stored checkpoint.

        Raises:
            CheckpointError: if it is not there.
        """
        found = await self._saver.aget_tuple(self.config(namespace, checkpoint))
        if found is None:
            what = f"The session has no checkpoint {checkpoint!r}." if checkpoint else "There is no such session."
            raise CheckpointError(what)
        return found

    async def moments(self, namespace: str) -> AsyncIterator[Moment]:
        """Go through the steps of a namespace, newest first."""
        import orjson

        async for snapshot in self.history(namespace):
            place = snapshot.config["configurable"]
            record: Mapping[str, Any] = snapshot.values.get("scope") or {}
            yield Moment(
                place["checkpoint_id"],
                namespace,
                snapshot.metadata.get("step", 0),
                snapshot.created_at or "",
                tuple(self._ids[name] for name in snapshot.next if name in self._ids),
                record.get("round"),
                len(orjson.dumps(snapshot.values, default=str)),
            )

    # Where to begin again

    async def find(self, node: NodeId, round: int | None) -> tuple[str, Any]:
        """Give the newest namespace and snapshot at which a node was about to run.

        Raises:
            CheckpointError: if it has not run in this turn, or not in that round.
        """
        plan = self._canvas.plan
        if node not in plan.nodes:
            raise CheckpointError(f"The canvas has no node {node!r}.")
        parent = plan.nodes[node].parent
        last = self._canvas.names[parent] if parent else ""
        for namespace in await self.namespaces():
            if namespace.rpartition("|")[2].partition(":")[0] != last:
                continue
            async for snapshot in self.history(namespace):
                if self._canvas.names[node] in snapshot.next and _is_round(snapshot, round):
                    return namespace, snapshot
                if not namespace and snapshot.metadata.get("source") == "input":
                    break
        where = f" in round {round}" if round is not None else ""
        raise CheckpointError(f"The node {node!r} did not run{where} in the last turn of the session.")

    async def task_of(self, namespace: str, child: str) -> Any:
        """Give the snapshot of a namespace in which the task ``child`` was about to run."""
        async for snapshot in self.history(namespace):
            if any(task.id == child for task in snapshot.tasks):
                return snapshot
        raise CheckpointError("The session does not hold the step around this region any more.")

    def change(self, found: CheckpointTuple, changes: Mapping[str, JsonValue], *, is_root: bool) -> dict[str, Any]:
        """Give the channels that differ once values have been set: globals, and outputs of nodes of this level."""
        values = found.checkpoint["channel_values"]
        changed: dict[str, Any] = {}
        for text, value in changes.items():
            reference = parse_reference(text)
            if reference is None or (reference.kind == "output" and reference.node not in self._canvas.plan.nodes):
                raise CheckpointError(f"{text!r} is no variable: write sys.name, env.name or component@output.")
            if reference.kind == "global":
                held = changed.get("globals", values.get("globals", {}))
                if is_root or reference.key in held:
                    changed["globals"] = {**held, reference.key: value}
                continue
            outputs = changed.get("outputs", values.get("outputs", {}))
            if is_root or reference.node in outputs:
                stored = outputs.get(reference.node, {}).get(reference.key)
                patch = {reference.node: {reference.key: write_path(stored, reference.path, value)}}
                changed["outputs"] = merge_outputs(outputs, output_patch(patch=patch))
        return changed


def _is_round(snapshot: Any, round: int | None) -> bool:
    record: Mapping[str, Any] = snapshot.values.get("scope") or {}
    return round is None or record.get("round") == round


async def moments(canvas: CompiledCanvas, saver: BaseCheckpointSaver[Any], session: str) -> AsyncIterator[Moment]:
    """Go through the stored steps of a session, newest first; those of regions come behind the canvas's own."""
    branching = _Branching(canvas, saver, session)
    for namespace in sorted(await branching.namespaces(), key=lambda name: (bool(name), name)):
        async for moment in branching.moments(namespace):
            yield moment


async def fork(
    canvas: CompiledCanvas,
    saver: BaseCheckpointSaver[Any],
    session: str,
    target: str,
    checkpoint: str = "",
    *,
    leases: Leases | None = None,
) -> None:
    """Make a new session that stands where another one stood at a checkpoint, or stands now.

    At its newest checkpoint everything goes along, what it waits for too; at an older one the nodes that came next
    run again.

    Raises:
        CheckpointError: if there is no such session or checkpoint.
        ConflictError: if there is a session of the new name.
    """
    branching = _Branching(canvas, saver, session)
    async with branching.target(target, leases):
        newest = await branching.tuple("")
        found = await branching.tuple("", checkpoint) if checkpoint else newest
        is_newest = found.checkpoint["id"] == newest.checkpoint["id"]
        tasks = {task for task, _, _ in found.pending_writes or ()}
        await branching.copy(found, without=() if is_newest else tasks)
        if not is_newest:
            return
        snapshot = await canvas.graph.aget_state(branching.config("", found.checkpoint["id"]))
        open_tasks = {f"{task.name}:{task.id}" for task in snapshot.tasks}
        for namespace in await branching.namespaces():
            if namespace.partition("|")[0] in open_tasks:
                await branching.copy(await branching.tuple(namespace))


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
) -> None:
    """Make a new session that stands before a node of the last turn, with some values changed.

    Nodes that ran beside it keep what they gave. A node in the body of a region begins again in the round that is
    named, or in its last one.

    Raises:
        CheckpointError: if the node did not run there, or a change names nothing that there is.
        ConflictError: if there is a session of the new name.
    """
    branching = _Branching(canvas, saver, session)
    async with branching.target(target, leases):
        namespace, snapshot = await branching.find(NodeId(node), round)
        name = canvas.names[NodeId(node)]
        levels = [(namespace, snapshot, {task.id for task in snapshot.tasks if task.name == name})]
        while namespace:
            namespace, _, segment = namespace.rpartition("|")
            around = segment.partition(":")[2]
            levels.append((namespace, await branching.task_of(namespace, around), {around}))
        for level, found, begun in levels:
            stored = await branching.tuple(level, found.config["configurable"]["checkpoint_id"])
            changed = branching.change(stored, changes or {}, is_root=not level)
            await branching.copy(stored, without=begun, changes=changed)


def _at(config: Any, stored: Any) -> Any:
    """Give the config of a stored checkpoint, with the rights of the one it was stored by."""
    return {"configurable": {**config["configurable"], **stored["configurable"]}}
