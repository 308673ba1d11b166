"""The sessions with a tenant's agents, their messages and their runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import Struct
from sqlalchemy import delete, func, select, tuple_, update

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.database import Database, TenantRepository, matching
from ragflow_lg.server.database.tables import (
    OPEN,
    TITLE_CHARS,
    AgentRow,
    FeedbackRow,
    MessageRow,
    PauseTimeoutRow,
    RunRow,
    SessionRow,
)

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

    from ragflow_lg.server.database.tables import VersionRow
    from ragflow_lg.services.chat import Usage

MAX_OF_CONVERSATION = 20
"""How many sessions of a conversation are considered: one more for each message that the user has changed."""
RUN_PAGE = 100
NO_SESSION = "Session not found!"
EXCERPT_CHARS = 60
"""How much of a message is shown before and after what was searched."""
_NEWEST = (SessionRow.update_ms.desc(), SessionRow.id.desc())
_LAST = (RunRow.start_ms.desc(), RunRow.id.desc())


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
    has_pinned_first: bool = False
    has_names: bool = False
    """Whether ``keywords`` are searched in names as well, not only in messages."""


async def find_older_sessions(database: Database, before_ms: int, after: str, limit: int) -> list[tuple[str, str, str]]:
    """Return the tenants, agents and ids of sessions of all tenants without a turn since a time, in order of the ids.

    ``after`` is the id after which they begin.
    """
    statement = select(SessionRow.tenant, SessionRow.agent_id, SessionRow.id)
    older = statement.where(SessionRow.update_ms < before_ms, SessionRow.id > after)
    return await database.rows(older.order_by(SessionRow.id).limit(limit))


async def find_heirs(db: AsyncSession, tenant: str, session_id: str) -> dict[str, str]:
    """Return, by run of a session, another session that shows the run, because it has copied messages of this one."""
    runs = select(RunRow.id).where(*matching(RunRow, tenant=tenant, session_id=session_id))
    shown = select(MessageRow.run_id, func.min(MessageRow.session_id)).where(
        *matching(MessageRow, tenant=tenant, run_id=runs), MessageRow.session_id != session_id
    )
    return dict(list(await db.execute(shown.group_by(MessageRow.run_id))))


async def delete_session_rows(db: AsyncSession, tenant: str, session_id: str) -> None:
    """Delete a session with its runs, its messages and the feedback on them.

    What adds rows to a session locks a run or a message first: these go first, so that nothing is added after them.
    """
    for table in (RunRow, MessageRow, FeedbackRow, PauseTimeoutRow):
        await db.execute(delete(table).where(*matching(table, tenant=tenant, session_id=session_id)))
    await db.execute(delete(SessionRow).where(*matching(SessionRow, tenant=tenant, id=session_id)))


async def find_shared_session(database: Database, digest: str) -> SessionRow | None:
    """Return the session of any tenant that the token with a digest opens, or None."""
    return await database.first(select(SessionRow).where(SessionRow.share_digest == digest))


class SessionRepository(TenantRepository[SessionRow]):
    """One tenant's sessions."""

    table = SessionRow

    async def find(self, agent_id: str, query: SessionQuery) -> tuple[list[SessionRow], int]:
        """Return a page of an agent's sessions and the total number across all pages.

        Raises:
            RequestError: If ``query`` has keywords, and messages are encrypted.
        """
        names = ("id", "user_id", "exp_user_id")
        statement = self._select(agent_id=agent_id, **{name: id_ for name in names if (id_ := getattr(query, name))})
        if query.keywords:
            if self._database.keys is not None:
                raise RequestError("Messages cannot be searched, because they are encrypted in the database.", 101)
            contains = MessageRow.content.contains(query.keywords, autoescape=True)
            matches = SessionRow.id.in_(select(MessageRow.session_id).where(*self._mine(MessageRow), contains))
            if query.has_names:
                matches |= SessionRow.name.contains(query.keywords, autoescape=True)
            statement = statement.where(matches)
        if query.from_ms:
            statement = statement.where(SessionRow.create_ms >= query.from_ms)
        if query.until_ms:
            statement = statement.where(SessionRow.create_ms <= query.until_ms)
        order = (SessionRow.create_ms if query.order == "create" else SessionRow.update_ms, SessionRow.id)
        directed = [column.desc() if query.is_descending else column.asc() for column in order]
        pinned = [SessionRow.is_pinned.desc()] if query.has_pinned_first else []
        return await self._database.page(statement, [*pinned, *directed], query.page, query.page_size)

    async def of_conversation(self, agent_id: str, user_id: str, conversation: str) -> list[SessionRow]:
        """Return the newest sessions of a chat program's conversation of a user with an agent, newest first."""
        found = self._select(conversation=conversation, agent_id=agent_id, user_id=user_id[:TITLE_CHARS])
        return await self._database.all(found.order_by(*_NEWEST).limit(MAX_OF_CONVERSATION))

    async def ids(self, agent_id: str) -> list[str]:
        """Return the ids of all of an agent's sessions."""
        statement = select(SessionRow.id).where(*self._mine(agent_id=agent_id))
        return await self._database.all(statement.order_by(SessionRow.id))

    async def older_ids(self, agent_id: str, source: str, newest_count: int, limit: int) -> list[str]:
        """Return up to ``limit`` ids of sessions from a source, leaving out the newest ``newest_count`` sessions."""
        statement = select(SessionRow.id).where(*self._mine(agent_id=agent_id, source=source))
        return await self._database.all(statement.order_by(*_NEWEST).offset(newest_count).limit(limit))

    async def messages(self, session_ids: Sequence[str]) -> dict[str, list[MessageRow]]:
        """Return the messages by session, oldest first.

        They include the questions from runs that are in progress or whose process has died.
        """
        ids = list(session_ids)
        stored = select(MessageRow).where(*self._mine(MessageRow, session_id=ids))
        asked = select(RunRow).where(*self._mine(RunRow, session_id=ids, status="running"), RunRow.asked != "")
        messages: dict[str, list[MessageRow]] = {id_: [] for id_ in ids}
        async with self._database.reading() as db:
            for row in await db.scalars(stored.order_by(MessageRow.session_id, MessageRow.number)):
                messages[row.session_id].append(row)
            for run in await db.scalars(asked.order_by(RunRow.start_ms, RunRow.id)):
                rows, text = messages[run.session_id], run.asked or ""
                index = next((number for number, row in enumerate(rows) if row.create_ms > run.start_ms), len(rows))
                fields: Any = {"session_id": run.session_id, "number": index, "role": "user", "content": text}
                fields["is_form"] = run.is_form
                rows.insert(
                    index,
                    MessageRow(tenant=self._tenant, run_id=run.id, reference="", create_ms=run.start_ms, **fields),
                )
        return messages

    async def excerpts(self, session_ids: Sequence[str], text: str) -> dict[str, str]:
        """Return what stands around a text in the first message of each of these sessions that contains it."""
        contains = MessageRow.content.contains(text, autoescape=True)
        mine = self._mine(MessageRow, session_id=list(session_ids))
        first = select(MessageRow.session_id, func.min(MessageRow.number)).where(*mine, contains)
        place = tuple_(MessageRow.session_id, MessageRow.number)
        found = select(MessageRow).where(*mine, place.in_(first.group_by(MessageRow.session_id)))
        return {row.session_id: _cut_around(row.content, text) for row in await self._database.all(found)}

    async def first_question(self, session_id: str) -> str:
        """Return the first message of a session's user, or ``""``."""
        mine = self._mine(MessageRow, session_id=session_id, role="user")
        row = await self._database.first(select(MessageRow).where(*mine).order_by(MessageRow.number).limit(1))
        return row.content if row is not None else ""

    async def answers(self, run_ids: Sequence[str]) -> dict[str, str]:
        """Return the answers that runs have given, by run."""
        found = select(MessageRow).where(*self._mine(MessageRow, run_id=list(run_ids), role="assistant"))
        return {row.run_id: row.content for row in await self._database.all(found)}

    async def with_answer(self, agent_id: str, run_id: str) -> SessionRow | None:
        """Return the newest session with an agent that has the answer of a run, which may be a copy, or None."""
        answer = self._mine(MessageRow, run_id=run_id, role="assistant")
        found = self._select(agent_id=agent_id, id=select(MessageRow.session_id).where(*answer))
        return await self._database.first(found.order_by(*_NEWEST).limit(1))

    async def questions(self, runs: Sequence[RunRow]) -> list[MessageRow]:
        """Return the messages with which users began runs; for a run without one, those of its session."""
        own = self._mine(MessageRow, run_id=[run.id for run in runs], role="user")
        rows = await self._database.all(select(MessageRow).where(*own))
        begun = {row.run_id for row in rows}
        if others := {run.session_id for run in runs if run.id not in begun and not run.asked}:
            earlier = select(MessageRow).where(*self._mine(MessageRow, session_id=list(others), role="user"))
            rows += await self._database.all(earlier.order_by(MessageRow.session_id, MessageRow.number))
        return rows

    @asynccontextmanager
    async def deleting(self, agent_id: str, session_id: str) -> AsyncGenerator[dict[str, str]]:
        """Delete one of an agent's sessions and its messages after the block, unless it raises.

        Yields `find_heirs`: these get the runs, with the feedback on them. Until then, no other session of the agent is
        deleted, and turns that begin in this one wait: they are then refused.
        """
        async with self._database.writing() as db:
            await db.scalar(select(AgentRow.id).where(*self._mine(AgentRow, id=agent_id)).with_for_update())
            # The order in which `write_turn` locks them.
            await db.execute(select(RunRow.id).where(*self._mine(RunRow, session_id=session_id)).with_for_update())
            await db.execute(select(SessionRow.id).where(*self._mine(id=session_id)).with_for_update())
            heirs = await find_heirs(db, self._tenant, session_id)
            yield heirs
            for run_id, heir in heirs.items():
                run, feedback = self._mine(RunRow, id=run_id), self._mine(FeedbackRow, run_id=run_id)
                await db.execute(update(RunRow).where(*run).values(session_id=heir))
                await db.execute(update(FeedbackRow).where(*feedback).values(session_id=heir))
            await delete_session_rows(db, self._tenant, session_id)

    async def delete(self, agent_id: str, session_id: str) -> None:
        """Delete one of an agent's sessions and its messages; see `deleting`."""
        async with self.deleting(agent_id, session_id):
            pass


def _cut_around(content: str, text: str) -> str:
    """Return the part of a content around a text, in one line."""
    at = max(content.lower().find(text.lower()), 0)
    start = max(at - EXCERPT_CHARS, 0)
    end = at + len(text) + EXCERPT_CHARS
    part = " ".join(content[start:end].split())
    return f"{'…' * (start > 0)}{part}{'…' * (end < len(content))}"


class RunRepository(TenantRepository[RunRow]):
    """One tenant's runs."""

    table = RunRow

    async def newest(self, session_id: str) -> RunRow | None:
        """Return the run in a session that started last, or None."""
        return await self._database.first(self._select(session_id=session_id).order_by(*_LAST).limit(1))

    async def newest_of(self, session_ids: Sequence[str]) -> dict[str, RunRow]:
        """Return the run that started last in each of these sessions, by session."""
        mine = self._mine(session_id=list(session_ids))
        last = select(RunRow.session_id, func.max(RunRow.start_ms)).where(*mine).group_by(RunRow.session_id)
        found = select(RunRow).where(*mine, tuple_(RunRow.session_id, RunRow.start_ms).in_(last))
        return {row.session_id: row for row in await self._database.all(found.order_by(RunRow.id))}

    async def later(self, run: RunRow) -> AsyncGenerator[RunRow]:
        """Yield the runs in a run's session that started after it, oldest first."""
        page = [run]
        while page:
            last = page[-1]
            later = (RunRow.start_ms > last.start_ms) | ((RunRow.start_ms == last.start_ms) & (RunRow.id > last.id))
            found = self._select(session_id=run.session_id).where(later)
            page = await self._database.all(found.order_by(RunRow.start_ms, RunRow.id).limit(RUN_PAGE))
            for row in page:
                yield row

    async def statuses(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the statuses of runs by id."""
        found = select(RunRow.id, RunRow.status).where(*self._mine(id=list(ids)))
        return dict(await self._database.rows(found))

    async def open_ids(self, session_id: str) -> list[str]:
        """Return the ids of the runs in a session that have not ended according to the database."""
        return await self._database.all(select(RunRow.id).where(*self._mine(session_id=session_id, status=list(OPEN))))

    async def of_request(self, key: str) -> RunRow | None:
        """Return the run that a request with this key has begun, or None."""
        return await self._database.first(self._select(request_key=key))

    async def find(self, agent_id: str, session_id: str, page: int, page_size: int) -> tuple[list[RunRow], int]:
        """Return a page of an agent's runs, newest first, and the total number across all pages.

        If ``session_id`` is ``""``, the runs in all sessions are returned. ``page`` counts from 1.
        """
        of_session = {"session_id": session_id} if session_id else {}
        return await self._database.page(self._select(agent_id=agent_id, **of_session), _LAST, page, page_size)

    async def end(self, run_id: str, status: str, error: str, usage: Usage, now_ms: int) -> None:
        """Store the end of a run."""
        tokens = {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens}
        await self.set(run_id, status=status, error=error, asked="", end_ms=now_ms, **tokens)


class TurnRows(NamedTuple):
    """An agent, and the session that the request names, if it exists."""

    agent: AgentRow
    session: SessionRow | None
    """It may belong to another agent of the tenant."""
    version: VersionRow | None
    """The session's version; the agent's draft if there is no session, or the version has been deleted."""
    newest_run: RunRow | None
    """The session's run that started last."""


async def read_turn_rows(database: Database, tenant: str, agent_id: str, session_id: str = "") -> TurnRows | None:
    """Return one of a tenant's agents, with the session if an id is given, or None if there is no such agent."""
    agents = AgentRepository(database, tenant)
    agent = await agents.get(agent_id)
    if agent is None:
        return None
    session = await SessionRepository(database, tenant).get(session_id) if session_id else None
    version = await agents.version(agent_id, session.version_id) if session else None
    version = version or await agents.version(agent_id, agent.version_id)
    run = await RunRepository(database, tenant).newest(session_id) if session else None
    return TurnRows(agent, session, version, run)
