import pytest

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.database import open_database
from ragflow_lg.server.database.file_repository import FileRepository
from ragflow_lg.server.database.tables import FileRow


async def test_a_file_is_visible_to_its_tenant_only(database_url: str) -> None:
    async with open_database(database_url) as database:
        ours, theirs = FileRepository(database, "us"), FileRepository(database, "them")
        await ours.add(FileRow(id="f1", name="notes.txt", size_bytes=3, create_ms=1))
        await theirs.delete("f1")
        assert await theirs.get("f1") is None
        file = await ours.get("f1")
        assert file is not None
        assert file.name == "notes.txt"
        await ours.delete("f1")
        assert await ours.get("f1") is None


async def test_files_are_limited_by_number_and_size(database_url: str) -> None:
    async with open_database(database_url) as database:
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
