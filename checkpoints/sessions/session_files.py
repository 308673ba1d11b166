"""Writes sessions into files, and reads them. A file may come from anybody: everything in it is checked."""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import msgspec
from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata, CheckpointTuple
from msgspec import Struct
from msgspec.structs import asdict

from ragflow_lg.base.errors import ConflictError, DamagedSessionError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints.records.run_records import check_record, hex_session
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
from ragflow_lg.services.sessions import RunRecord, Runs, hold_lease, with_lease_token

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.store import Store

MAX_NAMESPACE_CHARS = 10_000
_RUN_ID = re.compile(r"[\w-]{1,128}", re.ASCII)
_TASK_ID = re.compile(r"[0-9a-f-]{1,64}")
_HEX = re.compile(r"[0-9a-f]{32}")


class SessionState(Struct, frozen=True):
    """What is stored of a checkpoint. The values of channels are plain."""

    checkpoint: Checkpoint
    metadata: dict[str, Any]
    writes: Sequence[tuple[str, str, Any]]
    """The task, channel and value of each pending write."""


class _Metadata(Struct, frozen=True):
    """The metadata that runs read."""

    source: str
    step: int
    parents: dict[str, str] = {}
    run_id: str | None = None


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
    state = SessionState({**stored.checkpoint, "channel_values": values}, dict(stored.metadata), writes)
    text = encode(asdict(state), set(parts), parts).decode()
    parent = checkpoint_key(stored.parent_config).checkpoint if stored.parent_config else ""
    return StoredState(key.namespace, parent, text)


class Imported(Struct, frozen=True):
    """What has been imported for a session."""

    session: str
    name: str
    checkpoints: int
    runs: int


class ServerRows(Protocol):
    """What a server has of sessions."""

    async def require_own(self, session_id: str) -> None:
        """Check that an imported session replaces none of another tenant. Raises ConflictError."""
        ...

    async def put(self, line: ServerLine | FileLine) -> None:
        """Store rows or a file of a session. Raises ValueError for wrong data."""
        ...

    async def delete(self, session_id: str) -> object:
        """Delete the rows of a session."""
        ...


async def import_sessions(
    store: Store,
    file: BinaryIO,
    *,
    replaces: bool = False,
    server_rows: ServerRows | None = None,
    known_runs: Runs | None = None,
) -> AsyncIterator[Imported]:
    """Import all sessions of a file, and yield what has been imported for each.

    A session with an error is not imported, those before it stay. With ``replaces``, a session with the same id is
    deleted first: `rehearse_import` shows whether the file is complete. Without ``server_rows``, what servers have of
    the sessions is left out. Runs of other sessions among ``known_runs``, by default the store's, are not replaced.

    Raises:
        SessionFileError: if a line is not what `export_session` writes.
        ConflictError: if the session exists or is running.
        CheckpointError: if the store fails.
    """
    imported: Imported | None = None
    has_rows = False
    for number, line in read_lines(file):
        if isinstance(line, ServerLine | FileLine):
            if imported is None or line.session != imported.session or has_rows != isinstance(line, FileLine):
                raise line_error(number, "it does not follow its session")
            has_rows = True
            if server_rows is not None:
                await _put_server_line(store, server_rows, number, line)
            continue
        has_rows = False
        if imported is not None:
            yield imported
        if not _HEX.fullmatch(line.session):
            raise line_error(number, "its session is not an id of 32 hexadecimal digits")
        if server_rows is not None:
            await server_rows.require_own(line.session)
        await _make_room(store, line.session, replaces=replaces)
        imported = await _import_session(store, known_runs or store.runs, number, line)
    if imported is not None:
        yield imported


async def rehearse_import(
    store: Store, scratch: Store, file: BinaryIO, *, server_rows: ServerRows | None = None
) -> None:
    """Import a file into an empty store, to find out whether the import will succeed. It raises the same errors.

    ``server_rows`` checks what a server has of the sessions. The file is at its beginning again afterwards.
    """
    sessions = import_sessions(scratch, file, replaces=True, server_rows=server_rows, known_runs=store.runs)
    async for _ in sessions:
        pass
    file.seek(0)


async def _put_server_line(store: Store, server_rows: ServerRows, number: int, line: ServerLine | FileLine) -> None:
    """Store what a server has of a session that has been imported, or delete the session."""
    is_stored = False
    try:
        with at_line(number):
            await server_rows.put(line)
        is_stored = True
    finally:
        if not is_stored:
            await store.delete_session(line.session)
            if isinstance(line, FileLine):  # rows that are refused are not stored: those here are of something else
                await server_rows.delete(line.session)


async def _make_room(store: Store, session: str, *, replaces: bool) -> None:
    """Delete a session to replace, or what an import that was killed has left."""
    if not replaces:
        async for record in store.runs.of_session(session):
            raise ConflictError(f"The session {record.name or session!r} exists already. To replace it, add --replace.")
        async for _ in store.saver.list_keys(thread_of_session(session), limit=1):
            raise ConflictError(
                f"The session {session!r} has steps but no runs: an import that was stopped, or another program, has"
                " left it. To replace it, add --replace."
            )
    await store.delete_session(session)


async def _import_session(store: Store, known_runs: Runs, number: int, line: SessionLine) -> Imported:
    imported: Imported | None = None
    try:
        async with hold_lease(store.leases, line.session) as token:
            with at_line(number):
                imported = await _Import(store, known_runs, line, token).put()
            return imported
    finally:
        if imported is None:
            await store.delete_session(line.session)


class _Import:
    """The import of one session, whose lease is held."""

    def __init__(self, store: Store, known_runs: Runs, line: SessionLine, token: int) -> None:
        self._store = store
        self._known_runs = known_runs
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
            if not _HEX.fullmatch(key):
                raise ValueError("a key in it is not one of a step")
            await self._store.saver.steps(place).put(key, value)
        for checkpoint in line.checkpoints:
            await self._put_checkpoint(checkpoint)
        for run in line.runs:
            await self._put_run(run)
        name = next((stored.run.name for stored in reversed(line.runs) if stored.run.name), "")
        return Imported(line.session, name, len(line.checkpoints), len(line.runs))

    async def _put_checkpoint(self, line: StoredState) -> None:
        if len(line.namespace) > MAX_NAMESPACE_CHARS or "\0" in line.namespace:
            raise ValueError("its namespace is wrong")
        if line.parent and str(uuid.UUID(line.parent)) != line.parent:
            raise ValueError("its parent is not the id of a checkpoint")
        state = msgspec.convert(await decode(line.text.encode(), self._find), SessionState)
        msgspec.convert(state.metadata, _Metadata)
        id_ = uuid.UUID(state.checkpoint["id"])
        if id_.version != 6 or str(id_) != state.checkpoint["id"]:
            raise ValueError("its id is not one of a checkpoint")
        if not all(_TASK_ID.fullmatch(task) for task, _, _ in state.writes):
            raise ValueError("a task in it has a wrong id")
        key = CheckpointKey(self._thread, line.namespace, str(id_))
        values = {name: to_object(name, value) for name, value in state.checkpoint["channel_values"].items()}
        metadata: CheckpointMetadata = state.metadata  # pyright: ignore[reportAssignmentType] - checked above
        stored = CheckpointTuple(
            config=key_config(key),
            checkpoint={**state.checkpoint, "channel_values": values},
            metadata=metadata,
            parent_config=key_config(key._replace(checkpoint=line.parent)) if line.parent else None,
            pending_writes=[(task, name, to_object(name, value)) for task, name, value in state.writes],
        )
        await self._store.saver.copy(stored, self._thread, self._token)
        if await self._store.saver.aget_tuple(key_config(key)) is None:  # as a run reads it
            raise ValueError("it cannot be stored")

    async def _find(self, names: Sequence[str]) -> Mapping[str, bytes]:
        return {name: self._parts[name] for name in names if name in self._parts}

    async def _put_run(self, stored: StoredRun) -> None:
        self._check_run(stored.run)
        known = await self._known_runs.get(stored.run.run_id)
        if known is not None and known.session != self._line.session:
            raise ValueError("another session has a run with its id")
        await self._store.runs.put(stored.run)
        for traces, trace in ((self._store.traces, stored.trace), (self._store.node_logs, stored.nodes)):
            if trace is not None:
                await traces.put(stored.run, trace)

    def _check_run(self, record: RunRecord) -> None:
        check_record(asdict(record))
        if record.session != self._line.session or (record.name and hex_session(record.name) != record.session):
            raise ValueError("it belongs to another session")
        if not _RUN_ID.fullmatch(record.run_id):
            raise ValueError("its id is not one of a run")
