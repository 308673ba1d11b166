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
    FeedbackRow,
    MessageRow,
    PauseTimeoutRow,
    RunRow,
    ScheduleRow,
    SessionRow,
    VersionRow,
)

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

MAX_DRAFTS = 20
"""Maximum number of stored versions per agent that are neither published nor used by a session."""
_NEWEST = (VersionRow.update_ms.desc(), VersionRow.create_ms.desc(), VersionRow.id)


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


class AgentRepository(TenantRepository[AgentRow]):
    """One tenant's agents."""

    table = AgentRow

    async def create(self, agent: AgentRow, version: VersionRow) -> None:
        """Store a new agent with its first version.

        Raises:
            RequestError: If an agent with this title already exists.
        """
        agent.tenant = version.tenant = self._tenant
        async with self._writing(agent.title) as db:
            await self._refuse_duplicate(db, agent.title_key, agent.canvas_category, agent.id)
            db.add_all([agent, version])

    async def find(self, query: AgentQuery) -> tuple[list[AgentRow], int]:
        """Return a page of agents and the total number across all pages."""
        columns = {"create": AgentRow.create_ms, "update": AgentRow.update_ms, "title": AgentRow.title_key}
        order = (columns[query.order], AgentRow.id)
        directed = [column.desc() if query.is_descending else column.asc() for column in order]
        return await self._database.page(
            self._select().where(*_conditions(query)), directed, query.page, query.page_size
        )

    async def categories(self) -> dict[str, int]:
        """Count the agents by category."""
        counts = select(AgentRow.canvas_category, func.count()).where(*self._mine())
        ordered = counts.group_by(AgentRow.canvas_category).order_by(AgentRow.canvas_category)
        return dict(await self._database.rows(ordered))

    async def uses(self, ids: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Return how many sessions agents have, and when one was used last, by id. Agents without any are omitted."""
        columns = (SessionRow.agent_id, func.count(), func.max(SessionRow.update_ms))
        counts = select(*columns).where(*self._mine(SessionRow, agent_id=list(ids))).group_by(SessionRow.agent_id)
        return {id_: (count, last_ms) for id_, count, last_ms in await self._database.rows(counts)}

    async def scheduled(self, ids: Sequence[str]) -> set[str]:
        """Return which of the agents have schedules."""
        found = select(ScheduleRow.agent_id).where(*self._mine(ScheduleRow, agent_id=list(ids))).distinct()
        return set(await self._database.all(found))

    async def count_tags(self, category: str = "") -> Counter[str]:
        """Count the agents by tag, in one category if a category is given. A row joins its tags by commas."""
        of_category = {"canvas_category": category} if category else {}
        rows = await self._database.all(select(AgentRow.tags).where(*self._mine(**of_category), AgentRow.tags != ""))
        return Counter(tag for tags in rows for tag in tags.split(","))

    async def change(self, agent_id: str, values: Mapping[str, Any], version: VersionRow | None) -> None:
        """Change an agent's columns. If a ``version`` is given, it becomes the draft.

        Raises:
            RequestError: If another agent has the new title.
        """
        async with self._writing(str(values.get("title", ""))) as db:
            agent = await db.scalar(self._select(id=agent_id))
            if agent is None:
                return
            for name, value in values.items():
                setattr(agent, name, value)
            await self._refuse_duplicate(db, agent.title_key, agent.canvas_category, agent_id)
            if version is not None:
                agent.version_id = version.id
                await self._add_draft(db, version, agent_id)

    async def delete(self, agent_id: str) -> list[str] | None:
        """Delete an agent and everything that belongs to it.

        Returns the ids of its sessions, or None if there is no such agent.
        """
        selection = select(SessionRow.id).where(*self._mine(SessionRow, agent_id=agent_id))
        async with self._database.writing() as db:
            agent = await db.scalar(self._select(id=agent_id).with_for_update())
            if agent is None:
                return None
            sessions = list(await db.scalars(selection))
            # The order of `delete_session_rows`.
            await db.execute(delete(RunRow).where(*self._mine(RunRow, agent_id=agent_id)))
            await db.execute(delete(MessageRow).where(*self._mine(MessageRow, session_id=selection)))
            for table in (FeedbackRow, PauseTimeoutRow, ScheduleRow, SessionRow, VersionRow):
                await db.execute(delete(table).where(*self._mine(table, agent_id=agent_id)))
            await db.delete(agent)
            return sessions

    # Versions

    async def version(self, agent_id: str, version_id: str) -> VersionRow | None:
        """Return one of an agent's versions, or None. Other agents' versions are not found."""
        return await self._database.first(self._versions(agent_id=agent_id, id=version_id))

    async def versions(self, ids: Sequence[str]) -> dict[str, VersionRow]:
        """Return versions by id."""
        return {row.id: row for row in await self._database.all(self._versions(id=list(ids)))}

    async def version_titles(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the titles of versions by id, without loading their canvases."""
        titles = select(VersionRow.id, VersionRow.title).where(*self._mine(VersionRow, id=list(ids)))
        return dict(await self._database.rows(titles))

    async def canvas_sizes(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the sizes of versions' canvases, by id, without loading them: in characters, or on MySQL in bytes."""
        sizes = select(VersionRow.id, func.length(VersionRow.dsl)).where(*self._mine(VersionRow, id=list(ids)))
        return {id_: size or 0 for id_, size in await self._database.rows(sizes)}

    async def released(self, agent_id: str) -> VersionRow | None:
        """Return the version that was published last, or None."""
        found = self._versions(agent_id=agent_id, is_released=True).order_by(*_NEWEST)
        return await self._database.first(found.limit(1))

    async def release_times(self, agent_ids: Sequence[str]) -> dict[str, int]:
        """Return when agents were last published, in epoch milliseconds by id. Agents never published are omitted."""
        times = select(VersionRow.agent_id, func.max(VersionRow.update_ms)).group_by(VersionRow.agent_id)
        released = self._mine(VersionRow, agent_id=list(agent_ids), is_released=True)
        return dict(await self._database.rows(times.where(*released)))

    async def release(self, agent_id: str, version_id: str, now_ms: int) -> None:
        """Publish a version."""
        one = update(VersionRow).where(*self._mine(VersionRow, agent_id=agent_id, id=version_id))
        await self._database.execute(one.values(is_released=True, update_ms=now_ms))

    async def all_versions(self, agent_id: str) -> list[VersionRow]:
        """Return all versions of an agent, most recently changed first."""
        return await self._database.all(self._versions(agent_id=agent_id).order_by(*_NEWEST))

    async def add_trial(self, version: VersionRow) -> None:
        """Store a version that is not the draft, and delete the oldest ones that nobody uses."""
        async with self._database.writing() as db:
            await self._add_draft(db, version, version.agent_id)

    async def delete_version(self, agent_id: str, version_id: str) -> int:
        """Delete a version unless sessions use it. Return how many do."""
        count = select(func.count()).where(*self._mine(SessionRow, version_id=version_id))
        async with self._database.writing() as db:
            if users := await db.scalar(count):
                return users
            await db.execute(delete(VersionRow).where(*self._mine(VersionRow, agent_id=agent_id, id=version_id)))
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

    def _versions(self, **values: Any) -> Select[VersionRow]:
        return select(VersionRow).where(*self._mine(VersionRow, **values))

    async def _refuse_duplicate(self, db: AsyncSession, title_key: str, category: str, agent_id: str) -> None:
        same = self._select(title_key=title_key, canvas_category=category)
        with db.no_autoflush:
            other = await db.scalar(same.where(AgentRow.id != agent_id))
        if other is not None:
            raise _duplicate_error(other.title)

    async def _add_draft(self, db: AsyncSession, version: VersionRow, agent_id: str) -> None:
        """Add a version, and delete the agent's oldest ones that are not published and that nobody uses."""
        version.tenant = self._tenant
        db.add(version)
        await db.flush()
        used = select(SessionRow.version_id).where(*self._mine(SessionRow, agent_id=agent_id))
        current = select(AgentRow.version_id).where(*self._mine(id=agent_id))
        unused = self._versions(agent_id=agent_id, is_released=False).where(
            VersionRow.id.not_in(used), VersionRow.id.not_in(current)
        )
        newest = unused.order_by(VersionRow.create_ms.desc(), VersionRow.id)
        for row in await db.scalars(newest.offset(MAX_DRAFTS).limit(MAX_DRAFTS)):
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
