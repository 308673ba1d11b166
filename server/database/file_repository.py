"""Metadata for a tenant's files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from sqlalchemy import ColumnElement, delete, func, select

from ragflow_lg.base.errors import QuotaError
from ragflow_lg.server.database.database import Database, TenantRepository
from ragflow_lg.server.database.tables import FileRow, VersionRow

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

_DELETE_FILES = "Delete files with `DELETE /native/v1/files/ID`; `GET /native/v1/files` lists them."


class FileQuery(Struct, frozen=True):
    """Which files to list: those of a visitor of embedded pages, those of some agents, and by name; empty for all."""

    visitor: str = ""
    agents: tuple[str, ...] = ()
    keywords: str = ""
    """What their names contain."""

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return the conditions on the rows."""
        conditions: list[ColumnElement[bool]] = [FileRow.visitor == self.visitor] if self.visitor else []
        if self.keywords:
            conditions.append(FileRow.name.icontains(self.keywords, autoescape=True))
        return [*conditions, FileRow.agent_id.in_(self.agents)] if self.agents else conditions


async def find_expired(database: Database, now_ms: int, limit: int) -> list[tuple[str, str]]:
    """Return the tenants and ids of files of all tenants that have expired."""
    has_expired = (FileRow.expire_ms > 0, FileRow.expire_ms <= now_ms)
    return await database.rows(select(FileRow.tenant, FileRow.id).where(*has_expired).limit(limit))


async def find_older_files(database: Database, before_ms: int, limit: int) -> list[tuple[str, str]]:
    """Return the tenants and ids of files of all tenants that were stored before a time."""
    return await database.rows(select(FileRow.tenant, FileRow.id).where(FileRow.create_ms < before_ms).limit(limit))


class FileRepository(TenantRepository[FileRow]):
    """One tenant's files."""

    table = FileRow

    async def require_within_page(self, file: FileRow, max_files: int, max_bytes: int) -> None:
        """Check that the key of embedded pages that uploads a file may store it. A limit of 0 stands for none.

        Visitors without a secret are counted apart, so that they leave the others their room.

        Raises:
            QuotaError: If a limit would be exceeded.
        """
        is_anonymous = FileRow.visitor == FileRow.page_key
        mine = [*self._mine(page_key=file.page_key), is_anonymous if file.visitor == file.page_key else ~is_anonymous]
        async with self._database.reading() as db:
            _require("key of the page", await _count(db, mine), file, max_files, max_bytes)

    async def require_within_visitor(self, file: FileRow, max_files: int, max_bytes: int) -> None:
        """Check that a visitor may store a file. A limit of 0 stands for none.

        Raises:
            QuotaError: If a limit would be exceeded.
        """
        async with self._database.reading() as db:
            _require("visitor", await _count(db, self._mine(visitor=file.visitor)), file, max_files, max_bytes)

    async def add_within(self, file: FileRow, *, max_files: int, max_bytes: int) -> None:
        """Store a file's metadata if the tenant then has at most ``max_files`` files and ``max_bytes`` bytes.

        A limit of 0 stands for none.

        Raises:
            QuotaError: If a limit would be exceeded.
        """
        file.tenant = self._tenant
        async with self._database.writing() as db:
            _require("tenant", await _count(db, self._mine()), file, max_files, max_bytes)
            db.add(file)

    async def is_in_canvas(self, file: FileRow) -> bool:
        """Return whether a canvas of the file's agent names it: then its author shows it to everybody."""
        of_agent = self._mine(VersionRow, agent_id=file.agent_id)
        named = select(VersionRow.id).where(*of_agent, VersionRow.dsl.contains(file.id)).limit(1)
        return await self._database.first(named) is not None

    async def find(self, query: FileQuery, page: int, page_size: int) -> tuple[list[FileRow], int, int]:
        """Return a page of files, newest first, with the number of all files and their total size."""
        mine = [*self._mine(), *query.conditions()]
        rows = select(FileRow).where(*mine).order_by(FileRow.create_ms.desc(), FileRow.id)
        async with self._database.reading() as db:
            found = await db.scalars(rows.offset((page - 1) * page_size).limit(page_size))
            return list(found), *await _count(db, mine)

    async def delete(self, file_id: str) -> None:
        """Delete a file's metadata."""
        await self._database.execute(delete(FileRow).where(*self._mine(id=file_id)))

    async def delete_of_agent(self, agent_id: str) -> list[str]:
        """Delete the metadata for an agent's files and return their ids."""
        mine = self._mine(agent_id=agent_id)
        async with self._database.writing() as db:
            ids = list(await db.scalars(select(FileRow.id).where(*mine)))
            await db.execute(delete(FileRow).where(*mine))
            return ids


async def _count(db: AsyncSession, conditions: Sequence[ColumnElement[bool]]) -> tuple[int, int]:
    """Return the number of files and their total size."""
    count, size = (await db.execute(select(func.count(), func.sum(FileRow.size_bytes)).where(*conditions))).one()
    return count, int(size or 0)


def _require(owner: str, stored: tuple[int, int], file: FileRow, max_files: int, max_bytes: int) -> None:
    used = (("files", max_files, stored[0] + 1), ("file_bytes", max_bytes, stored[1] + file.size_bytes))
    for quota, limit, count in used:
        if 0 < limit < count:
            raise QuotaError(quota, limit, owner, _DELETE_FILES)
