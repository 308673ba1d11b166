"""Forks and reruns: new sessions that begin at an earlier point in another session, which is not changed.

LangGraph's own time travel replays a region from its first round and moves the session's head. This module copies the
checkpoints at one point in time, including the checkpoints of open regions, so that the new session continues as the
old one would have continued.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from ragflow_lg.base.errors import CheckpointError, ConflictError
from ragflow_lg.base.ids import NodeId, thread_of_session
from ragflow_lg.base.langgraph_internals import INTERRUPT_CHANNEL, NAMESPACE_SEPARATOR, START, TASK_SEPARATOR
from ragflow_lg.base.values import JsonValue
from ragflow_lg.engine.compiled_canvas import CompiledCanvas
from ragflow_lg.runs.canvas_changes import changed_channels, near_names, read_changes
from ragflow_lg.services.sessions import LEASE_TOKEN, Leases, hold_lease

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

_ROUND = "__round__"
"""The graph name of a concurrent round; all other names, except START, are names of components."""


class CheckpointInfo(Struct, frozen=True):
    """A stored superstep in a session. ``next`` contains the component ids of the next nodes."""

    checkpoint: str
    namespace: str
    """LangGraph's name for the entry into a region, or ``""`` for the canvas itself."""
    region: NodeId | None
    """The Loop or Iteration to which the namespace belongs."""
    step: int
    created_at: str
    """ISO 8601."""
    next: tuple[NodeId, ...]
    round: int | None
    size_bytes: int


class _Level(Struct, frozen=True):
    """A stored superstep in a namespace, and the tasks that run again."""

    namespace: str
    checkpoint: str
    rerun_tasks: frozenset[str] | None
    """The task ids; None for all."""


class _Branching:
    """The code that fork and rerun share: reading one session and writing another."""

    def __init__(self, canvas: CompiledCanvas, saver: BaseCheckpointSaver[Any], source: str) -> None:
        self._canvas = canvas
        self._saver = saver
        self._name = source
        self._source = thread_of_session(source)
        self._target: dict[str, Any] = {}
        self._ids = {name: id_ for id_, name in canvas.names.items()}

    def config(self, namespace: str, checkpoint: str = "") -> Any:
        """Return LangGraph's config for a checkpoint in the session."""
        place = {"thread_id": self._source, "checkpoint_ns": namespace}
        return {"configurable": place | ({"checkpoint_id": checkpoint} if checkpoint else {})}

    async def history(self, namespace: str) -> AsyncIterator[Any]:
        """Yield LangGraph's snapshots in a namespace, newest first."""
        listed = self._canvas.graph.aget_state_history(self.config(namespace))
        async with aclosing(cast("Any", listed)):
            async for snapshot in listed:
                yield snapshot

    async def places(self) -> list[tuple[str, str]]:
        """Return the namespace and id of every checkpoint in the session, newest first."""
        everything: Any = {"configurable": {"thread_id": self._source}}
        # A `CanvasSaver` lists them without reading their values.
        saver: Any = self._saver
        if hasattr(saver, "list_keys"):
            places = [(key.namespace, key.checkpoint) async for key in saver.list_keys(everything)]
        else:
            stored: list[dict[str, Any]] = [
                entry.config.get("configurable", {}) async for entry in saver.alist(everything)
            ]
            places = [(place.get("checkpoint_ns", ""), place.get("checkpoint_id", "")) for place in stored]
        return sorted(places, key=lambda place: place[1], reverse=True)

    async def namespaces(self) -> list[str]:
        """Return all namespaces in the session, starting with the one that has the newest checkpoint."""
        return list(dict.fromkeys(namespace for namespace, _ in await self.places()))

    def find_place(self, places: list[tuple[str, str]], checkpoint: str) -> tuple[str, str]:
        """Return the namespace and id of the checkpoint with the given id or unique prefix.

        Raises:
            CheckpointError: if there is no such checkpoint, or more than one.
        """
        matches = [place for place in places if place[1].startswith(checkpoint)]
        if len(matches) == 1 or (matches and checkpoint in (id_ for _, id_ in matches)):
            return next((place for place in matches if place[1] == checkpoint), matches[0])
        advice = f"List them with: ragflow-lg history {self._name}"
        if not matches:
            raise CheckpointError(f"The session {self._name!r} has no checkpoint {checkpoint!r}. {advice}")
        raise CheckpointError(f"{len(matches)} checkpoints in the session start with {checkpoint!r}. {advice}")

    async def levels(self, namespace: str, checkpoint: str, rerun_tasks: frozenset[str] | None) -> list[_Level]:
        """Return a superstep and the supersteps that surround it, from the inside out."""
        levels = [_Level(namespace, checkpoint, rerun_tasks)]
        while namespace:
            namespace, _, segment = namespace.rpartition(NAMESPACE_SEPARATOR)
            task = segment.partition(TASK_SEPARATOR)[2]
            outer = await self.find_task(namespace, task)
            levels.append(_Level(namespace, _checkpoint_id(outer), frozenset({task})))
        return levels

    @asynccontextmanager
    async def target(self, session: str, leases: Leases | None) -> AsyncGenerator[None]:
        """Acquire a lease for the new session, which is the target of `copy`.

        Raises:
            ConflictError: if the session exists or is being created.
        """
        async with AsyncExitStack() as stack:
            self._target = {"thread_id": thread_of_session(session)}
            if leases is not None:
                self._target[LEASE_TOKEN] = await stack.enter_async_context(hold_lease(leases, session))
            place: Any = {"configurable": {"thread_id": self._target["thread_id"], "checkpoint_ns": ""}}
            if await self._saver.aget_tuple(place) is not None:
                raise ConflictError(f"The session {session!r} already exists. Choose another name.")
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
        """
        place: Any = stored.config.get("configurable", {})
        writes = [write for write in stored.pending_writes or () if write[0] not in (without or ())]
        values = {**stored.checkpoint["channel_values"], **(changes or {})}
        if without is not None:
            open_ids = {pause.id for _, channel, pauses in writes if channel == INTERRUPT_CHANNEL for pause in pauses}
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

    async def tuple(self, namespace: str, checkpoint: str = "") -> CheckpointTuple:
        """Return a stored checkpoint, by default the newest one.

        Raises:
            CheckpointError: if there is none.
        """
        stored = await self._saver.aget_tuple(self.config(namespace, checkpoint))
        if stored is None:
            raise CheckpointError(f"The store has no session {self._name!r}.")
        return stored

    def region_of(self, namespace: str) -> NodeId | None:
        """Return the region to which a namespace belongs. Concurrent rounds have their own namespaces within it."""
        names = (segment.partition(TASK_SEPARATOR)[0] for segment in reversed(namespace.split(NAMESPACE_SEPARATOR)))
        return next((self._ids[name] for name in names if name in self._ids), None)

    def _next_nodes(self, snapshot: Any, region: NodeId | None) -> tuple[NodeId, ...]:
        """Return the next nodes. Concurrent rounds are represented by their region."""
        regions = self._canvas.plan.regions
        entry = regions[region].entry if region else self._canvas.plan.entry
        replacements = {START: entry, _ROUND: region}
        nodes = (self._ids.get(name) or replacements.get(name) for name in snapshot.next)
        return tuple(dict.fromkeys(node for node in nodes if node is not None))

    async def checkpoints(self, namespace: str) -> AsyncIterator[CheckpointInfo]:
        """Yield the steps in a namespace, newest first."""
        import orjson

        region = self.region_of(namespace)
        async for snapshot in self.history(namespace):
            place = snapshot.config["configurable"]
            record: Mapping[str, Any] = snapshot.values.get("scope") or {}
            yield CheckpointInfo(
                place["checkpoint_id"],
                namespace,
                region,
                snapshot.metadata.get("step", 0),
                snapshot.created_at or "",
                self._next_nodes(snapshot, region),
                record.get("round"),
                len(orjson.dumps(snapshot.values, default=str)),
            )

    # Finding the start of a rerun

    async def find(self, node: NodeId, round: int | None) -> tuple[str, Any]:
        """Return the newest namespace and snapshot in the last turn at which a node was about to run.

        Raises:
            CheckpointError: if the node did not run in that turn or round.
        """
        nodes = self._canvas.plan.nodes
        if node not in nodes:
            raise CheckpointError(f"The canvas has no node {node!r}. {near_names(node, nodes)}".rstrip())
        if round is not None and nodes[node].parent is None:
            raise CheckpointError(f"{node!r} is not in a Loop or Iteration and has no rounds. Omit the round.")
        ran: dict[NodeId, set[int]] = {}
        async for namespace, snapshot in self._last_turn():
            record: Mapping[str, Any] = snapshot.values.get("scope") or {}
            number: int | None = record.get("round")
            next_nodes = {self._ids[name] for name in snapshot.next if name in self._ids}
            if node in next_nodes and round in (None, number):
                return namespace, snapshot
            for other in next_nodes:
                ran.setdefault(other, set()).update(() if number is None else (number,))
        raise CheckpointError(self._describe_missing(node, round, ran))

    async def _last_turn(self) -> AsyncIterator[tuple[str, Any]]:
        """Yield the snapshots from the last turn, namespace by namespace."""
        first = ""
        async for snapshot in self.history(""):
            if snapshot.metadata.get("source") == "input":
                first = _checkpoint_id(snapshot)
                break
        for namespace in await self.namespaces():
            async for snapshot in self.history(namespace):
                if _checkpoint_id(snapshot) < first:
                    break
                yield namespace, snapshot

    def _describe_missing(self, node: NodeId, round: int | None, ran: Mapping[NodeId, set[int]]) -> str:
        if rounds := sorted(ran.get(node, ())):
            return f"{node!r} did not run in round {round} of the last turn. It ran in {_format_rounds(rounds)}."
        order = sorted(ran, key=lambda other: self._canvas.plan.nodes[other].rank)
        others = f"These nodes ran: {', '.join(order)}." if order else "Nothing ran."
        return f"{node!r} did not run in the last turn of session {self._name!r}. {others}"

    async def find_task(self, namespace: str, child: str) -> Any:
        """Return the snapshot in a namespace at which the task ``child`` was about to run."""
        async for snapshot in self.history(namespace):
            if any(task.id == child for task in snapshot.tasks):
                return snapshot
        raise CheckpointError("The session no longer has the step that contains this region.")


async def list_checkpoints(
    canvas: CompiledCanvas, saver: BaseCheckpointSaver[Any], session: str
) -> AsyncIterator[CheckpointInfo]:
    """Yield a session's stored steps, newest first. Steps in regions follow the canvas's own steps."""
    branching = _Branching(canvas, saver, session)
    for namespace in sorted(await branching.namespaces(), key=lambda name: (bool(name), name)):
        async for info in branching.checkpoints(namespace):
            yield info


async def fork(
    canvas: CompiledCanvas,
    saver: BaseCheckpointSaver[Any],
    session: str,
    target: str,
    checkpoint: str = "",
    *,
    leases: Leases | None = None,
) -> None:
    """Create a session from another session's checkpoint or current state.

    ``checkpoint`` is the id, or a unique prefix of the id, of a checkpoint of the canvas or of a region. At the newest
    checkpoint, everything is copied, including open forms; at an older one, the next nodes run again. Nodes that ran
    concurrently with a region keep their results.

    Raises:
        CheckpointError: if there is no such session or checkpoint. ConflictError: if a session with the new name
        exists.
    """
    branching = _Branching(canvas, saver, session)
    async with branching.target(target, leases):
        places = await branching.places()
        if not checkpoint or not places:
            await _copy_present(branching, canvas)
            return
        namespace, checkpoint_id = branching.find_place(places, checkpoint)
        levels = await branching.levels(namespace, checkpoint_id, None)
        newest = dict(reversed(places))
        if all(newest[level.namespace] == level.checkpoint for level in levels):
            await _copy_present(branching, canvas)
            return
        for level in levels:
            stored = await branching.tuple(level.namespace, level.checkpoint)
            tasks = {task for task, _, _ in stored.pending_writes or ()}
            await branching.copy(stored, without=tasks if level.rerun_tasks is None else level.rerun_tasks)


async def _copy_present(branching: _Branching, canvas: CompiledCanvas) -> None:
    """Copy a session in its current state, with open regions and forms."""
    root = await branching.tuple("")
    snapshot = await canvas.graph.aget_state(branching.config("", root.checkpoint["id"]))
    open_tasks = {f"{task.name}{TASK_SEPARATOR}{task.id}" for task in snapshot.tasks}
    for namespace in await branching.namespaces():
        if namespace.partition(NAMESPACE_SEPARATOR)[0] in open_tasks:
            await branching.copy(await branching.tuple(namespace))
    # The canvas itself is last, as in `copy`.
    await branching.copy(root)


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
    """Create a session that continues just before a node of the last turn, with some values changed.

    Nodes that ran concurrently keep their results. A node in a region restarts in the given round, or in its last
    round.

    Raises:
        CheckpointError: if the node did not run, or a change has an unknown name. ConflictError: if a session with the
        new name exists.
    """
    branching = _Branching(canvas, saver, session)
    async with branching.target(target, leases):
        namespace, snapshot = await branching.find(NodeId(node), round)
        name = canvas.names[NodeId(node)]
        rerun_tasks = frozenset(task.id for task in snapshot.tasks if task.name == name)
        levels = await branching.levels(namespace, _checkpoint_id(snapshot), rerun_tasks)
        stored = [await branching.tuple(level.namespace, level.checkpoint) for level in levels]
        root_values = stored[-1].checkpoint["channel_values"]
        new_values = read_changes(canvas.plan, NodeId(node), changes or {}, root_values)
        for level, entry in zip(levels, stored, strict=True):
            values = entry.checkpoint["channel_values"]
            channels = changed_channels(values, new_values, is_root=not level.namespace)
            await branching.copy(entry, without=level.rerun_tasks, changes=channels)


def _checkpoint_id(snapshot: Any) -> str:
    return snapshot.config["configurable"]["checkpoint_id"]


def _without_closed_answers(channel: str, value: Any, open_ids: Collection[str]) -> Any:
    """Remove the answers to pauses that are not open."""
    if channel != "turn" or "answers" not in value:
        return value
    return {**value, "answers": {id_: answer for id_, answer in value["answers"].items() if id_ in open_ids}}


def _format_rounds(rounds: list[int]) -> str:
    """Return ascending numbers as ranges.

    >>> _format_rounds([0, 1, 2, 5])
    'rounds 0 to 2, 5'
    """
    runs: list[list[int]] = []
    for number in rounds:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    text = ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in runs)
    return f"round{'' if len(rounds) == 1 else 's'} {text}"
