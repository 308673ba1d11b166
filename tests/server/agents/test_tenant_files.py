from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.server.agents.file_store import FileStore
from ragflow_lg.server.agents.tenant_files import MAX_READ_BYTES, TenantFiles, file_text
from ragflow_lg.server.database.database import open_database

FILE = "a" * 32


async def test_uploads_are_read_by_id_and_only_by_their_tenant(tmp_path: Path, database_url: str) -> None:
    async with open_database(database_url) as database:
        ours = FileStore(tmp_path / "files", database, "us", 9, 999)
        theirs = FileStore(tmp_path / "files", database, "them", 9, 999)
        await ours.save(FILE, "notes.txt", "text/plain", "grün".encode(), 1, "a1")
        sent: dict[str, Any] = {"id": FILE, "name": "other.pdf", "created_by": "them"}
        assert await TenantFiles(ours).read([sent, "inline", {"name": "x", "content": "with it"}], "") == [
            "grün",
            "inline",
            "with it",
        ]
        for odd in (sent, {"id": "../../etc/passwd"}, {"id": 7}, {}):
            with pytest.raises(ServiceError):
                await TenantFiles(theirs).read([odd], "")
        next(p for p in (tmp_path / "files").rglob("*") if p.is_file()).unlink()
        with pytest.raises(ServiceError, match="has been deleted"):
            await TenantFiles(ours).read([sent], "")


async def test_a_file_too_large_for_a_run_is_refused(tmp_path: Path, database_url: str) -> None:
    async with open_database(database_url) as database:
        ours = FileStore(tmp_path / "files", database, "us", 9, 99 * MAX_READ_BYTES)
        await ours.save(FILE, "big.txt", "text/plain", b"x" * (MAX_READ_BYTES + 1), 1, "a1")
        with pytest.raises(ServiceError, match="10 MiB"):
            await TenantFiles(ours).read([{"id": FILE}], "")


def test_pictures_become_data_uris_and_pages_text() -> None:
    assert file_text("a.png", "image/png", b"\x89PNG") == "data:image/png;base64,iVBORw=="
    assert file_text("a.html", "text/html", b"<p>Hello</p><script>x</script>") == "Hello"
    assert file_text("a.py", "text/x-python", b"\xef\xbb\xbfx = 1\n") == "x = 1\n"
    for content in (b"\xff\xfe\x00x", b"a\0b"):
        with pytest.raises(ServiceError, match="is not UTF-8 text"):
            file_text("a.bin", "application/octet-stream", content)
    with pytest.raises(ServiceError, match="cannot be read"):
        file_text("a.docx", "", b"no zip")
