"""What is known of a tenant's files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, select

from server.database.models import FileRow

if TYPE_CHECKING:
    from server.database.database import Database

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

    async def get(self, file_id: str) -> FileRow | None:
        """Give what is known of a file."""
        async with self._database.reading() as reading:
            return await reading.scalar(select(FileRow).where(FileRow.tenant == self._tenant, FileRow.id == file_id))

    async def delete(self, file_id: str) -> None:
        """Forget a file."""
        async with self._database.writing() as writing:
            await writing.execute(delete(FileRow).where(FileRow.tenant == self._tenant, FileRow.id == file_id))
