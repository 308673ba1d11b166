"""Agents of a tenant, and the versions of their canvases."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from sqlalchemy import ColumnElement, Select, bindparam, delete, func, literal, or_, select, update
from sqlalchemy.exc import IntegrityError

from ragflow_lg.base.errors import DatabaseError, RequestError
from ragflow_lg.server.database.plain_rows import finder
from ragflow_lg.server.database.tables import AgentRow, MessageRow, RunRow, SessionRow, VersionRow

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

    from ragflow_lg.server.database.database import Database

__all__ = ["MAX_DRAFTS", "AgentQuery", "AgentRepository"]

MAX_DRAFTS = 20
"""How many versions of an agent are kept that were neither released nor are used by a session."""

_AGENT = select(AgentRow.__table__).where(AgentRow.tenant == bindparam("tenant"), AgentRow.id == bindparam("id"))
_VERSION = select(VersionRow.__table__).where(
    VersionRow.tenant == bindparam("tenant"),
    VersionRow.agent_id == bindparam("agent_id"),
    VersionRow.id == bindparam("id"),
)


class AgentQuery(Struct, frozen=True):
    """Which agents are wanted, in what order. ``page`` counts from 1."""

    id: str = ""
    title: str = ""
    keywords: str = ""
    categories: Sequence[str] = ()
    canvas_type: str = ""
    tags: Sequence[str] = ()
    """Tags of which one is enough."""
    page: int = 1
    page_size: int = 30
    order: Literal["create", "update", "title"] = "create"
    is_descending: bool = True


class AgentRepository:
    """The agents of one tenant; those of others are not there."""

    def __init__(self, database: Database, tenant: str) -> None:
        self._database = database
        self._tenant = tenant

    async def add(self, agent: AgentRow, version: VersionRow) -> None:
        """Store a new agent with its first version.

        Raises:
            RequestError: if there is an agent of this title.
        """
        agent.tenant = version.tenant = self._tenant
        async with self._writing(agent.title) as writing:
            await self._refuse_taken(writing, agent.title_key, agent.canvas_category, agent.id)
            writing.add_all([agent, version])

    async def get(self, agent_id: str) -> AgentRow | None:
        """Give an agent."""
        found = await self._database.read(finder(_AGENT, {"tenant": self._tenant, "id": agent_id}))
        return AgentRow(**found) if found is not None else None

    async def find(self, query: AgentQuery) -> tuple[list[AgentRow], int]:
        """Give a page of agents, and how many there are on all pages."""
        wanted = self._agents()
        for condition in _conditions(query):
            wanted = wanted.where(condition)
        columns = {"create": AgentRow.create_ms, "update": AgentRow.update_ms, "title": AgentRow.title_key}
        column = columns[query.order]
        order = (column.desc(), AgentRow.id.desc()) if query.is_descending else (column.asc(), AgentRow.id.asc())
        page = wanted.order_by(*order).limit(query.page_size).offset((query.page - 1) * query.page_size)
        async with self._database.reading() as reading:
            total = await reading.scalar(select(func.count()).select_from(wanted.subquery()))
            return list(await reading.scalars(page)), total or 0

    async def categories(self) -> dict[str, int]:
        """Count the agents by category."""
        counted = select(AgentRow.canvas_category, func.count()).where(AgentRow.tenant == self._tenant)
        async with self._database.reading() as reading:
            rows = await reading.execute(counted.group_by(AgentRow.canvas_category).order_by(AgentRow.canvas_category))
            return {row[0]: row[1] for row in rows}

    async def change(self, agent_id: str, values: Mapping[str, Any], version: VersionRow | None) -> None:
        """Change columns of an agent; a ``version`` becomes its draft.

        Raises:
            RequestError: if there is another agent of the new title.
        """
        async with self._writing(str(values.get("title", ""))) as writing:
            agent = await writing.scalar(self._agents().where(AgentRow.id == agent_id))
            if agent is None:
                return
            for name, value in values.items():
                setattr(agent, name, value)
            await self._refuse_taken(writing, agent.title_key, agent.canvas_category, agent_id)
            if version is not None:
                version.tenant, agent.version_id = self._tenant, version.id
                writing.add(version)
                await writing.flush()
                await self._trim(writing, agent_id)

    async def sessions(self, agent_id: str) -> list[str]:
        """Give the ids of an agent's sessions."""
        chosen = select(SessionRow.id).where(SessionRow.tenant == self._tenant, SessionRow.agent_id == agent_id)
        async with self._database.reading() as reading:
            return list(await reading.scalars(chosen))

    async def delete(self, agent_id: str) -> list[str] | None:
        """Delete an agent and all that belongs to it; give the ids of its sessions, None if there is no such agent."""
        async with self._database.writing() as writing:
            agent = await writing.scalar(self._agents().where(AgentRow.id == agent_id))
            if agent is None:
                return None
            chosen = select(SessionRow.id).where(SessionRow.tenant == self._tenant, SessionRow.agent_id == agent_id)
            sessions = list(await writing.scalars(chosen))
            of_sessions = (MessageRow.tenant == self._tenant, MessageRow.session_id.in_(chosen))
            await writing.execute(delete(MessageRow).where(*of_sessions))
            for table in (RunRow, SessionRow, VersionRow):
                await writing.execute(delete(table).where(table.tenant == self._tenant, table.agent_id == agent_id))
            await writing.delete(agent)
            return sessions

    # Versions

    async def version(self, agent_id: str, version_id: str) -> VersionRow | None:
        """Give a version of an agent; one of another agent is not there."""
        values = {"tenant": self._tenant, "agent_id": agent_id, "id": version_id}
        found = await self._database.read(finder(_VERSION, values))
        return VersionRow(**found) if found is not None else None

    async def versions(self, ids: Sequence[str]) -> dict[str, VersionRow]:
        """Give versions by id."""
        wanted = select(VersionRow).where(VersionRow.tenant == self._tenant, VersionRow.id.in_(ids))
        async with self._database.reading() as reading:
            return {row.id: row for row in await reading.scalars(wanted)}

    async def canvas_sizes(self, ids: Sequence[str]) -> dict[str, int]:
        """Give how large the canvases of versions are, unread, by id: in characters, or in MySQL bytes."""
        wanted = select(VersionRow.id, func.length(VersionRow.dsl)).where(
            VersionRow.tenant == self._tenant, VersionRow.id.in_(ids)
        )
        async with self._database.reading() as reading:
            return {id_: size or 0 for id_, size in await reading.execute(wanted)}

    async def released(self, agent_id: str) -> VersionRow | None:
        """Give the version that was released last."""
        newest = (VersionRow.update_ms.desc(), VersionRow.create_ms.desc(), VersionRow.id)
        wanted = self._versions(agent_id).where(VersionRow.is_released).order_by(*newest).limit(1)
        async with self._database.reading() as reading:
            return await reading.scalar(wanted)

    async def release_times(self, agent_ids: Sequence[str]) -> dict[str, int]:
        """Give when agents were released last, in epoch milliseconds, by id; those that never were are left out."""
        times = (
            select(VersionRow.agent_id, func.max(VersionRow.update_ms))
            .where(VersionRow.tenant == self._tenant, VersionRow.agent_id.in_(agent_ids), VersionRow.is_released)
            .group_by(VersionRow.agent_id)
        )
        async with self._database.reading() as reading:
            return {row[0]: row[1] for row in await reading.execute(times)}

    async def release(self, agent_id: str, version_id: str, now_ms: int) -> None:
        """Release a version."""
        chosen = (VersionRow.tenant == self._tenant, VersionRow.agent_id == agent_id, VersionRow.id == version_id)
        async with self._database.writing() as writing:
            await writing.execute(update(VersionRow).where(*chosen).values(is_released=True, update_ms=now_ms))

    async def all_versions(self, agent_id: str) -> list[VersionRow]:
        """Give all versions of an agent, the one that was changed last first."""
        newest = (VersionRow.update_ms.desc(), VersionRow.create_ms.desc(), VersionRow.id)
        async with self._database.reading() as reading:
            return list(await reading.scalars(self._versions(agent_id).order_by(*newest)))

    async def add_version(self, version: VersionRow) -> None:
        """Store a version beside the draft."""
        version.tenant = self._tenant
        async with self._database.writing() as writing:
            writing.add(version)

    async def delete_version(self, agent_id: str, version_id: str) -> int:
        """Delete a version, unless sessions keep to it; give how many do."""
        kept = select(func.count()).where(SessionRow.tenant == self._tenant, SessionRow.version_id == version_id)
        async with self._database.writing() as writing:
            if users := await writing.scalar(kept):
                return users
            chosen = (VersionRow.tenant == self._tenant, VersionRow.agent_id == agent_id, VersionRow.id == version_id)
            await writing.execute(delete(VersionRow).where(*chosen))
            return 0

    @asynccontextmanager
    async def _writing(self, title: str) -> AsyncGenerator[AsyncSession]:
        """Write; should another writer have been quicker to take the title, say so."""
        try:
            async with self._database.writing() as writing:
                yield writing
        except DatabaseError as error:
            if isinstance(error.__cause__, IntegrityError):
                raise _taken(title) from None
            raise

    def _agents(self) -> Select[AgentRow]:
        return select(AgentRow).where(AgentRow.tenant == self._tenant)

    def _versions(self, agent_id: str) -> Select[VersionRow]:
        return select(VersionRow).where(VersionRow.tenant == self._tenant, VersionRow.agent_id == agent_id)

    async def _refuse_taken(self, writing: AsyncSession, title_key: str, category: str, agent_id: str) -> None:
        same = self._agents().where(AgentRow.title_key == title_key, AgentRow.canvas_category == category)
        with writing.no_autoflush:
            taken = await writing.scalar(same.where(AgentRow.id != agent_id))
        if taken is not None:
            raise _taken(taken.title)

    async def _trim(self, writing: AsyncSession, agent_id: str) -> None:
        used = select(SessionRow.version_id).where(SessionRow.tenant == self._tenant, SessionRow.agent_id == agent_id)
        drafts = (
            self._versions(agent_id)
            .where(VersionRow.is_released.is_(False), VersionRow.id.not_in(used))
            .order_by(VersionRow.create_ms.desc(), VersionRow.id)
            .offset(MAX_DRAFTS)
            .limit(MAX_DRAFTS)
        )
        for row in await writing.scalars(drafts):
            await writing.delete(row)


def _conditions(query: AgentQuery) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if query.id:
        found.append(AgentRow.id == query.id)
    if query.title:
        found.append(AgentRow.title == query.title)
    if query.keywords:
        found.append(AgentRow.title_key.contains(query.keywords.casefold(), autoescape=True))
    if query.categories:
        found.append(AgentRow.canvas_category.in_(query.categories))
    if query.canvas_type:
        found.append(AgentRow.canvas_type == query.canvas_type)
    if query.tags:
        listed = literal(",") + func.lower(AgentRow.tags) + literal(",")
        found.append(or_(*(listed.contains(f",{tag.lower()},", autoescape=True) for tag in query.tags)))
    return found


def _taken(title: str) -> RequestError:
    return RequestError(f"An agent with the title {title!r} already exists.", status=409)
