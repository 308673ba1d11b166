"""Finds the uploaded files of sessions that are deleted, and deletes those that nothing else names."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import select

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.sessions.session_files import export_session
from ragflow_lg.checkpoints.sessions.session_lines import encode_line
from ragflow_lg.server.agents.file_store import FileStore
from ragflow_lg.server.database.tables import FileRow, MessageRow, SessionRow, VersionRow
from ragflow_lg.server.runs.session_rows import find_ids

if TYPE_CHECKING:
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.server.database.database import Database

_AT_ONCE = 500


class SessionFiles:
    """The files that some sessions name, each with all sessions of its agent that name it."""

    def __init__(self, store: Store, database: Database, folder: Path) -> None:
        """``folder`` contains the files."""
        self._store = store
        self._database = database
        self._folder = folder
        self._files: dict[str, FileRow] = {}
        self._sessions: dict[str, set[str]] = {}

    async def find(self, session_ids: Collection[str]) -> None:
        """Find the files that sessions name, then who else names them.

        This reads all sessions of the agents of these files. A session that is running or cannot be read may name each
        of them.

        Raises:
            DatabaseError: if the database fails.
        """
        read: set[str] = set()
        for session_id in session_ids:
            session = await self._database.first(select(SessionRow).where(SessionRow.id == session_id))
            if session is not None:
                ids, is_whole = await self._named_by(session)
                read |= {session.id} if is_whole else set()
                await self._add(session, sorted(ids))
        for agent in {(file.tenant, file.agent_id) for file in self._files.values()}:
            await self._find_others(*agent, read)

    async def delete_of(self, session_id: str) -> int:
        """Delete the files that only this session names. The next call counts it no longer. Return their number.

        Raises:
            DatabaseError: if the database fails.
        """
        count = 0
        for id_, sessions in list(self._sessions.items()):
            sessions.discard(session_id)
            if not sessions:
                file = self._files.pop(id_)
                del self._sessions[id_]
                await FileStore(self._folder, self._database, file.tenant, 0, 0).delete(file)
                count += 1
        return count

    async def _add(self, session: SessionRow, ids: Sequence[str]) -> None:
        of_agent = (FileRow.tenant == session.tenant, FileRow.agent_id == session.agent_id)
        for start in range(0, len(ids), _AT_ONCE):
            chosen = FileRow.id.in_(ids[start : start + _AT_ONCE])
            for file in await self._database.all(select(FileRow).where(*of_agent, chosen)):
                self._files[file.id] = file
                self._sessions.setdefault(file.id, set()).add(session.id)

    async def _find_others(self, tenant: str, agent_id: str, read: Collection[str]) -> None:
        of_agent = {id_ for id_, file in self._files.items() if (file.tenant, file.agent_id) == (tenant, agent_id)}
        mine = (SessionRow.tenant == tenant, SessionRow.agent_id == agent_id)
        canvases = await self._database.all(select(VersionRow.dsl).where(VersionRow.agent_id == agent_id))
        others = await self._database.all(select(SessionRow).where(*mine))
        in_canvases: set[str] = set()
        for dsl in canvases:
            find_ids(dsl.encode("utf-8", "surrogatepass"), in_canvases)
        for id_ in of_agent & in_canvases:
            self._sessions[id_].add(agent_id)
        for other in others:
            if other.id in read:
                continue
            ids, is_whole = await self._named_by(other)
            for id_ in of_agent if not is_whole else of_agent & ids:
                self._sessions[id_].add(other.id)

    async def _named_by(self, session: SessionRow) -> tuple[set[str], bool]:
        """Return everything in a session that may be the id of a file, and whether all of it could be read."""
        ids: set[str] = set()
        of_session = (MessageRow.tenant == session.tenant, MessageRow.session_id == session.id)
        for message in await self._database.all(select(MessageRow).where(*of_session)):
            find_ids(f"{message.content} {message.reference}".encode("utf-8", "surrogatepass"), ids)
        try:
            find_ids(encode_line(await export_session(self._store, session.id)), ids)
        except CheckpointError:
            return ids, False
        return ids, True
