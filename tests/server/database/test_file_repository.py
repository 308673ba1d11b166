from __future__ import annotations

from pathlib import Path

import pytest

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.file_repository import FileRepository
from ragflow_lg.server.database.tables import FileRow
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


async def test_files_are_counted_before_they_are_added(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        ours = FileRepository(database, "us")
        await ours.add_within(
            FileRow(id="f1", name="a", agent_id="a1", size_bytes=3, create_ms=1), max_files=2, max_bytes=4
        )
        for size, limit in ((2, 9), (1, 1)):
            file = FileRow(id="f2", name="b", agent_id="a1", size_bytes=size, create_ms=1)
            with pytest.raises(RequestError):
                await ours.add_within(file, max_files=limit, max_bytes=4)
        theirs = FileRepository(database, "them")
        await theirs.add_within(
            FileRow(id="f3", name="c", agent_id="a1", size_bytes=4, create_ms=1), max_files=1, max_bytes=4
        )
        assert await ours.delete_of_agent("a1") == ["f1"]
        assert await ours.get("f1") is None
        assert await theirs.get("f3") is not None
