"""The sessions with a tenant's agents, their messages and their runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from sqlalchemy import Select, delete, select, update

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.database import Database, TenantRepository
from ragflow_lg.server.database.tables import OPEN, TITLE_CHARS, MessageRow, PauseTimeoutRow, RunRow, SessionRow

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

    from ragflow_lg.services.chat import Usage

MAX_OF_CONVERSATION = 20
"""How many sessions of a conversation are considered: one more for each message that the user has changed."""


class SessionQuery(Struct, frozen=True):
    """Filter, order and page for a list of sessions. Times are epoch milliseconds, 0 for any. Pages count from 1."""

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


async def find_older_sessions(database: Database, before_ms: int, after: str, limit: int) -> list[tuple[str, str, str]]:
    """Return the tenants, agents and ids of sessions of all tenants without a turn since a time, in order of the ids.

    ``after`` is the id after which they begin.
    """
    statement = (
        select(SessionRow.tenant, SessionRow.agent_id, SessionRow.id)
        .where(SessionRow.update_ms < before_ms, SessionRow.id > after)
        .order_by(SessionRow.id)
        .limit(limit)
    )
    return await database.rows(statement)


async def delete_session_rows(db: AsyncSession, tenant: str, session_id: str) -> None:
    """Delete a session with its messages and its runs."""
    for table in (MessageRow, PauseTimeoutRow, RunRow):
        await db.execute(delete(table).where(table.tenant == tenant, table.session_id == session_id))
    await db.execute(delete(SessionRow).where(SessionRow.tenant == tenant, SessionRow.id == session_id))


class SessionRepository(TenantRepository):
    """One tenant's sessions."""

    async def add(self, session: SessionRow, messages: Sequence[MessageRow]) -> None:
        """Store a new session with its first messages."""
        for row in (session, *messages):
            row.tenant = self._tenant
        await self._database.add(session, *messages)

    async def get(self, session_id: str) -> SessionRow | None:
        """Return a session, or None."""
        return await self._database.first(self._sessions().where(SessionRow.id == session_id))

    async def find(self, agent_id: str, query: SessionQuery) -> tuple[list[SessionRow], int]:
        """Return a page of an agent's sessions and the total number across all pages.

        Raises:
            RequestError: If ``query`` has keywords, and messages are encrypted.
        """
        statement = self._sessions().where(SessionRow.agent_id == agent_id)
        if query.id:
            statement = statement.where(SessionRow.id == query.id)
        if query.user_id:
            statement = statement.where(SessionRow.user_id == query.user_id)
        if query.exp_user_id:
            statement = statement.where(SessionRow.exp_user_id == query.exp_user_id)
        if query.keywords:
            if self._database.keys is not None:
                raise RequestError("Messages cannot be searched, because they are encrypted in the database.", 101)
            matching = select(MessageRow.session_id).where(
                MessageRow.tenant == self._tenant, MessageRow.content.contains(query.keywords, autoescape=True)
            )
            statement = statement.where(SessionRow.id.in_(matching))
        if query.from_ms:
            statement = statement.where(SessionRow.create_ms >= query.from_ms)
        if query.until_ms:
            statement = statement.where(SessionRow.create_ms <= query.until_ms)
        column = SessionRow.create_ms if query.order == "create" else SessionRow.update_ms
        order = (column.desc(), SessionRow.id.desc()) if query.is_descending else (column.asc(), SessionRow.id.asc())
        return await self._database.page(statement, order, query.page, query.page_size)

    async def of_conversation(self, agent_id: str, user_id: str, conversation: str) -> list[SessionRow]:
        """Return the newest sessions of a chat program's conversation of a user with an agent, newest first."""
        statement = self._sessions().where(
            SessionRow.conversation == conversation,
            SessionRow.agent_id == agent_id,
            SessionRow.user_id == user_id[:TITLE_CHARS],
        )
        newest = statement.order_by(SessionRow.update_ms.desc(), SessionRow.id.desc()).limit(MAX_OF_CONVERSATION)
        return await self._database.all(newest)

    async def ids(self, agent_id: str) -> list[str]:
        """Return the ids of all of an agent's sessions."""
        statement = select(SessionRow.id).where(SessionRow.tenant == self._tenant, SessionRow.agent_id == agent_id)
        return await self._database.all(statement.order_by(SessionRow.id))

    async def older_ids(self, agent_id: str, source: str, newest_count: int, limit: int) -> list[str]:
        """Return up to ``limit`` ids of sessions from a source, leaving out the newest ``newest_count`` sessions."""
        statement = select(SessionRow.id).where(
            SessionRow.tenant == self._tenant, SessionRow.agent_id == agent_id, SessionRow.source == source
        )
        newest = statement.order_by(SessionRow.update_ms.desc(), SessionRow.id.desc()).offset(newest_count).limit(limit)
        return await self._database.all(newest)

    async def messages(self, session_ids: Sequence[str]) -> dict[str, list[MessageRow]]:
        """Return the messages by session, oldest first.

        They include the questions from runs that are in progress or whose process has died.
        """
        statement = (
            select(MessageRow)
            .where(MessageRow.tenant == self._tenant, MessageRow.session_id.in_(session_ids))
            .order_by(MessageRow.session_id, MessageRow.number)
        )
        messages: dict[str, list[MessageRow]] = {id_: [] for id_ in session_ids}
        async with self._database.reading() as db:
            for row in await db.scalars(statement):
                messages[row.session_id].append(row)
            for session_id, run_id, text, start_ms in await db.execute(self._open_questions(session_ids)):
                rows = messages[session_id]
                index = next((number for number, row in enumerate(rows) if row.create_ms > start_ms), len(rows))
                question = MessageRow(
                    tenant=self._tenant, session_id=session_id, number=index, role="user", content=text
                )
                question.run_id, question.reference, question.create_ms = run_id, "", start_ms
                rows.insert(index, question)
        return messages

    def _open_questions(self, session_ids: Sequence[str]) -> Select[str, str, str | None, int]:
        """Select the questions from runs that have not ended according to the database, in order."""
        selection = select(RunRow.session_id, RunRow.id, RunRow.asked, RunRow.start_ms).where(
            RunRow.tenant == self._tenant,
            RunRow.session_id.in_(session_ids),
            RunRow.status == "running",
            RunRow.asked != "",
        )
        return selection.order_by(RunRow.start_ms, RunRow.id)

    async def pin(self, session_id: str, version_id: str) -> None:
        """Switch a session to another version."""
        selection = update(SessionRow).where(SessionRow.tenant == self._tenant, SessionRow.id == session_id)
        await self._database.execute(selection.values(version_id=version_id))

    async def delete(self, agent_id: str, session_id: str) -> bool:
        """Delete one of an agent's sessions and its messages. Return whether it existed."""
        async with self._database.writing() as db:
            statement = self._sessions().where(SessionRow.agent_id == agent_id, SessionRow.id == session_id)
            is_known = await db.scalar(statement) is not None
            if is_known:
                await delete_session_rows(db, self._tenant, session_id)
            return is_known

    def _sessions(self) -> Select[SessionRow]:
        return select(SessionRow).where(SessionRow.tenant == self._tenant)


class RunRepository(TenantRepository):
    """One tenant's runs."""

    async def add(self, run: RunRow) -> None:
        """Store a run that is starting."""
        run.tenant = self._tenant
        await self._database.add(run)

    async def get(self, run_id: str) -> RunRow | None:
        """Return a run, or None."""
        return await self._database.first(select(RunRow).where(RunRow.tenant == self._tenant, RunRow.id == run_id))

    async def newest(self, session_id: str) -> RunRow | None:
        """Return the run in a session that started last, or None."""
        runs = select(RunRow).where(RunRow.tenant == self._tenant, RunRow.session_id == session_id)
        return await self._database.first(runs.order_by(RunRow.start_ms.desc(), RunRow.id.desc()).limit(1))

    async def open_ids(self, session_id: str) -> list[str]:
        """Return the ids of the runs in a session that have not ended according to the database."""
        runs = select(RunRow.id).where(RunRow.tenant == self._tenant, RunRow.session_id == session_id)
        return await self._database.all(runs.where(RunRow.status.in_(OPEN)))

    async def of_request(self, key: str) -> RunRow | None:
        """Return the run that a request with this key has begun, or None."""
        runs = select(RunRow).where(RunRow.tenant == self._tenant, RunRow.request_key == key)
        return await self._database.first(runs)

    async def free_request(self, run_id: str) -> None:
        """Release the request key of a run, so that another run can begin with it."""
        selection = update(RunRow).where(RunRow.tenant == self._tenant, RunRow.id == run_id)
        await self._database.execute(selection.values(request_key=None))

    async def find(self, agent_id: str, session_id: str, page: int, page_size: int) -> tuple[list[RunRow], int]:
        """Return a page of an agent's runs, newest first, and the total number across all pages.

        If ``session_id`` is ``""``, the runs in all sessions are returned. ``page`` counts from 1.
        """
        statement = select(RunRow).where(RunRow.tenant == self._tenant, RunRow.agent_id == agent_id)
        if session_id:
            statement = statement.where(RunRow.session_id == session_id)
        return await self._database.page(statement, (RunRow.start_ms.desc(), RunRow.id.desc()), page, page_size)

    async def forget_question(self, run_id: str) -> None:
        """Do not show the question of a run any more, because another run begins with it."""
        selection = update(RunRow).where(RunRow.tenant == self._tenant, RunRow.id == run_id)
        await self._database.execute(selection.values(asked=""))

    async def end(self, run_id: str, status: str, error: str, usage: Usage, now_ms: int) -> None:
        """Store the end of a run."""
        values = {
            "status": status,
            "error": error,
            "asked": "",
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "end_ms": now_ms,
        }
        selection = update(RunRow).where(RunRow.tenant == self._tenant, RunRow.id == run_id)
        await self._database.execute(selection.values(values))
