"""The stored steps of a session: where they are, and what runs next at each of them.

A session may have tens of thousands of steps. Only keys are listed; a state is read when it is wanted, one at a time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from langgraph.constants import START
from msgspec import Struct

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.ids import NodeId, thread_of_session
from ragflow_lg.base.langgraph_internals import NAMESPACE_SEPARATOR, TASK_SEPARATOR
from ragflow_lg.component.node_names import describe_unknown_node, find_node
from ragflow_lg.engine.compiled_canvas import CompiledCanvas

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

ROUND_NODE = "__round__"
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
    is_input: bool = False
    """Whether the input of the first node is read next, of the canvas or of the region."""


class StoredSteps:
    """The stored steps of one session."""

    def __init__(self, canvas: CompiledCanvas, saver: BaseCheckpointSaver[Any], session: str) -> None:
        self._canvas = canvas
        self.saver = saver
        self.session = session
        self._thread = thread_of_session(session)
        self._ids = {name: id_ for id_, name in canvas.names.items()}

    def config(self, namespace: str, checkpoint: str = "") -> Any:
        """Return LangGraph's config for a checkpoint in the session."""
        place = {"thread_id": self._thread, "checkpoint_ns": namespace}
        return {"configurable": place | ({"checkpoint_id": checkpoint} if checkpoint else {})}

    # Keys

    async def places(self, namespace: str | None = None, *, before: str = "") -> AsyncIterator[tuple[str, str]]:
        """Yield the namespace and id of checkpoints, newest first: those older than ``before``, in one namespace."""
        saver: Any = self.saver
        if hasattr(saver, "list_keys"):  # a `CanvasSaver`, which lists them without reading their values
            async with aclosing(saver.list_keys(self._thread, namespace, before=before)) as keys:
                async for key in keys:
                    yield key.namespace, key.checkpoint
            return
        wanted: Any = {"thread_id": self._thread} | ({} if namespace is None else {"checkpoint_ns": namespace})
        stored: list[dict[str, Any]] = [
            entry.config.get("configurable", {}) async for entry in saver.alist({"configurable": wanted})
        ]
        found = [(place.get("checkpoint_ns", ""), place.get("checkpoint_id", "")) for place in stored]
        for place in sorted(found, key=lambda place: place[1], reverse=True):
            if not before or place[1] < before:
                yield place

    async def newest(self, namespace: str) -> str:
        """Return the id of the newest checkpoint in a namespace, or ``""``."""
        return await self._stored_id(self.config(namespace))

    async def _stored_id(self, config: Any) -> str:
        """Return the id of a checkpoint, or ``""`` if there is none.

        In Redis, a listing sorts all checkpoints of the session.
        """
        stored = await self.saver.aget_tuple(config)
        return "" if stored is None else stored.config.get("configurable", {}).get("checkpoint_id", "")

    async def ordered(self) -> AsyncIterator[tuple[str, str]]:
        """Yield the namespace and id of every checkpoint: first the canvas's own, then those of its regions."""
        async for place in self.places(""):
            yield place
        for namespace in sorted({namespace async for namespace, _ in self.places() if namespace}):
            async for place in self.places(namespace):
                yield place

    async def find_place(self, checkpoint: str) -> tuple[str, str]:
        """Return the namespace and id of the checkpoint with the given id or unique prefix.

        Raises:
            CheckpointError: if there is no such checkpoint, or more than one.
        """
        if _is_whole_id(checkpoint) and await self._stored_id(self.config("", checkpoint)):
            return "", checkpoint
        matches = [place async for place in self.places() if place[1].startswith(checkpoint)]
        if len(matches) == 1 or (matches and checkpoint in (id_ for _, id_ in matches)):
            return next((place for place in matches if place[1] == checkpoint), matches[0])
        advice = f"List them with: ragflow-lg sessions history {self.session}"
        if not matches:
            raise CheckpointError(f"The session {self.session!r} has no checkpoint {checkpoint!r}. {advice}")
        raise CheckpointError(f"{len(matches)} checkpoints in the session start with {checkpoint!r}. {advice}")

    # States

    async def tuple(self, namespace: str, checkpoint: str = "") -> CheckpointTuple:
        """Return a stored checkpoint, by default the newest one.

        Raises:
            CheckpointError: if there is none.
        """
        stored = await self.saver.aget_tuple(self.config(namespace, checkpoint))
        if stored is None:
            raise CheckpointError(f"The store has no session {self.session!r}.")
        return stored

    async def snapshot(self, namespace: str, checkpoint: str) -> Any:
        """Return LangGraph's snapshot of a checkpoint as a record of its step, or None if it is gone."""
        # `aget_state` omits tasks that have finished.
        config = self.config(namespace, checkpoint)
        listed = self._canvas.graph.aget_state_history(config, limit=1)
        async with aclosing(cast("Any", listed)):
            async for snapshot in listed:
                return snapshot
        return None

    async def info(self, namespace: str, checkpoint: str) -> CheckpointInfo | None:
        """Describe a stored step. Return None if it is gone."""
        snapshot = await self.snapshot(namespace, checkpoint)
        return None if snapshot is None else self.describe(snapshot, namespace, checkpoint)

    def describe(self, snapshot: Any, namespace: str, checkpoint: str) -> CheckpointInfo:
        """Describe a step of which the snapshot is given."""
        region = self._region_of(namespace)
        record: Mapping[str, Any] = snapshot.values.get("scope") or {}
        return CheckpointInfo(
            checkpoint,
            namespace,
            region,
            snapshot.metadata.get("step", 0),
            snapshot.created_at or "",
            self._next_nodes(snapshot, region),
            record.get("round"),
            _json_size(snapshot.values),
            START in snapshot.next,
        )

    def _region_of(self, namespace: str) -> NodeId | None:
        """Return the region to which a namespace belongs. Concurrent rounds have their own namespaces within it."""
        names = (segment.partition(TASK_SEPARATOR)[0] for segment in reversed(namespace.split(NAMESPACE_SEPARATOR)))
        return next((self._ids[name] for name in names if name in self._ids), None)

    def _next_nodes(self, snapshot: Any, region: NodeId | None) -> tuple[NodeId, ...]:
        """Return the next nodes. Concurrent rounds are represented by their region."""
        regions = self._canvas.plan.regions
        entry = regions[region].entry if region else self._canvas.plan.entry
        replacements = {START: entry, ROUND_NODE: region}
        nodes = (self._ids.get(name) or replacements.get(name) for name in snapshot.next)
        return tuple(dict.fromkeys(node for node in nodes if node is not None))

    # Finding the start of a rerun

    def find_node(self, name: str) -> NodeId:
        """Return the node with an id or title.

        Raises:
            CheckpointError: if there is no such node, or several nodes have the title.
        """
        node = find_node(self._canvas.plan, name)
        if node is None:
            problem = describe_unknown_node(self._canvas.plan, name)
            raise CheckpointError(f"{problem} List them with: ragflow-lg sessions history {self.session}")
        return node

    async def find(self, node: NodeId, round: int | None) -> tuple[str, Any]:
        """Return the newest namespace and snapshot in the last turn at which a node was about to run.

        Raises:
            CheckpointError: if the node did not run in that turn or round.
        """
        nodes = self._canvas.plan.nodes
        if round is not None and nodes[node].parent is None:
            raise CheckpointError(f"{node!r} is not in a Loop or Iteration and has no rounds. Omit the round.")
        ran: dict[NodeId, set[int]] = {}
        async for namespace, snapshot in self.last_turn():
            record: Mapping[str, Any] = snapshot.values.get("scope") or {}
            number: int | None = record.get("round")
            next_nodes = {self._ids[name] for name in snapshot.next if name in self._ids}
            if node in next_nodes and round in (None, number):
                return namespace, snapshot
            for other in next_nodes:
                ran.setdefault(other, set()).update(() if number is None else (number,))
        raise CheckpointError(self._describe_missing(node, round, ran))

    async def last_turn(self) -> AsyncIterator[tuple[str, Any]]:
        """Yield the snapshots from the last turn, namespace by namespace."""
        first = ""
        async for _, checkpoint in self.places(""):
            stored = await self.saver.aget_tuple(self.config("", checkpoint))
            if stored is not None and stored.metadata.get("source") == "input":
                first = checkpoint
                break
        places: dict[str, list[str]] = {}
        async for namespace, checkpoint in self.places():
            if checkpoint < first:
                break
            places.setdefault(namespace, []).append(checkpoint)
        for namespace, checkpoints in places.items():
            for checkpoint in checkpoints:
                if (snapshot := await self.snapshot(namespace, checkpoint)) is not None:
                    yield namespace, snapshot

    def _describe_missing(self, node: NodeId, round: int | None, ran: Mapping[NodeId, set[int]]) -> str:
        if rounds := sorted(ran.get(node, ())):
            return f"{node!r} did not run in round {round} of the last turn. It ran in {_format_rounds(rounds)}."
        order = sorted(ran, key=lambda other: self._canvas.plan.nodes[other].rank)
        others = f"These nodes ran: {', '.join(order)}." if order else "Nothing ran."
        return f"{node!r} did not run in the last turn of session {self.session!r}. {others}"

    async def find_task(self, namespace: str, child: str, before: str) -> Any:
        """Return the snapshot in a namespace at which the task ``child`` was about to run.

        ``before`` is a checkpoint of the task, which is newer than that snapshot.
        """
        async with aclosing(cast("Any", self.places(namespace, before=before))) as places:
            async for _, checkpoint in places:
                snapshot = await self.snapshot(namespace, checkpoint)
                if snapshot is not None and any(task.id == child for task in snapshot.tasks):
                    return snapshot
        raise CheckpointError("The session no longer has the step that contains this region.")


def _is_whole_id(checkpoint: str) -> bool:
    """Return whether a text can be the id of a checkpoint, and no prefix of one."""
    try:
        return str(UUID(checkpoint)) == checkpoint
    except ValueError:
        return False


def _json_size(values: Any) -> int:
    """Return the length of a state as JSON."""
    import orjson

    return len(orjson.dumps(values, default=str))


async def list_checkpoints(
    canvas: CompiledCanvas, saver: BaseCheckpointSaver[Any], session: str
) -> AsyncIterator[CheckpointInfo]:
    """Yield a session's stored steps, newest first. Steps in regions follow the canvas's own steps."""
    steps = StoredSteps(canvas, saver, session)
    async for place in steps.ordered():
        if (info := await steps.info(*place)) is not None:
            yield info


async def page_checkpoints(
    canvas: CompiledCanvas, saver: BaseCheckpointSaver[Any], session: str, offset: int, limit: int
) -> tuple[list[CheckpointInfo], bool]:
    """Return the steps of `list_checkpoints` from number ``offset`` on, and whether there are more than ``limit``.

    Only the states of the returned steps are read.
    """
    steps, infos, position = StoredSteps(canvas, saver, session), list[CheckpointInfo](), 0
    async with aclosing(cast("Any", steps.ordered())) as places:
        async for place in places:
            if position >= offset + limit:
                return infos, True
            if position >= offset and (info := await steps.info(*place)) is not None:
                infos.append(info)
            position += 1
    return infos, False


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
