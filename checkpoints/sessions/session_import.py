"""Imports exported sessions. The file may come from anybody: everything is checked before it is stored."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import orjson
from langgraph.checkpoint.base import CheckpointTuple
from msgspec import Struct
from msgspec.structs import asdict

from ragflow_lg.base.errors import ConflictError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints.records.run_records import hex_session, read_record
from ragflow_lg.checkpoints.sessions.session_lines import (
    CheckpointLine,
    EndLine,
    FileLine,
    Line,
    PartLine,
    RecordLine,
    ServerLine,
    SessionLine,
    TraceLine,
    WritesLine,
    at_line,
    line_error,
    read_lines,
)
from ragflow_lg.checkpoints.sessions.session_pruning import is_part
from ragflow_lg.checkpoints.steps.checkpoint_texts import check_fields, is_known_metadata, stored_texts
from ragflow_lg.checkpoints.steps.preconditions import Precondition
from ragflow_lg.checkpoints.steps.saver_operations import CheckpointKey, key_config
from ragflow_lg.checkpoints.values.marks import blob_digest, find_digests
from ragflow_lg.checkpoints.values.seals import is_sealed
from ragflow_lg.services.sessions import RunRecord, hold_lease, with_lease_token

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from ragflow_lg.checkpoints.store import Store
    from ragflow_lg.services.sessions import Runs

BATCH_LINES, BATCH_BYTES = 100, 1024 * 1024
"""How much is written in one transaction, at least."""
MAX_NAMESPACE_CHARS = 10_000
_RUN_ID = re.compile(r"[\w-]{1,128}", re.ASCII)
_TASK_ID = re.compile(r"[0-9a-f-]{1,64}")
_HEX = re.compile(r"[0-9a-f]{32}")
_ORDER: tuple[type[Line] | tuple[type[Line], ...], ...] = (
    PartLine,
    (CheckpointLine, WritesLine),
    TraceLine,
    RecordLine,
)


class Imported(Struct, frozen=True):
    """What has been imported for a session."""

    session: str
    name: str
    checkpoints: int
    parts: int
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
    lines = read_lines(file)
    imported: Imported | None = None
    has_rows = False
    for number, line in lines:
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
            imported = None
        if not isinstance(line, SessionLine):
            raise line_error(number, "it belongs to no session")
        if not _HEX.fullmatch(line.session):
            raise line_error(number, "its session is not an id of 32 hexadecimal digits")
        if server_rows is not None:
            await server_rows.require_own(line.session)
        await _make_room(store, line.session, replaces=replaces)
        imported = await _import_session(store, known_runs or store.runs, line.session, number, lines)
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
    """Delete a session to replace, or the parts that an import that was killed has left."""
    if not replaces:
        async for record in store.runs.of_session(session):
            raise ConflictError(f"The session {record.name or session!r} exists already. To replace it, add --replace.")
        async for _ in store.saver.list_keys(str(thread_of_session(session)), limit=1):
            raise ConflictError(
                f"The session {session!r} has steps but no runs: an import that was stopped, or another program, has"
                " left it. To replace it, add --replace."
            )
    await store.delete_session(session)


async def _import_session(
    store: Store, known_runs: Runs, session: str, number: int, lines: Iterator[tuple[int, Line]]
) -> Imported:
    imported: Imported | None = None
    try:
        async with hold_lease(store.leases, session) as token:
            imported = await _Import(store, known_runs, session, token).read(number, lines)
        return imported
    finally:
        if imported is None:
            await store.delete_session(session)


class _Import:
    """The import of one session, whose lease is held."""

    def __init__(self, store: Store, known_runs: Runs, session: str, token: int) -> None:
        self._store = store
        self._known_runs = known_runs
        self._saver = store.saver
        self._session = session
        self._thread = str(thread_of_session(session))
        self._token = token
        self._parts: set[str] = set()
        self._used: set[str] = set()
        """The parts that parts use. A part may come after the one that uses it."""
        self._batch: list[tuple[int, Line]] = []
        self._batch_bytes = 0
        self._last: CheckpointLine | None = None
        self._count = {CheckpointLine: 0, RecordLine: 0}
        self._name = ""

    async def read(self, number: int, lines: Iterator[tuple[int, Line]]) -> Imported:
        """Read lines until the session's end."""
        start, place = number, 0
        for number, line in lines:
            if isinstance(line, EndLine):
                if line.lines != number - start - 1:
                    raise line_error(number, f"{line.lines} lines were exported, but {number - start - 1} are here")
                await self._flush()
                return Imported(
                    self._session, self._name, self._count[CheckpointLine], len(self._parts), self._count[RecordLine]
                )
            order = next((at for at, kinds in enumerate(_ORDER) if isinstance(line, kinds)), -1)
            if order < place:
                raise line_error(number, "it is not where it belongs")
            if order > place:
                await self._flush()
                self._check_parts(number)
                place = order
            with at_line(number):
                size = self._check(line)
            await self._add(number, line, size)
        raise line_error(number + 1, "the file ends inside a session")

    def _check_parts(self, number: int) -> None:
        if missing := self._used - self._parts:
            raise line_error(number, f"part {min(missing)} is missing before it")

    def _check(self, line: Line) -> int:
        """Return the size of a line. Raise ValueError, or another error of wrong data, if it cannot be stored."""
        match line:
            case PartLine():
                return self._check_part(line)
            case CheckpointLine():
                return self._check_checkpoint(line)
            case WritesLine():
                return self._check_writes(line)
            case TraceLine() | RecordLine():
                self._check_run(line.run)
                return 1000
            case _:
                raise ValueError("it is inside a session")

    def _check_part(self, line: PartLine) -> int:
        text = line.text.encode()
        if not is_part(line.name) or line.name in self._parts:
            raise ValueError("its name is wrong")
        if blob_digest(text) != line.name and not is_sealed(text):  # results of steps have other names than their hash
            raise ValueError("its text has been changed")
        self._parts.add(line.name)
        self._used.update(find_digests(text))
        return len(text)

    def _check_checkpoint(self, line: CheckpointLine) -> int:
        key = self._key(line)
        if uuid.UUID(key.checkpoint).version != 6 or str(uuid.UUID(key.checkpoint)) != key.checkpoint:
            raise ValueError("its id is not one of a checkpoint")
        if line.parent and str(uuid.UUID(line.parent)) != line.parent:
            raise ValueError("its parent is not the id of a checkpoint")
        if len(line.namespace) > MAX_NAMESPACE_CHARS or "\0" in line.namespace:
            raise ValueError("its namespace is wrong")
        if not all(map(is_known_metadata, line.metadata)):
            raise ValueError("its metadata have an unknown name")
        packed: Any = CheckpointTuple(key_config(key), line.checkpoint, line.metadata)  # pyright: ignore[reportArgumentType] - checked here
        check_fields(packed)
        orjson.dumps([line.checkpoint, line.metadata])  # no store can write longer numbers
        self._last = line
        self._count[CheckpointLine] += 1
        return self._check_texts(stored_texts(packed))

    def _check_writes(self, line: WritesLine) -> int:
        if self._last is None:
            raise ValueError("it belongs to no checkpoint")
        if not _TASK_ID.fullmatch(line.task):
            raise ValueError("its task is not the id of one")
        return self._check_texts([text for _, text in line.writes if text is not None])

    def _check_texts(self, texts: Sequence[str]) -> int:
        for text in texts:
            if missing := set(find_digests(text.encode())) - self._parts:
                raise ValueError(f"part {min(missing)} is missing")
        return sum(map(len, texts))

    def _check_run(self, record: RunRecord) -> None:
        read_record(asdict(record))
        if record.session != self._session or (record.name and hex_session(record.name) != self._session):
            raise ValueError("it belongs to another session")
        if not _RUN_ID.fullmatch(record.run_id):
            raise ValueError("its id is not one of a run")

    def _key(self, line: CheckpointLine) -> CheckpointKey:
        return CheckpointKey(self._thread, line.namespace, str(line.checkpoint["id"]))

    async def _add(self, number: int, line: Line, size: int) -> None:
        self._batch.append((number, line))
        self._batch_bytes += size
        # A checkpoint and its pending writes are stored together.
        if self._batch_bytes >= BATCH_BYTES or (len(self._batch) >= BATCH_LINES and not isinstance(line, WritesLine)):
            await self._flush()

    async def _flush(self) -> None:
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        for number, line in batch:
            if isinstance(line, TraceLine | RecordLine):
                with at_line(number):
                    await self._put_record(line)
        stored = [(number, line) for number, line in batch if isinstance(line, PartLine | CheckpointLine | WritesLine)]
        if not stored:
            return
        values = self._saver.values
        values.forget(self._thread)
        with values.errors.translate("written"):
            async with values.transaction(Precondition(self._thread, self._token)):
                parts = {line.name: line.text.encode() for _, line in stored if isinstance(line, PartLine)}
                if parts:
                    await values.blobs.put(self._thread, parts)
                for _, line in stored:
                    await self._put(line)
        await self._read_again([(number, line) for number, line in stored if isinstance(line, CheckpointLine)])

    async def _put(self, line: Line) -> None:
        if isinstance(line, CheckpointLine):
            self._written = line
            config = with_lease_token(key_config(self._key(line)._replace(checkpoint=line.parent)), self._token)
            checkpoint: Any = line.checkpoint
            metadata: Any = line.metadata
            await self._saver.inner.aput(config, checkpoint, metadata, checkpoint["channel_versions"])
        elif isinstance(line, WritesLine):
            await self._saver.inner.aput_writes(key_config(self._key(self._written)), line.writes, line.task)

    async def _read_again(self, stored: Sequence[tuple[int, CheckpointLine]]) -> None:
        """Read checkpoints as a run does, so that one that it could not read is refused now."""
        for number, line in stored:
            with at_line(number):
                config = key_config(self._key(line))
                if await self._saver.aget_tuple(config) is None:
                    raise ValueError("it cannot be stored")

    async def _put_record(self, line: TraceLine | RecordLine) -> None:
        known = await self._known_runs.get(line.run.run_id)
        if known is not None and known.session != self._session:
            raise ValueError("another session has a run with its id")
        if isinstance(line, RecordLine):
            await self._store.runs.put(line.run)
            self._count[RecordLine] += 1
            self._name = line.run.name or self._name
        else:
            traces = self._store.traces if line.kind == "trace" else self._store.node_logs
            await traces.put(line.run, line.trace)
