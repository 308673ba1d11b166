"""What a server's database has of exported sessions: messages, runs, the agent with its versions, and files."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from sqlalchemy import select

from ragflow_lg.base.errors import ConflictError, DatabaseError, RequestError
from ragflow_lg.checkpoints.sessions.session_lines import FileLine, ServerLine
from ragflow_lg.server.agents.file_store import FileStore
from ragflow_lg.server.database.session_repository import delete_session_rows
from ragflow_lg.server.database.tables import (
    FORKED,
    OPEN,
    AgentRow,
    FileRow,
    MessageRow,
    Row,
    RunRow,
    SessionRow,
    VersionRow,
)

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

    from ragflow_lg.server.database.database import Database


MAX_IDS = 1_000_000
"""How many ids of files are looked for in a session."""
_AT_ONCE = 500
_TABLES: dict[str, type[Row]] = {
    row.__tablename__: row for row in (AgentRow, VersionRow, SessionRow, MessageRow, RunRow)
}
_FILE_ID = re.compile(rb"\b[0-9a-f]{32}\b")

Values: TypeAlias = dict[str, Any]


def find_ids(text: bytes, ids: set[str]) -> None:
    """Add everything in a text that may be the id of a file."""
    if len(ids) < MAX_IDS:
        ids.update(found.decode() for found in _FILE_ID.findall(text))


class AddedAgent(NamedTuple):
    """An agent that an import has added."""

    tenant: str
    id: str
    title: str


class SessionRows:
    """The rows of sessions in one database, and their files."""

    def __init__(self, database: Database, folder: Path, tenant: str = "") -> None:
        """``folder`` contains the files. Imported rows are for the ``tenant``; without one, for that of the file."""
        self.database = database
        self.folder = folder
        self.added: list[AddedAgent] = []
        self._tenant = tenant

    async def export(self, session_id: str, ids: Collection[str]) -> AsyncIterator[ServerLine | FileLine]:
        """Yield the rows of a session, if the database has it, and those files of its agent whose ids it contains.

        Raises:
            DatabaseError: If the database fails.
            ServiceError: If a file cannot be read.
        """
        async with self.database.reading() as db:
            session = await db.scalar(select(SessionRow).where(SessionRow.id == session_id))
            if session is None:
                return
            rows = await _rows_of(db, session)
        yield ServerLine(session_id, {name: [_values(row) for row in of_table] for name, of_table in rows.items()})
        mentioned = sorted(ids)
        store = self._store(session.tenant)
        for start in range(0, len(mentioned), _AT_ONCE):
            of_agent = (FileRow.tenant == session.tenant, FileRow.agent_id == session.agent_id)
            chosen = FileRow.id.in_(mentioned[start : start + _AT_ONCE])
            for file in await self.database.all(select(FileRow).where(*of_agent, chosen)):
                try:
                    content = await store.content(file)
                except RequestError:
                    continue  # it has been deleted
                yield FileLine(session_id, _values(file), base64.b64encode(content).decode())

    async def put(self, line: ServerLine | FileLine) -> None:
        """Store the rows of a session, or a file. The agent, versions and files that exist stay as they are.

        Raises:
            ValueError: If they are not what `export` writes.
            ConflictError: If the session exists, or an id or the agent's title belongs to something else.
            DatabaseError: If the database fails.
        """
        if isinstance(line, FileLine):
            row = _to_row(FileRow, line.row, self._tenant)
            if await self.database.first(select(FileRow).where(FileRow.id == row.id)) is None:
                content = base64.b64decode(line.content, validate=True)
                await self._store(row.tenant).save(
                    row.id, row.name, row.mime_type, content, row.create_ms, row.agent_id, expire_ms=row.expire_ms
                )
            return
        rows = {name: [_to_row(_TABLES[name], of_row, self._tenant) for of_row in line.rows[name]] for name in _TABLES}
        (session,) = rows["sessions"]
        for run in rows["runs"]:
            if run.status in OPEN:
                run.status = FORKED  # it goes on only if somebody asks for it
            run.request_key, run.request_hash, run.restarts, run.page_key = None, "", 0, ""
        try:
            async with self.database.writing() as db:
                if await db.get(SessionRow, session.id) is not None:
                    raise ConflictError("The server has messages of the session. To replace it, delete it there first.")
                await self._put_agent(db, session, rows)
                db.add_all([session, *rows["messages"], *rows["runs"]])
        except DatabaseError as error:
            if "onstraint" in str(error) or "uplicate" in str(error):
                title = rows["agents"][0].title if rows["agents"] else ""
                raise ConflictError(f"Another agent has the title {title!r}, or its ids are in use: {error}") from error
            raise

    async def _put_agent(self, db: AsyncSession, session: SessionRow, rows: dict[str, list[Any]]) -> None:
        """Add the agent and the versions that are missing."""
        known = await db.get(AgentRow, session.agent_id)
        if known is not None and known.tenant != session.tenant:
            raise ConflictError(f"The agent {known.id} belongs to the tenant {known.tenant!r} here.")
        if known is None:
            db.add_all(rows["agents"])
            self.added += [AddedAgent(agent.tenant, agent.id, agent.title) for agent in rows["agents"]]
        for version in rows["versions"]:
            if await db.get(VersionRow, version.id) is None:
                version.is_released = version.is_released and known is None  # it must not replace the published one
                db.add(version)

    async def delete(self, session_id: str) -> bool:
        """Delete the rows of a session. Return whether there was one. Its files stay: see `SessionFiles`."""
        async with self.database.writing() as db:
            session = await db.scalar(select(SessionRow).where(SessionRow.id == session_id))
            if session is not None:
                await delete_session_rows(db, session.tenant, session.id)
            return session is not None

    def _store(self, tenant: str) -> FileStore:
        return FileStore(self.folder, self.database, tenant, 0, 0, keys=self.database.keys)


async def _rows_of(db: AsyncSession, session: SessionRow) -> dict[str, Sequence[Any]]:
    mine = {table: table.tenant == session.tenant for table in (AgentRow, VersionRow, MessageRow, RunRow)}
    runs = list(await db.scalars(select(RunRow).where(mine[RunRow], RunRow.session_id == session.id)))
    messages = select(MessageRow).where(mine[MessageRow], MessageRow.session_id == session.id)
    agents = list(await db.scalars(select(AgentRow).where(mine[AgentRow], AgentRow.id == session.agent_id)))
    used = {session.version_id, *(run.version_id for run in runs), *(agent.version_id for agent in agents)}
    of_agent = (mine[VersionRow], VersionRow.agent_id == session.agent_id)
    versions = [row for row in await db.scalars(select(VersionRow).where(*of_agent)) if row.id in used]
    found = list(await db.scalars(messages.order_by(MessageRow.number)))
    return {"agents": agents, "versions": versions, "sessions": [session], "messages": found, "runs": runs}


def _values(row: Row) -> Values:
    return {column.key: getattr(row, column.key) for column in row.__table__.columns}


def _to_row(table: type[Row], values: Values, tenant: str) -> Any:
    return table(**{**values, "tenant": tenant or values["tenant"]})
