"""The in-memory store: sessions end with the process."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, Protocol

from langgraph.checkpoint.memory import InMemorySaver

from ragflow_lg.checkpoints.records.lease_owner import Owner
from ragflow_lg.checkpoints.records.leases import LeaseHolder, StoredLeases
from ragflow_lg.checkpoints.records.run_records import (
    MAX_TRACES,
    hex_session,
    normalize_record,
    parse_trace,
    write_trace,
)
from ragflow_lg.checkpoints.steps.plain_serializer import PlainSerializer
from ragflow_lg.checkpoints.steps.saver import CanvasSaver
from ragflow_lg.checkpoints.steps.saver_operations import CheckpointKey, key_config
from ragflow_lg.checkpoints.store import Store
from ragflow_lg.services.sessions import RunRecord, Trace


def memory_store() -> Store:
    """Create an in-memory store."""
    leases = StoredLeases(MemoryLeaseTable())
    traces, node_logs = MemoryTraces(), MemoryTraces()
    return Store(memory_saver(), leases, MemoryRecords((traces, node_logs)), MemoryCancels(), traces, node_logs)


def memory_saver() -> CanvasSaver:
    """Create an in-memory saver."""
    blobs = MemoryBlobs()
    return CanvasSaver(MemorySaver(blobs), blobs)


class MemorySaver(InMemorySaver):
    """LangGraph's saver, which can also list and erase checkpoints by key."""

    def __init__(self, blobs: MemoryBlobs) -> None:
        super().__init__(serde=PlainSerializer())  # pyright: ignore[reportUnknownMemberType] - an untyped dict
        self._blobs = blobs

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything that belongs to a thread."""
        await super().adelete_thread(thread_id)
        self._blobs.delete(thread_id)

    async def list_keys(
        self, thread: str | None, namespace: str | None = None, *, before: str = "", limit: int | None = None
    ) -> AsyncIterator[CheckpointKey]:
        """Yield the keys of checkpoints, newest first."""
        threads = list(self.storage) if thread is None else [thread]
        keys = [
            CheckpointKey(name, namespace_name, checkpoint)
            for name in threads
            for namespace_name, checkpoints in self.storage.get(name, {}).items()
            if namespace in (None, namespace_name)
            for checkpoint in checkpoints
            if not before or checkpoint < before
        ]
        for key in sorted(keys, key=lambda key: key.checkpoint, reverse=True)[:limit]:
            yield key

    async def keys_of_runs(self, runs: Collection[str]) -> list[CheckpointKey]:
        """Return the keys of the checkpoints that the runs have stored."""
        keys = [key async for key in self.list_keys(None)]
        stored = [(key, await self.aget_tuple(key_config(key))) for key in keys]
        return [key for key, entry in stored if entry is not None and entry.metadata.get("run_id") in runs]

    async def erase(self, keys: Sequence[CheckpointKey]) -> None:
        """Delete checkpoints and their pending writes."""
        for thread, namespace, checkpoint in keys:
            self.storage[thread][namespace].pop(checkpoint, None)
            self.writes.pop((thread, namespace, checkpoint), None)
        for thread, namespace in {key[:2] for key in keys}:
            self._drop_values(thread, namespace)

    def _drop_values(self, thread: str, namespace: str) -> None:
        """Delete the channel values that no checkpoint of a namespace has."""
        used: set[Any] = set()
        for stored, _, _ in self.storage[thread][namespace].values():
            used.update(self.serde.loads_typed(stored)["channel_versions"].items())
        for place in [place for place in self.blobs if place[:2] == (thread, namespace) and place[2:] not in used]:
            del self.blobs[place]

    async def stored_bytes(self, keys: Sequence[CheckpointKey]) -> int:
        """Return the size of checkpoints and their pending writes."""
        size = 0
        for thread, namespace, checkpoint in keys:
            (_, text), (_, metadata), _ = self.storage[thread][namespace][checkpoint]
            size += len(text) + len(metadata)
            size += sum(len(value[1]) for _, _, value, _ in self.writes[thread, namespace, checkpoint].values())
        return size

    async def release_space(self) -> None:
        """Do nothing: Python releases memory by itself."""


class MemoryBlobs:
    """Blobs in a dict."""

    def __init__(self) -> None:
        self._threads: dict[str, dict[str, bytes]] = {}

    async def put(self, thread: str, blobs: Mapping[str, bytes]) -> None:
        """Store blobs."""
        self._threads.setdefault(thread, {}).update(blobs)

    async def find(self, thread: str, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Return those of the requested blobs that exist."""
        blobs = self._threads.get(thread, {})
        return {digest: blobs[digest] for digest in digests if digest in blobs}

    async def names(self, thread: str) -> list[str]:
        """Return the names of all of a thread's blobs."""
        return list(self._threads.get(thread, {}))

    async def stored_bytes(self, thread: str, names: Sequence[str]) -> int:
        """Return the size of blobs."""
        return sum(map(len, (await self.find(thread, names)).values()))

    async def erase(self, thread: str, names: Sequence[str]) -> None:
        """Delete blobs."""
        for name in names:
            self._threads.get(thread, {}).pop(name, None)

    def delete(self, thread: str) -> None:
        """Delete all of a thread's blobs."""
        self._threads.pop(thread, None)


class MemoryLeaseTable:
    """Leases of one process."""

    errors: ClassVar[tuple[type[Exception], ...]] = ()

    def __init__(self) -> None:
        self._tokens: dict[str, int] = {}
        self._owners: dict[str, Owner] = {}

    def take(self, session: str, owner: Owner, dead_token: int) -> asyncio.Future[int | LeaseHolder]:
        """Lease a free session. A future that is done takes no task."""
        taken: asyncio.Future[int | LeaseHolder] = asyncio.get_running_loop().create_future()
        token = self._tokens.get(session, 0)
        if session in self._owners and token != dead_token:
            taken.set_result(LeaseHolder(self._owners[session], token))
        else:
            self._tokens[session], self._owners[session] = token + 1, owner
            taken.set_result(token + 1)
        return taken

    async def find(self, session: str) -> LeaseHolder | None:
        """Return the current holder of a session's lease."""
        return LeaseHolder(self._owners[session], self._tokens[session]) if session in self._owners else None

    async def renew(self, session: str, token: int) -> bool:
        """Return whether the lease is current; in-memory leases do not expire."""
        return self._tokens.get(session) == token

    async def free(self, session: str, token: int) -> None:
        """End a lease."""
        if self._tokens.get(session) == token:
            self._owners.pop(session, None)

    async def forget(self, session: str) -> None:
        """Delete the token of a session that is not leased."""
        if session not in self._owners:
            self._tokens.pop(session, None)


class MemoryRecords:
    """Run records, kept in process memory."""

    def __init__(self, traces: Sequence[MemoryTraces] = ()) -> None:
        self._traces = traces
        self._records: dict[str, RunRecord] = {}
        self._order: dict[str, list[tuple[int, str]]] = {}
        """The start and the id of each run, oldest first, by session."""

    async def put(self, record: RunRecord) -> None:
        """Store a record."""
        record = normalize_record(record)
        self._drop(record.run_id)
        self._records[record.run_id] = record
        insort(self._order.setdefault(record.session, []), (record.started_ms, record.run_id))

    async def get(self, run_id: str) -> RunRecord | None:
        """Return a record."""
        return self._records.get(run_id)

    async def of_session(self, session: str) -> AsyncIterator[RunRecord]:
        """Yield a session's records, newest first."""
        for _, run_id in reversed(self._order.get(hex_session(session), [])):
            yield self._records[run_id]

    async def sessions(self) -> AsyncIterator[RunRecord]:
        """Yield the newest record of every session, newest first."""
        for _, run_id in sorted((runs[-1] for runs in self._order.values()), reverse=True):
            yield self._records[run_id]

    async def delete(self, session: str, run_ids: Sequence[str]) -> None:
        """Delete some of a session's records, with their traces."""
        for run_id in run_ids:
            self._drop(run_id)
            for traces in self._traces:
                traces.drop(session, run_id)

    async def delete_session(self, session: str) -> None:
        """Delete all of a session's records."""
        for _, run_id in self._order.pop(hex_session(session), []):
            del self._records[run_id]

    def _drop(self, run_id: str) -> None:
        if (record := self._records.pop(run_id, None)) is None:
            return
        runs = self._order[record.session]
        runs.remove((record.started_ms, run_id))
        if not runs:
            del self._order[record.session]


class MemoryTraces:
    """Agent traces, kept in process memory."""

    def __init__(self) -> None:
        self._traces: dict[str, str] = {}
        self._order: dict[str, list[tuple[int, str]]] = {}
        """The start and the id of each run with a trace, oldest first, by session."""

    async def put(self, record: RunRecord, trace: Trace) -> None:
        """Store a run's trace and delete the traces of the session's oldest runs."""
        runs, place = self._order.setdefault(hex_session(record.session), []), (record.started_ms, record.run_id)
        if record.run_id not in self._traces:
            insort(runs, place)
        self._traces[record.run_id] = write_trace(trace)
        for _, run_id in runs[:-MAX_TRACES]:
            del self._traces[run_id]
        del runs[:-MAX_TRACES]

    async def get(self, run_id: str) -> Trace | None:
        """Return a run's trace."""
        return parse_trace(self._traces.get(run_id))

    def drop(self, session: str, run_id: str) -> None:
        """Delete a run's trace."""
        if self._traces.pop(run_id, None) is not None:
            runs = self._order[hex_session(session)]
            runs[:] = [place for place in runs if place[1] != run_id]

    async def delete_session(self, session: str) -> None:
        """Delete a session's traces."""
        for _, run_id in self._order.pop(hex_session(session), []):
            del self._traces[run_id]


class Watching(Protocol):
    """What passes requests to cancel on to the blocks."""

    def begin(self, watch: CancelWatch) -> None:
        """Begin a block."""
        ...

    async def end(self, watch: CancelWatch) -> None:
        """End a block."""
        ...


class CancelWatch(AbstractAsyncContextManager[None]):
    """A block; see `ragflow_lg.services.sessions.Cancels.watch`."""

    def __init__(self, cancels: Watching, session: str, on_cancel: Callable[[], None]) -> None:
        self._cancels = cancels
        self.session = session
        self.on_cancel = on_cancel

    async def __aenter__(self) -> None:
        """Begin the block."""
        self._cancels.begin(self)

    async def __aexit__(self, *error: object) -> None:
        """End the block."""
        await self._cancels.end(self)


class MemoryCancels:
    """Cancellation within one process."""

    def __init__(self) -> None:
        self._watches: dict[str, list[CancelWatch]] = {}

    async def request(self, session: str) -> None:
        """Cancel the session's turn."""
        self.cancel(session)

    async def is_requested(self, session: str) -> bool:
        """Return False: a request is seen at once."""
        return False

    def cancel(self, session: str) -> None:
        """Cancel the session's turn at once."""
        for watch in self._watches.pop(hex_session(session), ()):
            watch.on_cancel()

    def watch(self, session: str, on_cancel: Callable[[], None]) -> CancelWatch:
        """Call ``on_cancel`` once, on the next cancel request."""
        return CancelWatch(self, session, on_cancel)

    def begin(self, watch: CancelWatch) -> None:
        """Begin a block of `watch`."""
        self._watches.setdefault(hex_session(watch.session), []).append(watch)

    async def end(self, watch: CancelWatch) -> None:
        """End a block of `watch`."""
        session = hex_session(watch.session)
        watches = self._watches.get(session, [])
        if watch in watches:
            watches.remove(watch)
            if not watches:
                del self._watches[session]
