"""Metadata for a tenant's files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, func, select

from ragflow_lg.base.errors import QuotaError, RequestError
from ragflow_lg.server.database.tables import FileRow

if TYPE_CHECKING:
    from ragflow_lg.server.database.database import Database


class FileRepository:
    """One tenant's files. Those of other tenants are invisible."""

    def __init__(self, database: Database, tenant: str) -> None:
        self._database = database
        self._tenant = tenant

    async def add(self, file: FileRow) -> None:
        """Store a file's metadata."""
        file.tenant = self._tenant
        async with self._database.writing() as db:
            db.add(file)

    async def require_within(self, file: FileRow, max_files: int, max_bytes: int) -> None:
        """Check that the key of embedded pages that uploads a file may store it. A limit of 0 stands for none.

        Raises:
            QuotaError: If a limit would be exceeded.
        """
        of_key = (FileRow.tenant == self._tenant, FileRow.page_key == file.page_key)
        async with self._database.reading() as db:
            count, size = (await db.execute(select(func.count(), func.sum(FileRow.size_bytes)).where(*of_key))).one()
        uses = (("files", max_files, count + 1), ("file_bytes", max_bytes, (size or 0) + file.size_bytes))
        for quota, limit, used in uses:
            if 0 < limit < used:
                raise QuotaError(quota, limit, "key of the page", "Create another key for pages.")

    async def add_within(self, file: FileRow, *, max_files: int, max_bytes: int) -> None:
        """Store a file's metadata if the tenant then has at most ``max_files`` files and ``max_bytes`` bytes.

        Raises:
            RequestError: If a limit would be exceeded.
        """
        file.tenant = self._tenant
        usage = select(func.count(), func.sum(FileRow.size_bytes)).where(FileRow.tenant == self._tenant)
        async with self._database.writing() as db:
            count, size = (await db.execute(usage)).one()
            if count >= max_files:
                raise RequestError(f"The limit of {max_files:,} files is reached; delete agents that have files.", 101)
            if (size or 0) + file.size_bytes > max_bytes:
                raise RequestError(
                    f"The total size of all files may not exceed {max_bytes:,} bytes; delete agents that have files.",
                    101,
                )
            db.add(file)

    async def get(self, file_id: str) -> FileRow | None:
        """Return a file's metadata, or None."""
        async with self._database.reading() as db:
            return await db.scalar(select(FileRow).where(FileRow.tenant == self._tenant, FileRow.id == file_id))

    async def delete(self, file_id: str) -> None:
        """Delete a file's metadata."""
        async with self._database.writing() as db:
            await db.execute(delete(FileRow).where(FileRow.tenant == self._tenant, FileRow.id == file_id))

    async def delete_of_agent(self, agent_id: str) -> list[str]:
        """Delete the metadata for an agent's files and return their ids."""
        of_agent = (FileRow.tenant == self._tenant, FileRow.agent_id == agent_id)
        async with self._database.writing() as db:
            ids = list(await db.scalars(select(FileRow.id).where(*of_agent)))
            await db.execute(delete(FileRow).where(*of_agent))
        return ids
