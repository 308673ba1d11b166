"""What a server's database has of exported sessions: messages, runs, the agent with its versions, and files.

Imported rows may come from anybody: they are checked before they are stored, and give nobody any rights. The command
says who gets them, and whether agents may be among them.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import orjson
from msgspec import Struct
from sqlalchemy import BigInteger, TypeDecorator, select

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import ConflictError, DatabaseError, RequestError
from ragflow_lg.checkpoints.records.run_records import MAX_TIME_MS
from ragflow_lg.checkpoints.sessions.session_lines import FileLine, ServerLine
from ragflow_lg.server.agents.file_store import FileStore
from ragflow_lg.server.agents.retention import delete_stored_session
from ragflow_lg.server.assembly.tenant_settings import DEFAULT_TENANT
from ragflow_lg.server.database.database import matching
from ragflow_lg.server.database.session_repository import delete_session_rows, find_heirs
from ragflow_lg.server.database.tables import (
    FORKED,
    ID_CHARS,
    NOTE_CHARS,
    OPEN,
    TENANT_CHARS,
    AgentRow,
    FeedbackRow,
    FileRow,
    KeyRow,
    MessageRow,
    Row,
    RunRow,
    SessionRow,
    VersionRow,
)
from ragflow_lg.server.database.turn_writer import read_files, read_reference

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession
    from sqlalchemy.types import TypeEngine

    from ragflow_lg.checkpoints import Store
    from ragflow_lg.server.database.database import Database


class ImportRights(Struct, frozen=True):
    """What an import may do."""

    tenant: str = ""
    """Who gets imported rows, whatever they name. Without it, a server's only tenant, but only its own rows."""
    replaces: bool = False
    """Whether sessions replace those that are there."""
    has_agents: bool = False
    """Whether missing agents and versions are imported as well."""
    max_bytes: int = 0
    """The size of the file: none of its sessions can have stored more."""


MAX_IDS = 1_000_000
"""How many ids of files are looked for in a session."""
_FOREIGN = "The session, or its agent, belongs to another tenant here: --tenant says who gets the sessions of the file."
_SHOWN = (
    "Copies of the session show turns that the file does not contain, and would lose them: {}. Delete these copies "
    "first, or import the file into another store and database."
)
_AT_ONCE = 500
_TABLES: dict[str, type[Row]] = {
    row.__tablename__: row for row in (AgentRow, VersionRow, SessionRow, MessageRow, RunRow, FeedbackRow)
}
_FILE_ID = re.compile(rb"\b[0-9a-f]{32}\b")
_ID = re.compile(r"[0-9a-f]{32}")

Values: TypeAlias = dict[str, Any]


def find_ids(text: bytes, ids: set[str]) -> None:
    """Add everything in a text that may be the id of a file."""
    if len(ids) < MAX_IDS:
        ids.update(found.decode() for found in _FILE_ID.findall(text))


class AddedVersion(NamedTuple):
    """A version that an import has added to an agent, which may be new."""

    tenant: str
    agent: str
    title: str
    dsl: str


class SessionRows:
    """The rows of sessions in one database, and their files."""

    def __init__(
        self, database: Database, folder: Path, rights: ImportRights | None = None, *, is_rehearsal: bool = False
    ) -> None:
        """``folder`` contains the files. A rehearsal checks what is to be stored, and changes nothing."""
        self.database = database
        self.folder = folder
        self.added: list[AddedVersion] = []
        self._rights = rights or ImportRights()
        self._is_rehearsal = is_rehearsal
        self._owner = ("", "", "")
        """The session of the rows that were put last, its tenant according to the file, and its agent."""

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

    async def require_own(self, session_id: str) -> None:
        """Check that an imported session replaces none of another tenant.

        Raises:
            ConflictError: If it does.
        """
        tenant, _ = await self._find_tenant()
        owner = await self.database.first(select(SessionRow.tenant).where(SessionRow.id == session_id))
        if owner not in (None, tenant):
            raise ConflictError(_FOREIGN)

    async def _find_tenant(self) -> tuple[str, str]:
        """Return who gets imported rows, and a text about it for refusals. Without an answer, the first is ``""``."""
        if self._rights.tenant:
            return self._rights.tenant, ""
        tenants: set[str] = set()
        for column in (AgentRow.tenant, KeyRow.tenant):
            tenants.update(await self.database.all(select(column).distinct()))
        if len(tenants) > 1:
            return "", "this server has several tenants. Say with --tenant which one gets them"
        only = next(iter(tenants), DEFAULT_TENANT)
        return only, f"they are for the tenant {only!r} here. To give them to it all the same, add --tenant {only}"

    async def _take(self, rows: Mapping[str, list[Any]]) -> None:
        """Make the tenant the owner of rows. What would give others any rights goes."""
        (session,) = rows["sessions"]
        tenant, reason = await self._find_tenant()
        if not tenant or (not self._rights.tenant and tenant != session.tenant):
            raise ConflictError(f"The file names the tenant {session.tenant!r:.80}, but {reason}.")
        for row in (row for of_table in rows.values() for row in of_table):
            row.tenant = tenant
        session.visitor, session.share_digest = "", None
        for feedback in rows["feedback"]:
            feedback.author = ""
        for run in rows["runs"]:
            if run.status in OPEN:
                run.status = FORKED  # it goes on only if somebody asks for it
            run.request_key, run.request_hash, run.restarts, run.page_key = None, "", 0, ""
        session.stored_bytes = min(session.stored_bytes or 0, self._rights.max_bytes)

    async def _put_agent(self, db: AsyncSession, rows: Mapping[str, list[Any]]) -> None:
        """Add the agent and the versions that are missing, if they may be."""
        (session,) = rows["sessions"]
        agent = known = await db.get(AgentRow, session.agent_id)
        if known is None:
            agent = next(iter(rows["agents"]), None)
        missing: list[VersionRow] = []
        for row in rows["versions"]:
            version = await db.get(VersionRow, row.id)
            if version is None:
                missing.append(row)
            elif (version.tenant, version.agent_id) != (session.tenant, session.agent_id):
                raise ConflictError("A version of the agent belongs to another agent here.")
        needed = {session.version_id} & {row.id for row in missing}
        if agent is None or ((known is None or needed) and not self._rights.has_agents):
            what = "no agent" if known is None else "an agent without this version"
            raise ConflictError(
                f"The tenant {session.tenant!r} has {what}: {session.agent_id}, version {session.version_id}. To "
                "import it as well, with all that it opens, add --with-agents."
            )
        if not self._rights.has_agents:
            return
        now_ms = int(SystemClock().now() * 1000)  # a date in the future would make a version the latest for long
        if known is None:
            db.add(agent)
        for version in missing:
            version.is_released = version.is_released and known is None  # it must not replace the published version
            version.create_ms, version.update_ms = min(version.create_ms, now_ms), min(version.update_ms, now_ms)
            db.add(version)
        self.added += [AddedVersion(session.tenant, agent.id, agent.title, version.dsl) for version in missing]

    async def put(self, line: ServerLine | FileLine) -> None:
        """Store the rows of a session, or a file. What belongs to the agent is kept if it exists.

        Raises:
            ValueError: If they are not what `export` writes.
            ConflictError: If they are of another tenant, the session exists and is not to be replaced, copies of it
                show runs that would be lost, its agent is missing, or the ids, the agent's title or one of its versions
                belong to something else.
            DatabaseError: If the database fails.
        """
        if isinstance(line, FileLine):
            await self._put_file(line)
            return
        rows = _check_rows(line)
        (session,) = rows["sessions"]
        self._owner = (line.session, session.tenant, session.agent_id)
        await self._take(rows)
        try:
            async with self.database.writing() as db:
                for kind in (SessionRow, AgentRow):
                    id_ = session.id if kind is SessionRow else session.agent_id
                    owner = await db.scalar(select(kind.tenant).where(kind.id == id_))
                    if owner not in (None, session.tenant):
                        raise ConflictError(_FOREIGN)
                    if owner is not None and kind is SessionRow and not self._rights.replaces:
                        raise ConflictError("The server has messages of the session. To replace it, add --replace.")
                heirs = await find_heirs(db, session.tenant, session.id)
                if lost := set(heirs) - {run.id for run in rows["runs"]}:
                    raise ConflictError(_SHOWN.format(", ".join(sorted({heirs[run] for run in lost}))))
                await delete_session_rows(db, session.tenant, session.id)
                await self._put_agent(db, rows)
                db.add_all([*rows["sessions"], *rows["messages"], *rows["runs"], *rows["feedback"]])
                if self._is_rehearsal:
                    await db.flush()
                    await db.rollback()
        except DatabaseError as error:
            if "onstraint" in str(error) or "uplicate" in str(error):
                title = rows["agents"][0].title if rows["agents"] else ""
                raise ConflictError(f"Another agent has the title {title!r}, or its ids are in use: {error}") from error
            raise

    async def _put_file(self, line: FileLine) -> None:
        row = _to_row(FileRow, line.row)
        try:
            content = base64.b64decode(line.content, validate=True)
        except binascii.Error:
            raise ValueError("its content is not Base64") from None
        if not _ID.fullmatch(row.id) or len(content) != row.size_bytes:
            raise ValueError("its file has another id or size")
        if self._owner != (line.session, row.tenant, row.agent_id):
            raise ValueError("its file belongs to another agent")
        tenant, _ = await self._find_tenant()
        is_known = await self.database.first(select(FileRow).where(FileRow.id == row.id)) is not None
        if not is_known and not self._is_rehearsal:
            await self._store(tenant).save(
                row.id, row.name, row.mime_type, content, row.create_ms, row.agent_id, expire_ms=row.expire_ms
            )

    async def delete(self, session_id: str) -> bool:
        """Delete the rows of a session. Return whether there was one. Its files stay: see `SessionFiles`."""
        if self._is_rehearsal:
            return False
        async with self.database.writing() as db:
            session = await db.scalar(select(SessionRow).where(SessionRow.id == session_id))
            if session is not None:
                await delete_session_rows(db, session.tenant, session.id)
            return session is not None

    async def delete_from(self, store: Store, session_id: str) -> None:
        """Delete everything stored for a session. Its files stay: see `SessionFiles`.

        Raises:
            ConflictError: If the session has a run in progress.
        """
        session = await self.database.first(select(SessionRow).where(SessionRow.id == session_id))
        if session is None:
            await store.delete_session(session_id)
        else:
            await delete_stored_session(self.database, store, session.tenant, session.agent_id, session_id)

    def _store(self, tenant: str) -> FileStore:
        return FileStore(self.folder, self.database, tenant, 0, 0, keys=self.database.keys)


async def _rows_of(db: AsyncSession, session: SessionRow) -> dict[str, Sequence[Any]]:
    mine = {table: table.tenant == session.tenant for table in (AgentRow, VersionRow, MessageRow, RunRow)}
    given = matching(FeedbackRow, tenant=session.tenant, session_id=session.id)
    runs = list(await db.scalars(select(RunRow).where(mine[RunRow], RunRow.session_id == session.id)))
    own = {run.id for run in runs}  # an import takes no feedback on the copies of others
    feedback = [row for row in await db.scalars(select(FeedbackRow).where(*given)) if row.run_id in own]
    messages = select(MessageRow).where(mine[MessageRow], MessageRow.session_id == session.id)
    agents = list(await db.scalars(select(AgentRow).where(mine[AgentRow], AgentRow.id == session.agent_id)))
    used = {session.version_id, *(run.version_id for run in runs), *(agent.version_id for agent in agents)}
    of_agent = (mine[VersionRow], VersionRow.agent_id == session.agent_id)
    versions = [row for row in await db.scalars(select(VersionRow).where(*of_agent)) if row.id in used]
    found = list(await db.scalars(messages.order_by(MessageRow.number)))
    of_session = {"sessions": [session], "messages": found, "runs": runs, "feedback": feedback}
    return {"agents": agents, "versions": versions, **of_session}


def _values(row: Row) -> Values:
    return {column.key: getattr(row, column.key) for column in row.__table__.columns}


def _check_rows(line: ServerLine) -> dict[str, list[Any]]:
    """Return the rows of a session."""
    if set(line.rows) | {"feedback"} != set(_TABLES):  # older files have none
        raise ValueError("its tables are unknown, or some are missing")
    rows = {name: [_to_row(_TABLES[name], values) for values in line.rows.get(name, ())] for name in _TABLES}
    if len(rows["sessions"]) != 1 or rows["sessions"][0].id != line.session:
        raise ValueError("its row is of another session")
    (session,) = rows["sessions"]
    owners = [(row.tenant, row.session_id) for row in (*rows["messages"], *rows["runs"], *rows["feedback"])]
    if any(owner != (session.tenant, session.id) for owner in owners):
        raise ValueError("a message or run belongs to another session")
    runs = {run.id for run in rows["runs"]}
    if any(row.run_id not in runs or row.rating not in ("up", "down") for row in rows["feedback"]):
        raise ValueError("feedback is on no run of the session, or has an unknown rating")
    if any(len(row.note or "") > NOTE_CHARS for row in rows["feedback"]):
        raise ValueError(f"a note has more than {NOTE_CHARS:,} characters")
    agents = [(row.tenant, row.id) for row in rows["agents"]]
    agents += [(row.tenant, row.agent_id) for row in (*rows["versions"], *rows["runs"], *rows["feedback"])]
    if any(agent != (session.tenant, session.agent_id) for agent in agents):
        raise ValueError("a row belongs to another agent")
    for message in rows["messages"]:
        read_reference(message.reference or "")
        read_files(message.files)
    if not all(isinstance(orjson.loads(version.dsl), dict) for version in rows["versions"]):
        raise ValueError("a canvas is not an object")
    return rows


def _plain_type(kind: TypeEngine[Any]) -> TypeEngine[Any]:
    """Return the type of a column in the database."""
    while isinstance(kind, TypeDecorator):
        kind = kind.impl_instance
    return kind


def _largest(name: str, kind: TypeEngine[Any]) -> int:
    """Return the largest number that can be in a column."""
    if name.endswith("_ms"):
        return MAX_TIME_MS
    return 2**63 - 1 if isinstance(kind, BigInteger) else 2**31 - 1


def _to_row(table: type[Row], values: Mapping[str, Any]) -> Any:
    """Return a row with these values, of which each must have the type and the length of its column."""
    columns = {column.key: column for column in table.__table__.columns}
    if unknown := set(values) - set(columns):
        raise ValueError(f"a column is unknown: {min(unknown)}")
    for name, column in columns.items():
        value = values.get(name)
        if value is None:
            if not column.nullable and column.default is None:
                raise ValueError(f"the column {name} is missing")
            continue
        plain = _plain_type(column.type)
        kind: type[Any] = plain.python_type
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise ValueError(f"the column {name} has another type")
        if kind is int and not 0 <= value <= _largest(name, plain):
            raise ValueError(f"the column {name} has an impossible number")
        length = getattr(plain, "length", None)
        if length and isinstance(value, str) and len(value) > length:
            raise ValueError(f"the column {name} is too long")
    if not 0 < len(str(values.get("tenant", ""))) <= TENANT_CHARS or len(str(values.get("id", ""))) > ID_CHARS:
        raise ValueError("its tenant or id is wrong")
    return table(**{name: value for name, value in values.items() if value is not None})
