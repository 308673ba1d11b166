"""What is known of a tenant's files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, func, select

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.tables import FileRow

if TYPE_CHECKING:
    from ragflow_lg.server.database.database import Database

__all__ = ["FileRepository"]


class FileRepository:
    """The files of one tenant; those of others are not there."""

    def __init__(self, database: Database, tenant: str) -> None:
        self._database = database
        self._tenant = tenant

    async def add(self, file: FileRow) -> None:
        """Store what is known of a file."""
        file.tenant = self._tenant
        async with self._database.writing() as writing:
            writing.add(file)

    async def add_within(self, file: FileRow, *, max_files: int, max_bytes: int) -> None:
        """Store what is known of a file, if the tenant then has no more than so many files and bytes.

        Raises:
            RequestError: if it would have more.
        """
        file.tenant = self._tenant
        used = select(func.count(), func.sum(FileRow.size_bytes)).where(FileRow.tenant == self._tenant)
        async with self._database.writing() as writing:
            count, size = (await writing.execute(used)).one()
            if count >= max_files:
                raise RequestError(f"There are {max_files:,} files already, the most there may be; delete agents.", 101)
            if (size or 0) + file.size_bytes > max_bytes:
                raise RequestError(f"The files of all agents together have at most {max_bytes:,} bytes.", 101)
            writing.add(file)

    async def get(self, file_id: str) -> FileRow | None:
        """Give what is known of a file."""
        async with self._database.reading() as reading:
            return await reading.scalar(select(FileRow).where(FileRow.tenant == self._tenant, FileRow.id == file_id))

    async def delete(self, file_id: str) -> None:
        """Forget a file."""
        async with self._database.writing() as writing:
            await writing.execute(delete(FileRow).where(FileRow.tenant == self._tenant, FileRow.id == file_id))

    async def delete_of_agent(self, agent_id: str) -> list[str]:
        """Forget the files of an agent; give their ids."""
        of_agent = (FileRow.tenant == self._tenant, FileRow.agent_id == agent_id)
        async with self._database.writing() as writing:
            ids = list(await writing.scalars(select(FileRow.id).where(*of_agent)))
            await writing.execute(delete(FileRow).where(*of_agent))
        return ids
