"""Sessions of a tenant's agents, and what was said in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from sqlalchemy import Select, bindparam, delete, func, select, update

from ragflow_lg.server.database.plain_rows import adder, finder
from ragflow_lg.server.database.tables import MessageRow, RunRow, SessionRow

if TYPE_CHECKING:
    from ragflow_lg.server.database.database import Database

__all__ = ["SessionQuery", "SessionRepository"]

_SESSION = select(SessionRow.__table__).where(
    SessionRow.tenant == bindparam("tenant"), SessionRow.id == bindparam("id")
)


class SessionQuery(Struct, frozen=True):
    """Which sessions are wanted, in what order. Times are epoch milliseconds, 0 for any; ``page`` counts from 1."""

    id: str = ""
    user_id: str = ""
    exp_user_id: str = ""
    keywords: str = ""
    from_ms: int = 0
    until_ms: int = 0
    page: int = 1
    page_size: int = 30
    order: Literal["create", "update"] = "update"
    is_descending: bool = True


class SessionRepository:
    """The sessions of one tenant; those of others are not there."""

    def __init__(self, database: Database, tenant: str) -> None:
        self._database = database
        self._tenant = tenant

    async def add(self, session: SessionRow, messages: Sequence[MessageRow]) -> None:
        """Store a new session and what it begins with."""
        for row in (session, *messages):
            row.tenant = self._tenant
        await self._database.write(adder(session, *messages))

    async def get(self, session_id: str) -> SessionRow | None:
        """Give a session."""
        found = await self._database.read(finder(_SESSION, {"tenant": self._tenant, "id": session_id}))
        return SessionRow(**found) if found is not None else None

    async def find(self, agent_id: str, query: SessionQuery) -> tuple[list[SessionRow], int]:
        """Give a page of the sessions of an agent, and how many there are on all pages."""
        wanted = self._sessions().where(SessionRow.agent_id == agent_id)
        if query.id:
            wanted = wanted.where(SessionRow.id == query.id)
        if query.user_id:
            wanted = wanted.where(SessionRow.user_id == query.user_id)
        if query.exp_user_id:
            wanted = wanted.where(SessionRow.exp_user_id == query.exp_user_id)
        if query.keywords:
            said = select(MessageRow.session_id).where(
                MessageRow.tenant == self._tenant, MessageRow.content.contains(query.keywords, autoescape=True)
            )
            wanted = wanted.where(SessionRow.id.in_(said))
        if query.from_ms:
            wanted = wanted.where(SessionRow.create_ms >= query.from_ms)
        if query.until_ms:
            wanted = wanted.where(SessionRow.create_ms <= query.until_ms)
        column = SessionRow.create_ms if query.order == "create" else SessionRow.update_ms
        order = (column.desc(), SessionRow.id.desc()) if query.is_descending else (column.asc(), SessionRow.id.asc())
        page = wanted.order_by(*order).limit(query.page_size).offset((query.page - 1) * query.page_size)
        async with self._database.reading() as reading:
            total = await reading.scalar(select(func.count()).select_from(wanted.subquery()))
            return list(await reading.scalars(page)), total or 0

    async def ids(self, agent_id: str) -> list[str]:
        """Give the ids of all sessions of an agent."""
        wanted = select(SessionRow.id).where(SessionRow.tenant == self._tenant, SessionRow.agent_id == agent_id)
        async with self._database.reading() as reading:
            return list(await reading.scalars(wanted.order_by(SessionRow.id)))

    async def older_ids(self, agent_id: str, source: str, kept: int, limit: int) -> list[str]:
        """Give the ids of sessions of a source that are older than the newest ``kept`` ones, so many at most."""
        wanted = select(SessionRow.id).where(
            SessionRow.tenant == self._tenant, SessionRow.agent_id == agent_id, SessionRow.source == source
        )
        newest = wanted.order_by(SessionRow.update_ms.desc(), SessionRow.id.desc()).offset(kept).limit(limit)
        async with self._database.reading() as reading:
            return list(await reading.scalars(newest))

    async def messages(self, session_ids: Sequence[str]) -> dict[str, list[MessageRow]]:
        """Give what was said, oldest first, by session.

        What a user said in a run that goes on, or whose process has died, stands there, too.
        """
        wanted = (
            select(MessageRow)
            .where(MessageRow.tenant == self._tenant, MessageRow.session_id.in_(session_ids))
            .order_by(MessageRow.session_id, MessageRow.number)
        )
        found: dict[str, list[MessageRow]] = {id_: [] for id_ in session_ids}
        async with self._database.reading() as reading:
            for row in await reading.scalars(wanted):
                found[row.session_id].append(row)
            for session_id, run_id, asked, start_ms in await reading.execute(self._unkept(session_ids)):
                said = found[session_id]
                place = next((number for number, row in enumerate(said) if row.create_ms > start_ms), len(said))
                question = MessageRow(
                    tenant=self._tenant, session_id=session_id, number=place, role="user", content=asked
                )
                question.run_id, question.reference, question.create_ms = run_id, "", start_ms
                said.insert(place, question)
        return found

    def _unkept(self, session_ids: Sequence[str]) -> Select[str, str, str | None, int]:
        """Select the questions of runs that are not over, as far as the database knows, in order."""
        chosen = select(RunRow.session_id, RunRow.id, RunRow.asked, RunRow.start_ms).where(
            RunRow.tenant == self._tenant,
            RunRow.session_id.in_(session_ids),
            RunRow.status == "running",
            RunRow.asked != "",
        )
        return chosen.order_by(RunRow.start_ms, RunRow.id)

    async def add_turn(
        self, session_id: str, messages: Sequence[MessageRow], *, now_ms: int, tokens: int, seconds: float, error: str
    ) -> None:
        """Store what was said in a turn, and add the turn to its session; one that is gone stays gone."""
        async with self._database.writing() as writing:
            wanted = self._sessions().where(SessionRow.id == session_id).with_for_update()
            session = await writing.scalar(wanted)
            if session is None:
                return
            last = select(func.max(MessageRow.number)).where(MessageRow.session_id == session_id)
            number = await writing.scalar(last.where(MessageRow.tenant == self._tenant))
            for offset, row in enumerate(messages, 0 if number is None else number + 1):
                row.tenant, row.session_id, row.number = self._tenant, session_id, offset
                writing.add(row)
            session.tokens += tokens
            session.rounds += 1
            session.duration_s += seconds
            session.errors = error
            session.update_ms = now_ms

    async def pin(self, session_id: str, version_id: str) -> None:
        """Let a session keep to another version."""
        chosen = update(SessionRow).where(SessionRow.tenant == self._tenant, SessionRow.id == session_id)
        async with self._database.writing() as writing:
            await writing.execute(chosen.values(version_id=version_id))

    async def delete(self, agent_id: str, session_id: str) -> bool:
        """Delete a session of an agent with what was said in it; tell whether there was one."""
        async with self._database.writing() as writing:
            wanted = self._sessions().where(SessionRow.agent_id == agent_id, SessionRow.id == session_id)
            session = await writing.scalar(wanted)
            if session is None:
                return False
            for table in (MessageRow, RunRow):
                chosen = delete(table).where(table.tenant == self._tenant, table.session_id == session_id)
                await writing.execute(chosen)
            await writing.delete(session)
            return True

    def _sessions(self) -> Select[SessionRow]:
        return select(SessionRow).where(SessionRow.tenant == self._tenant)
