"""Metadata for a tenant's files."""

from __future__ import annotations

from msgspec import Struct
from sqlalchemy import ColumnElement, delete, func, select

from ragflow_lg.base.errors import QuotaError
from ragflow_lg.server.database.database import Database, TenantRepository
from ragflow_lg.server.database.tables import FileRow, VersionRow

_DELETE_FILES = "Delete files with `DELETE /native/v1/files/ID`; `GET /native/v1/files` lists them."


class FileQuery(Struct, frozen=True):
    """Which files to list or delete: those of a visitor of embedded pages, and those of some agents; empty for all."""

    visitor: str = ""
    agents: tuple[str, ...] = ()

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return the conditions on the rows."""
        conditions: list[ColumnElement[bool]] = [FileRow.visitor == self.visitor] if self.visitor else []
        return [*conditions, FileRow.agent_id.in_(self.agents)] if self.agents else conditions


async def find_expired(database: Database, now_ms: int, limit: int) -> list[tuple[str, str]]:
    """Return the tenants and ids of files of all tenants that have expired."""
    has_expired = (FileRow.expire_ms > 0, FileRow.expire_ms <= now_ms)
    return await database.rows(select(FileRow.tenant, FileRow.id).where(*has_expired).limit(limit))


async def find_older_files(database: Database, before_ms: int, limit: int) -> list[tuple[str, str]]:
    """Return the tenants and ids of files of all tenants that were stored before a time."""
    return await database.rows(select(FileRow.tenant, FileRow.id).where(FileRow.create_ms < before_ms).limit(limit))


class FileRepository(TenantRepository):
    """One tenant's files."""

    async def add(self, file: FileRow) -> None:
        """Store a file's metadata."""
        file.tenant = self._tenant
        await self._database.add(file)

    async def require_within_page(self, file: FileRow, max_files: int, max_bytes: int) -> None:
        """Check that the key of embedded pages that uploads a file may store it. A limit of 0 stands for none.

        Visitors without a secret are counted apart, so that they leave the others their room.

        Raises:
            QuotaError: If a limit would be exceeded.
        """
        is_anonymous = FileRow.visitor == FileRow.page_key
        is_alike = is_anonymous if file.visitor == file.page_key else ~is_anonymous
        await self._require_within(
            "key of the page", file, max_files, max_bytes, FileRow.page_key == file.page_key, is_alike
        )

    async def require_within_visitor(self, file: FileRow, max_files: int, max_bytes: int) -> None:
        """Check that a visitor may store a file. A limit of 0 stands for none.

        Raises:
            QuotaError: If a limit would be exceeded.
        """
        await self._require_within("visitor", file, max_files, max_bytes, FileRow.visitor == file.visitor)

    async def _require_within(
        self, owner: str, file: FileRow, max_files: int, max_bytes: int, *conditions: ColumnElement[bool]
    ) -> None:
        mine = (FileRow.tenant == self._tenant, *conditions)
        async with self._database.reading() as db:
            count, size = (await db.execute(select(func.count(), func.sum(FileRow.size_bytes)).where(*mine))).one()
        _require(owner, count + 1, (size or 0) + file.size_bytes, max_files, max_bytes)

    async def add_within(self, file: FileRow, *, max_files: int, max_bytes: int) -> None:
        """Store a file's metadata if the tenant then has at most ``max_files`` files and ``max_bytes`` bytes.

        A limit of 0 stands for none.

        Raises:
            QuotaError: If a limit would be exceeded.
        """
        file.tenant = self._tenant
        usage = select(func.count(), func.sum(FileRow.size_bytes)).where(FileRow.tenant == self._tenant)
        async with self._database.writing() as db:
            count, size = (await db.execute(usage)).one()
            _require("tenant", (count or 0) + 1, (size or 0) + file.size_bytes, max_files, max_bytes)
            db.add(file)

    async def get(self, file_id: str) -> FileRow | None:
        """Return a file's metadata, or None."""
        return await self._database.first(select(FileRow).where(FileRow.tenant == self._tenant, FileRow.id == file_id))

    async def is_in_canvas(self, file: FileRow) -> bool:
        """Return whether a canvas of the file's agent names it: then its author shows it to everybody."""
        of_agent = (VersionRow.tenant == self._tenant, VersionRow.agent_id == file.agent_id)
        named = select(VersionRow.id).where(*of_agent, VersionRow.dsl.contains(file.id)).limit(1)
        return await self._database.first(named) is not None

    async def find(self, query: FileQuery, page: int, page_size: int) -> tuple[list[FileRow], int, int]:
        """Return a page of files, newest first, with the number of all files and their total size."""
        mine = (FileRow.tenant == self._tenant, *query.conditions())
        rows = select(FileRow).where(*mine).order_by(FileRow.create_ms.desc(), FileRow.id)
        async with self._database.reading() as db:
            count, size = (await db.execute(select(func.count(), func.sum(FileRow.size_bytes)).where(*mine))).one()
            found = await db.scalars(rows.offset((page - 1) * page_size).limit(page_size))
            return list(found), count, int(size or 0)

    async def delete(self, file_id: str) -> None:
        """Delete a file's metadata."""
        await self._database.execute(delete(FileRow).where(FileRow.tenant == self._tenant, FileRow.id == file_id))

    async def delete_of_agent(self, agent_id: str) -> list[str]:
        """Delete the metadata for an agent's files and return their ids."""
        of_agent = (FileRow.tenant == self._tenant, FileRow.agent_id == agent_id)
        async with self._database.writing() as db:
            ids = list(await db.scalars(select(FileRow.id).where(*of_agent)))
            await db.execute(delete(FileRow).where(*of_agent))
        return ids


def _require(owner: str, files: int, size: int, max_files: int, max_bytes: int) -> None:
    for quota, limit, used in (("files", max_files, files), ("file_bytes", max_bytes, size)):
        if 0 < limit < used:
            raise QuotaError(quota, limit, owner, _DELETE_FILES)
