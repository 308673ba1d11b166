"""Forks and reruns: a new session that begins where another one has been. The other one is not touched.

LangGraph's own time travel replays a region from its first round and moves the session's head. Here the
checkpoints of one info are copied, those of the regions that were open at that info too, so that the new session
goes on as the old one would have.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from ragflow_lg.base.errors import CheckpointError, ConflictError
from ragflow_lg.base.ids import NodeId, thread_of_session
from ragflow_lg.base.values import JsonValue
from ragflow_lg.engine.compiled_canvas import CompiledCanvas
from ragflow_lg.runs.canvas_changes import changed_channels, near_names, read_changes
from ragflow_lg.services.sessions import LEASE_TOKEN, Leases, hold_lease

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

__all__ = ["CheckpointInfo", "fork", "list_checkpoints", "rerun"]

_INTERRUPT = "__interrupt__"
"""LangGraph's channel for what a task asks."""
_START, _ROUND = "__start__", "__round__"
"""Graph names of the way in, and of a round that runs beside others; all others are those of components."""


class CheckpointInfo(Struct, frozen=True):
    """A stored superstep of a session. ``next`` are the nodes that come next, by component id."""

    checkpoint: str
    namespace: str
    """LangGraph's name of the entry into a region that the step belongs to, ``""`` for the canvas itself."""
    region: NodeId | None
    """The Loop or Iteration that is."""
    step: int
    created_at: str
    """ISO 8601."""
    next: tuple[NodeId, ...]
    round: int | None
    size_bytes: int


class _Level(Struct, frozen=True):
    """A stored superstep of a namespace, and which of its tasks are to run again."""

    namespace: str
    checkpoint: str
    again: frozenset[str] | None
    """None for all of them."""


class _Branching:
    """What forking and rerunning share: reading one session, writing another."""

    def __init__(self, canvas: CompiledCanvas, saver: BaseCheckpointSaver[Any], source: str) -> None:
        self._canvas = canvas
        self._saver = saver
        self._name = source
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

    async def places(self) -> list[tuple[str, str]]:
        """Give namespace and id of every checkpoint of the session, the newest first."""
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
        """Give every namespace of the session, the one with the newest checkpoint first."""
        return list(dict.fromkeys(namespace for namespace, _ in await self.places()))

    def find_place(self, places: list[tuple[str, str]], checkpoint: str) -> tuple[str, str]:
        """Give namespace and id of the checkpoint that an id, or the beginning of one, names.

        Raises:
            CheckpointError: if there is none, or more than one.
        """
        found = [place for place in places if place[1].startswith(checkpoint)]
        if len(found) == 1 or (found and checkpoint in (id_ for _, id_ in found)):
            return next((place for place in found if place[1] == checkpoint), found[0])
        listed = f"`ragflow-lg history {self._name}` lists them."
        if not found:
            raise CheckpointError(f"The session {self._name!r} has no checkpoint {checkpoint!r}; {listed}")
        raise CheckpointError(f"{len(found)} checkpoints of the session begin with {checkpoint!r}; {listed}")

    async def levels(self, namespace: str, checkpoint: str, again: frozenset[str] | None) -> list[_Level]:
        """Give a superstep and those of the levels around it, from the inside out."""
        levels = [_Level(namespace, checkpoint, again)]
        while namespace:
            namespace, _, segment = namespace.rpartition("|")
            task = segment.partition(":")[2]
            around = await self.task_of(namespace, task)
            levels.append(_Level(namespace, _id_of(around), frozenset({task})))
        return levels

    @asynccontextmanager
    async def target(self, session: str, leases: Leases | None) -> AsyncGenerator[None]:
        """Hold the new session, to which `copy` writes.

        Raises:
            ConflictError: if it is there already, or somebody is about to make it.
        """
        async with AsyncExitStack() as held:
            self._target = {"thread_id": thread_of_session(session)}
            if leases is not None:
                self._target[LEASE_TOKEN] = await held.enter_async_context(hold_lease(leases, session))
            place: Any = {"configurable": {"thread_id": self._target["thread_id"], "checkpoint_ns": ""}}
            if await self._saver.aget_tuple(place) is not None:
                raise ConflictError(f"There is a session {session!r} already; choose another name.")
            # Somebody may have died while making it.
            await self._saver.adelete_thread(self._target["thread_id"])
            yield

    async def copy(
        self,
        found: CheckpointTuple,
        *,
        without: Collection[str] | None = None,
        changes: Mapping[str, Any] | None = None,
    ) -> None:
        """Copy a checkpoint and what its tasks have written, except those of ``without``, under the same ids.

        With ``without`` some of it is to run again. A form that is asked again has the same id as before: the answer
        that it got is forgotten, or the new session would take it for answered.
        """
        place: Any = found.config.get("configurable", {})
        writes = [write for write in found.pending_writes or () if write[0] not in (without or ())]
        values = {**found.checkpoint["channel_values"], **(changes or {})}
        if without is not None:
            asked = {pause.id for _, channel, pauses in writes if channel == _INTERRUPT for pause in pauses}
            writes = [(task, channel, _forgetful(channel, value, asked)) for task, channel, value in writes]
            values = {channel: _forgetful(channel, value, asked) for channel, value in values.items()}
        versions = found.checkpoint["channel_versions"]
        versions = {**dict.fromkeys(changes or (), max(versions.values(), default=None)), **versions}
        checkpoint: Any = {**found.checkpoint, "channel_values": values, "channel_versions": versions}
        namespace: Any = {**self._target, "checkpoint_ns": place.get("checkpoint_ns", "")}
        coming: Any = {**namespace, "checkpoint_id": checkpoint["id"]}
        by_task: dict[str, list[tuple[str, Any]]] = {}
        for task, channel, value in writes:
            by_task.setdefault(task, []).append((channel, value))
        for task, written in by_task.items():
            await self._saver.aput_writes({"configurable": coming}, written, task)
        # Last, since it makes the rest count: whoever dies before has made no session.
        metadata: Any = {**found.metadata, "source": "fork"}
        await self._saver.aput({"configurable": namespace}, checkpoint, metadata, checkpoint["channel_versions"])

    async def tuple(self, namespace: str, checkpoint: str = "") -> CheckpointTuple:
        """Give a stored checkpoint, or the newest.

        Raises:
            CheckpointError: if there is none.
        """
        found = await self._saver.aget_tuple(self.config(namespace, checkpoint))
        if found is None:
            raise CheckpointError(f"There is no session {self._name!r} here.")
        return found

    def region_of(self, namespace: str) -> NodeId | None:
        """Give the region of a namespace. Rounds side by side have namespaces of their own within it."""
        names = (segment.partition(":")[0] for segment in reversed(namespace.split("|")))
        return next((self._ids[name] for name in names if name in self._ids), None)

    def _coming(self, snapshot: Any, region: NodeId | None) -> tuple[NodeId, ...]:
        """Give the nodes that come next. Rounds that run side by side are told by their region."""
        regions = self._canvas.plan.regions
        begins = regions[region].entry if region else self._canvas.plan.entry
        stand_in = {_START: begins, _ROUND: region}
        found = (self._ids.get(name) or stand_in.get(name) for name in snapshot.next)
        return tuple(dict.fromkeys(node for node in found if node is not None))

    async def checkpoints(self, namespace: str) -> AsyncIterator[CheckpointInfo]:
        """Go through the steps of a namespace, newest first."""
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
                self._coming(snapshot, region),
                record.get("round"),
                len(orjson.dumps(snapshot.values, default=str)),
            )

    # Where to begin again

    async def find(self, node: NodeId, round: int | None) -> tuple[str, Any]:
        """Give the newest namespace and snapshot of the last turn at which a node was about to run.

        Raises:
            CheckpointError: if it has not run in this turn, or not in that round.
        """
        nodes = self._canvas.plan.nodes
        if node not in nodes:
            raise CheckpointError(f"The canvas has no node {node!r}. {near_names(node, nodes)}".rstrip())
        if round is not None and nodes[node].parent is None:
            raise CheckpointError(f"{node!r} is in no Loop or Iteration: it has no rounds, so name none.")
        ran: dict[NodeId, set[int]] = {}
        async for namespace, snapshot in self._last_turn():
            record: Mapping[str, Any] = snapshot.values.get("scope") or {}
            number: int | None = record.get("round")
            coming = {self._ids[name] for name in snapshot.next if name in self._ids}
            if node in coming and round in (None, number):
                return namespace, snapshot
            for other in coming:
                ran.setdefault(other, set()).update(() if number is None else (number,))
        raise CheckpointError(self._not_run(node, round, ran))

    async def _last_turn(self) -> AsyncIterator[tuple[str, Any]]:
        """Go through the snapshots of the last turn, namespace by namespace."""
        began = ""
        async for snapshot in self.history(""):
            if snapshot.metadata.get("source") == "input":
                began = _id_of(snapshot)
                break
        for namespace in await self.namespaces():
            async for snapshot in self.history(namespace):
                if _id_of(snapshot) < began:
                    break
                yield namespace, snapshot

    def _not_run(self, node: NodeId, round: int | None, ran: Mapping[NodeId, set[int]]) -> str:
        if rounds := sorted(ran.get(node, ())):
            return f"{node!r} did not run in round {round} of the last turn. It ran in {_shown_rounds(rounds)}."
        order = sorted(ran, key=lambda other: self._canvas.plan.nodes[other].rank)
        what = f"Those that ran: {', '.join(order)}." if order else "Nothing ran."
        return f"{node!r} did not run in the last turn of the session {self._name!r}. {what}"

    async def task_of(self, namespace: str, child: str) -> Any:
        """Give the snapshot of a namespace in which the task ``child`` was about to run."""
        async for snapshot in self.history(namespace):
            if any(task.id == child for task in snapshot.tasks):
                return snapshot
        raise CheckpointError("The session does not hold the step around this region any more.")


async def list_checkpoints(
    canvas: CompiledCanvas, saver: BaseCheckpointSaver[Any], session: str
) -> AsyncIterator[CheckpointInfo]:
    """Go through the stored steps of a session, newest first; those of regions come behind the canvas's own."""
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
    """Make a new session that stands where another one stood at a checkpoint, or stands now.

    ``checkpoint`` is one of the canvas or of a region; the beginning of its id is enough. At the newest one everything
    goes along, what it waits for too; at an older one the nodes that came next run again. Nodes that ran beside the
    region keep what they gave.

    Raises:
        CheckpointError: if there is no such session or checkpoint.
        ConflictError: if there is a session of the new name.
    """
    branching = _Branching(canvas, saver, session)
    async with branching.target(target, leases):
        places = await branching.places()
        if not checkpoint or not places:
            await _copy_present(branching, canvas)
            return
        namespace, id_ = branching.find_place(places, checkpoint)
        levels = await branching.levels(namespace, id_, None)
        newest = dict(reversed(places))
        if all(newest[level.namespace] == level.checkpoint for level in levels):
            await _copy_present(branching, canvas)
            return
        for level in levels:
            found = await branching.tuple(level.namespace, level.checkpoint)
            everything = {task for task, _, _ in found.pending_writes or ()}
            await branching.copy(found, without=everything if level.again is None else level.again)


async def _copy_present(branching: _Branching, canvas: CompiledCanvas) -> None:
    """Copy a session as it stands, with the regions that are open and what it waits for."""
    found = await branching.tuple("")
    snapshot = await canvas.graph.aget_state(branching.config("", found.checkpoint["id"]))
    open_tasks = {f"{task.name}:{task.id}" for task in snapshot.tasks}
    for namespace in await branching.namespaces():
        if namespace.partition("|")[0] in open_tasks:
            await branching.copy(await branching.tuple(namespace))
    # The canvas itself comes last, as within `copy`.
    await branching.copy(found)


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
        again = frozenset(task.id for task in snapshot.tasks if task.name == name)
        levels = await branching.levels(namespace, _id_of(snapshot), again)
        stored = [await branching.tuple(level.namespace, level.checkpoint) for level in levels]
        around = stored[-1].checkpoint["channel_values"]
        read = read_changes(canvas.plan, NodeId(node), changes or {}, around)
        for level, found in zip(levels, stored, strict=True):
            values = found.checkpoint["channel_values"]
            changed = changed_channels(values, read, is_root=not level.namespace)
            await branching.copy(found, without=level.again, changes=changed)


def _id_of(snapshot: Any) -> str:
    return snapshot.config["configurable"]["checkpoint_id"]


def _forgetful(channel: str, value: Any, asked: Collection[str]) -> Any:
    """Leave out the answers to pauses that are not open any more."""
    if channel != "turn" or "answers" not in value:
        return value
    return {**value, "answers": {id_: answer for id_, answer in value["answers"].items() if id_ in asked}}


def _shown_rounds(rounds: list[int]) -> str:
    """Show numbers in order as runs of neighbours.

    >>> _shown_rounds([0, 1, 2, 5])
    'rounds 0 to 2, 5'
    """
    runs: list[list[int]] = []
    for number in rounds:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    told = ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in runs)
    return f"round{'' if len(rounds) == 1 else 's'} {told}"
