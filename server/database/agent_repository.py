"""A tenant's agents and the versions of their canvases."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from sqlalchemy import ColumnElement, Select, delete, func, literal, or_, select, update
from sqlalchemy.exc import IntegrityError

from ragflow_lg.base.errors import DatabaseError, RequestError
from ragflow_lg.server.database.database import TenantRepository
from ragflow_lg.server.database.tables import (
    AgentRow,
    MessageRow,
    PauseTimeoutRow,
    RunRow,
    ScheduleRow,
    SessionRow,
    VersionRow,
)

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession


class AgentTags(TenantRepository):
    """The tags on one tenant's agents, joined by commas in the ``tags`` column."""

    async def counts(self, category: str = "") -> Counter[str]:
        """Count the agents by tag, in one category if a category is given."""
        statement = select(AgentRow.tags).where(AgentRow.tenant == self._tenant, AgentRow.tags != "")
        if category:
            statement = statement.where(AgentRow.canvas_category == category)
        return Counter(tag for tags in await self._database.all(statement) for tag in tags.split(","))

    async def set(self, agent_id: str, tags: str) -> None:
        """Replace an agent's tags."""
        selection = update(AgentRow).where(AgentRow.tenant == self._tenant, AgentRow.id == agent_id)
        await self._database.execute(selection.values(tags=tags))


MAX_DRAFTS = 20
"""Maximum number of stored versions per agent that are neither published nor used by a session."""


class AgentQuery(Struct, frozen=True):
    """Filter, order and page for a list of agents. ``page`` counts from 1."""

    id: str = ""
    title: str = ""
    keywords: str = ""
    """Text in the title or the tags."""
    categories: Sequence[str] = ()
    canvas_type: str = ""
    tags: Sequence[str] = ()
    """Agents with any of these tags match."""
    page: int = 1
    page_size: int = 30
    order: Literal["create", "update", "title"] = "create"
    is_descending: bool = True


class AgentRepository(TenantRepository):
    """One tenant's agents."""

    async def add(self, agent: AgentRow, version: VersionRow) -> None:
        """Store a new agent with its first version.

        Raises:
            RequestError: If an agent with this title already exists.
        """
        agent.tenant = version.tenant = self._tenant
        async with self._writing(agent.title) as db:
            await self._refuse_duplicate(db, agent.title_key, agent.canvas_category, agent.id)
            db.add_all([agent, version])

    async def get(self, agent_id: str) -> AgentRow | None:
        """Return an agent, or None."""
        return await self._database.first(self._agents().where(AgentRow.id == agent_id))

    async def find(self, query: AgentQuery) -> tuple[list[AgentRow], int]:
        """Return a page of agents and the total number across all pages."""
        statement = self._agents()
        for condition in _conditions(query):
            statement = statement.where(condition)
        columns = {"create": AgentRow.create_ms, "update": AgentRow.update_ms, "title": AgentRow.title_key}
        column = columns[query.order]
        order = (column.desc(), AgentRow.id.desc()) if query.is_descending else (column.asc(), AgentRow.id.asc())
        return await self._database.page(statement, order, query.page, query.page_size)

    async def categories(self) -> dict[str, int]:
        """Count the agents by category."""
        counts = select(AgentRow.canvas_category, func.count()).where(AgentRow.tenant == self._tenant)
        ordered = counts.group_by(AgentRow.canvas_category).order_by(AgentRow.canvas_category)
        return dict(await self._database.rows(ordered))

    async def change(self, agent_id: str, values: Mapping[str, Any], version: VersionRow | None) -> None:
        """Change an agent's columns. If a ``version`` is given, it becomes the draft.

        Raises:
            RequestError: If another agent has the new title.
        """
        async with self._writing(str(values.get("title", ""))) as db:
            agent = await db.scalar(self._agents().where(AgentRow.id == agent_id))
            if agent is None:
                return
            for name, value in values.items():
                setattr(agent, name, value)
            await self._refuse_duplicate(db, agent.title_key, agent.canvas_category, agent_id)
            if version is not None:
                version.tenant, agent.version_id = self._tenant, version.id
                db.add(version)
                await db.flush()
                await self._trim(db, agent_id)

    async def sessions(self, agent_id: str) -> list[str]:
        """Return the ids of an agent's sessions."""
        selection = select(SessionRow.id).where(SessionRow.tenant == self._tenant, SessionRow.agent_id == agent_id)
        return await self._database.all(selection)

    async def delete(self, agent_id: str) -> list[str] | None:
        """Delete an agent and everything that belongs to it.

        Returns the ids of its sessions, or None if there is no such agent.
        """
        async with self._database.writing() as db:
            agent = await db.scalar(self._agents().where(AgentRow.id == agent_id))
            if agent is None:
                return None
            selection = select(SessionRow.id).where(SessionRow.tenant == self._tenant, SessionRow.agent_id == agent_id)
            sessions = list(await db.scalars(selection))
            of_sessions = (MessageRow.tenant == self._tenant, MessageRow.session_id.in_(selection))
            await db.execute(delete(MessageRow).where(*of_sessions))
            for table in (PauseTimeoutRow, RunRow, ScheduleRow, SessionRow, VersionRow):
                await db.execute(delete(table).where(table.tenant == self._tenant, table.agent_id == agent_id))
            await db.delete(agent)
            return sessions

    # Versions

    async def version(self, agent_id: str, version_id: str) -> VersionRow | None:
        """Return one of an agent's versions, or None. Other agents' versions are not found."""
        return await self._database.first(self._versions(agent_id).where(VersionRow.id == version_id))

    async def versions(self, ids: Sequence[str]) -> dict[str, VersionRow]:
        """Return versions by id."""
        statement = select(VersionRow).where(VersionRow.tenant == self._tenant, VersionRow.id.in_(ids))
        return {row.id: row for row in await self._database.all(statement)}

    async def version_titles(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the titles of versions by id, without loading their canvases."""
        statement = select(VersionRow.id, VersionRow.title).where(
            VersionRow.tenant == self._tenant, VersionRow.id.in_(ids)
        )
        return dict(await self._database.rows(statement))

    async def canvas_sizes(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the sizes of versions' canvases, by id, without loading them: in characters, or on MySQL in bytes."""
        statement = select(VersionRow.id, func.length(VersionRow.dsl)).where(
            VersionRow.tenant == self._tenant, VersionRow.id.in_(ids)
        )
        return {id_: size or 0 for id_, size in await self._database.rows(statement)}

    async def released(self, agent_id: str) -> VersionRow | None:
        """Return the version that was published last, or None."""
        newest = (VersionRow.update_ms.desc(), VersionRow.create_ms.desc(), VersionRow.id)
        statement = self._versions(agent_id).where(VersionRow.is_released).order_by(*newest).limit(1)
        return await self._database.first(statement)

    async def release_times(self, agent_ids: Sequence[str]) -> dict[str, int]:
        """Return when agents were last published, in epoch milliseconds by id. Agents never published are omitted."""
        times = (
            select(VersionRow.agent_id, func.max(VersionRow.update_ms))
            .where(VersionRow.tenant == self._tenant, VersionRow.agent_id.in_(agent_ids), VersionRow.is_released)
            .group_by(VersionRow.agent_id)
        )
        return dict(await self._database.rows(times))

    async def release(self, agent_id: str, version_id: str, now_ms: int) -> None:
        """Publish a version."""
        selection = (VersionRow.tenant == self._tenant, VersionRow.agent_id == agent_id, VersionRow.id == version_id)
        await self._database.execute(update(VersionRow).where(*selection).values(is_released=True, update_ms=now_ms))

    async def all_versions(self, agent_id: str) -> list[VersionRow]:
        """Return all versions of an agent, most recently changed first."""
        newest = (VersionRow.update_ms.desc(), VersionRow.create_ms.desc(), VersionRow.id)
        return await self._database.all(self._versions(agent_id).order_by(*newest))

    async def add_version(self, version: VersionRow) -> None:
        """Store a version without making it the draft."""
        version.tenant = self._tenant
        await self._database.add(version)

    async def add_trial(self, version: VersionRow) -> None:
        """Store a version that is not the draft, and delete the oldest ones that nobody uses."""
        version.tenant = self._tenant
        async with self._database.writing() as db:
            db.add(version)
            await db.flush()
            await self._trim(db, version.agent_id)

    async def delete_version(self, agent_id: str, version_id: str) -> int:
        """Delete a version unless sessions use it. Return how many do."""
        users_query = select(func.count()).where(SessionRow.tenant == self._tenant, SessionRow.version_id == version_id)
        async with self._database.writing() as db:
            if users := await db.scalar(users_query):
                return users
            selection = (
                VersionRow.tenant == self._tenant,
                VersionRow.agent_id == agent_id,
                VersionRow.id == version_id,
            )
            await db.execute(delete(VersionRow).where(*selection))
            return 0

    @asynccontextmanager
    async def _writing(self, title: str) -> AsyncGenerator[AsyncSession]:
        """Open a transaction, and report a title that another writer used first."""
        try:
            async with self._database.writing() as db:
                yield db
        except DatabaseError as error:
            if isinstance(error.__cause__, IntegrityError):
                raise _duplicate_error(title) from None
            raise

    def _agents(self) -> Select[AgentRow]:
        return select(AgentRow).where(AgentRow.tenant == self._tenant)

    def _versions(self, agent_id: str) -> Select[VersionRow]:
        return select(VersionRow).where(VersionRow.tenant == self._tenant, VersionRow.agent_id == agent_id)

    async def _refuse_duplicate(self, db: AsyncSession, title_key: str, category: str, agent_id: str) -> None:
        same = self._agents().where(AgentRow.title_key == title_key, AgentRow.canvas_category == category)
        with db.no_autoflush:
            other = await db.scalar(same.where(AgentRow.id != agent_id))
        if other is not None:
            raise _duplicate_error(other.title)

    async def _trim(self, db: AsyncSession, agent_id: str) -> None:
        usage = select(SessionRow.version_id).where(SessionRow.tenant == self._tenant, SessionRow.agent_id == agent_id)
        current = select(AgentRow.version_id).where(AgentRow.tenant == self._tenant, AgentRow.id == agent_id)
        drafts = (
            self._versions(agent_id)
            .where(VersionRow.is_released.is_(False), VersionRow.id.not_in(usage), VersionRow.id.not_in(current))
            .order_by(VersionRow.create_ms.desc(), VersionRow.id)
            .offset(MAX_DRAFTS)
            .limit(MAX_DRAFTS)
        )
        for row in await db.scalars(drafts):
            await db.delete(row)


def _conditions(query: AgentQuery) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if query.id:
        conditions.append(AgentRow.id == query.id)
    if query.title:
        conditions.append(AgentRow.title == query.title)
    if query.keywords:
        keywords = query.keywords.casefold()
        columns = (AgentRow.title_key, func.lower(AgentRow.tags, type_=AgentRow.tags.type))
        conditions.append(or_(*(column.contains(keywords, autoescape=True) for column in columns)))
    if query.categories:
        conditions.append(AgentRow.canvas_category.in_(query.categories))
    if query.canvas_type:
        conditions.append(AgentRow.canvas_type == query.canvas_type)
    if query.tags:
        tag_list = literal(",") + func.lower(AgentRow.tags, type_=AgentRow.tags.type) + literal(",")
        conditions.append(or_(*(tag_list.contains(f",{tag.lower()},", autoescape=True) for tag in query.tags)))
    return conditions


def _duplicate_error(title: str) -> RequestError:
    return RequestError(f"An agent with the title {title!r} already exists.", status=409)
