from __future__ import annotations

from pathlib import Path

from server.database.files import FileRepository
from server.database.models import FileRow
from tests.server.database.rows import opened


async def test_a_file_is_its_tenants_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        ours, theirs = FileRepository(database, "us"), FileRepository(database, "them")
        await ours.add(FileRow(id="f1", name="notes.txt", size_bytes=3, create_ms=1))
        await theirs.delete("f1")
        assert await theirs.get("f1") is None
        found = await ours.get("f1")
        assert found is not None
        assert found.name == "notes.txt"
        await ours.delete("f1")
        assert await ours.get("f1") is None
