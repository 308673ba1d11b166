"""Writes sessions into files, and reads them. Files are trusted like backups; one that was damaged is refused."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import msgspec
from langgraph.checkpoint.base import Checkpoint, CheckpointTuple
from msgspec import Struct
from msgspec.structs import asdict, replace

from ragflow_lg.base.errors import ConflictError, DamagedSessionError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints.records.run_records import hex_session
from ragflow_lg.checkpoints.sessions.session_lines import (
    FileLine,
    ServerLine,
    SessionLine,
    StoredRun,
    StoredState,
    at_line,
    line_error,
    read_lines,
)
from ragflow_lg.checkpoints.steps.stored_texts import blob_digest, decode, encode, to_object, to_plain
from ragflow_lg.checkpoints.steps.thread_tables import CheckpointKey, checkpoint_key, key_config
from ragflow_lg.services.sessions import hold_lease, with_lease_token

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.store import Store


class SessionState(Struct, frozen=True):
    """What is stored of a checkpoint. The values of channels are plain."""

    checkpoint: Checkpoint
    metadata: Any
    writes: Sequence[tuple[str, str, Any]]
    """The task, channel and value of each pending write."""


async def export_session(store: Store, session: str) -> SessionLine:
    """Return a session. It cannot change meanwhile.

    Raises:
        SessionBusyError: if a runner holds the session.
        CheckpointError: if the store fails or its data is damaged.
    """
    async with hold_lease(store.leases, session):
        parts: dict[str, bytes] = {}
        keys = [key async for key in store.saver.list_keys(thread_of_session(session))]
        checkpoints = [await _read_checkpoint(store, key, parts) for key in reversed(keys)]
        place = key_config(CheckpointKey(thread_of_session(session), "", ""))
        steps = {key: value async for key, value in store.saver.steps(place).all()}
        runs = [
            StoredRun(record, await store.traces.get(record.run_id), await store.node_logs.get(record.run_id))
            async for record in store.runs.of_session(session)
        ]
    texts = {name: part.decode() for name, part in parts.items()}
    return SessionLine(hex_session(session), texts, checkpoints, steps, runs[::-1])


async def _read_checkpoint(store: Store, key: CheckpointKey, parts: dict[str, bytes]) -> StoredState:
    """Return a checkpoint. Long texts of it that are not among the parts are added to them."""
    stored = await store.saver.aget_tuple(key_config(key))
    if stored is None:
        raise DamagedSessionError(f"The checkpoint {key.checkpoint} cannot be read from the session store.")
    values = {name: to_plain(name, value) for name, value in stored.checkpoint["channel_values"].items()}
    writes = [(task, name, to_plain(name, value)) for task, name, value in stored.pending_writes or ()]
    state = SessionState({**stored.checkpoint, "channel_values": values}, stored.metadata, writes)
    text = encode(asdict(state), set(parts), parts).decode()
    parent = checkpoint_key(stored.parent_config).checkpoint if stored.parent_config else ""
    return StoredState(key.namespace, parent, text)


class Imported(Struct, frozen=True):
    """What has been imported for a session."""

    session: str
    name: str
    checkpoints: int
    runs: int
    is_whole: bool = True
    """Whether everything that the file has of the session was imported."""


class ServerRows(Protocol):
    """What a server has of sessions."""

    async def put(self, line: ServerLine | FileLine) -> None:
        """Store rows or a file of a session. Raises ValueError for wrong data, ConflictError if they exist."""
        ...

    async def delete(self, session_id: str) -> object:
        """Delete the rows of a session."""
        ...


async def import_sessions(
    store: Store, file: BinaryIO, server_rows: ServerRows | None = None
) -> AsyncIterator[Imported]:
    """Import all sessions of a file, and yield what has been imported for each.

    A session with an error is not imported, those before it stay. Without ``server_rows``, what servers have of the
    sessions is left out.

    Raises:
        SessionFileError: if a line is not what `export_session` writes.
        ConflictError: if the session exists or is running.
        CheckpointError: if the store fails.
    """
    imported: Imported | None = None
    for number, line in read_lines(file):
        if isinstance(line, SessionLine):
            if imported is not None:
                yield imported
            await _require_room(store, line.session)
            async with _importing(store, number, line.session), hold_lease(store.leases, line.session) as token:
                imported = await _Import(store, line, token).put()
            continue
        if imported is None or line.session != imported.session:
            raise line_error(number, "it does not follow its session")
        if server_rows is None:
            imported = replace(imported, is_whole=False)
            continue
        # Rows that are refused are not stored: those that are there are of something else.
        stored = server_rows if isinstance(line, FileLine) else None
        async with _importing(store, number, line.session, stored):
            await server_rows.put(line)
    if imported is not None:
        yield imported


async def _require_room(store: Store, session: str) -> None:
    async for record in store.runs.of_session(session):
        raise ConflictError(f"The session {record.name or session!r} exists already. To replace it, delete it first.")
    async for _ in store.saver.list_keys(thread_of_session(session), limit=1):
        raise ConflictError(
            f"The session {session!r} has steps but no runs: an import that was killed, or another program, has left "
            "it. To replace it, delete it first."
        )


@asynccontextmanager
async def _importing(
    store: Store, number: int, session: str, server_rows: ServerRows | None = None
) -> AsyncGenerator[None]:
    """Let errors name the line. Delete a session that cannot be imported."""
    is_stored = False
    try:
        with at_line(number):
            yield
        is_stored = True
    finally:
        if not is_stored:
            await store.delete_session(session)
            if server_rows is not None:
                await server_rows.delete(session)


class _Import:
    """The import of one session, whose lease is held."""

    def __init__(self, store: Store, line: SessionLine, token: int) -> None:
        self._store = store
        self._line = line
        self._thread = thread_of_session(line.session)
        self._token = token
        self._parts = {name: text.encode() for name, text in line.parts.items()}

    async def put(self) -> Imported:
        """Store everything, and return what it was.

        Raises:
            ValueError, or another error of wrong data: if it cannot be stored.
        """
        line = self._line
        if any(blob_digest(part) != name for name, part in self._parts.items()):
            raise ValueError("a text in it has been changed")
        place = with_lease_token(key_config(CheckpointKey(self._thread, "", "")), self._token)
        for key, value in line.steps.items():
            await self._store.saver.steps(place).put(key, value)
        for checkpoint in line.checkpoints:
            await self._put_checkpoint(checkpoint)
        for stored in line.runs:
            await self._store.runs.put(stored.run)
            for traces, trace in ((self._store.traces, stored.trace), (self._store.node_logs, stored.nodes)):
                if trace is not None:
                    await traces.put(stored.run, trace)
        name = next((stored.run.name for stored in reversed(line.runs) if stored.run.name), "")
        return Imported(line.session, name, len(line.checkpoints), len(line.runs))

    async def _put_checkpoint(self, line: StoredState) -> None:
        state = msgspec.convert(await decode(line.text.encode(), self._find), SessionState)
        key = CheckpointKey(self._thread, line.namespace, state.checkpoint["id"])
        values = {name: to_object(name, value) for name, value in state.checkpoint["channel_values"].items()}
        stored = CheckpointTuple(
            config=key_config(key),
            checkpoint={**state.checkpoint, "channel_values": values},
            metadata=state.metadata,
            parent_config=key_config(key._replace(checkpoint=line.parent)) if line.parent else None,
            pending_writes=[(task, name, to_object(name, value)) for task, name, value in state.writes],
        )
        await self._store.saver.copy(stored, self._thread, self._token)
        if await self._store.saver.aget_tuple(key_config(key)) is None:  # as a run reads it
            raise ValueError("it cannot be stored")

    async def _find(self, names: Sequence[str]) -> Mapping[str, bytes]:
        return {name: self._parts[name] for name in names if name in self._parts}
