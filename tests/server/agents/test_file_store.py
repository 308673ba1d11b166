import stat
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.workers.worker_pool import WorkerPool
from ragflow_lg.base.errors import RequestError, ServiceError
from ragflow_lg.server.agents.file_store import (
    MAX_READ_BYTES,
    FileStore,
    TenantFiles,
    document_text,
    file_text,
    safe_file_name,
)
from ragflow_lg.server.database.database import Database, open_database
from ragflow_lg.services.workers import NoWorkers

FILE, OTHER = "a" * 32, "b" * 32


def store(folder: Path, database: Database, tenant: str = "us", files: int = 3, size: int = 10) -> FileStore:
    return FileStore(folder / "files", database, tenant, files, size)


async def test_a_file_is_visible_to_its_tenant_only_whatever_its_name(tmp_path: Path, database_url: str) -> None:
    async with open_database(database_url) as database:
        ours, theirs = store(tmp_path, database), store(tmp_path, database, "../us")
        row = await ours.save(FILE, "../../etc/passwd\r\nX: y", "text/html\r\nX: y", b"root", 1, "a1")
        assert (row.name, row.mime_type, row.size_bytes) == ("passwdX: y", "application/octet-stream", 4)
        assert await theirs.find(FILE) is None
        file = await ours.find(FILE)
        assert file is not None
        assert await ours.content(file) == b"root"
        (path,) = [p for p in (tmp_path / "files").rglob("*") if p.is_file()]
        assert (path.name, stat.S_IMODE(path.stat().st_mode)) == (FILE, 0o600)
        for odd in ("../" + FILE, FILE.upper(), "", "%2e%2e", FILE + "\n"):
            assert await ours.find(odd) is None
        await theirs.delete_of_agent("a1")
        assert path.exists()
        await ours.delete_of_agent("a1")
        assert not path.exists()
        assert await ours.find(FILE) is None


async def test_a_tenant_cannot_exceed_its_limits(tmp_path: Path, database_url: str) -> None:
    async with open_database(database_url) as database:
        ours = store(tmp_path, database, files=2, size=10)
        await ours.save(FILE, "a", "", b"123456", 1, "a1")
        with pytest.raises(RequestError, match="may not exceed 10 bytes"):
            await ours.save(OTHER, "b", "", b"12345", 1, "a1")
        assert [p.name for p in (tmp_path / "files").rglob("*") if p.is_file()] == [FILE]
        await ours.save(OTHER, "b", "", b"1", 1, "a1")
        with pytest.raises(RequestError, match="limit of 2 files is reached"):
            await ours.save("c" * 32, "c", "", b"", 1, "a1")
        await store(tmp_path, database, "them").save("d" * 32, "d", "", b"1234", 1, "a2")


async def test_an_unwritable_folder_and_missing_bytes_are_reported(tmp_path: Path, database_url: str) -> None:
    (tmp_path / "files").write_text("no folder")
    async with open_database(database_url) as database:
        with pytest.raises(ServiceError, match="cannot be stored"):
            await store(tmp_path, database).save(FILE, "a", "", b"1", 1, "a1")
        (tmp_path / "files").unlink()
        ours = store(tmp_path, database)
        row = await ours.save(FILE, "a", "", b"1", 1, "a1")
        next(p for p in (tmp_path / "files").rglob("*") if p.is_file()).unlink()
        with pytest.raises(RequestError, match="document not found"):
            await ours.content(row)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("notes.txt", "notes.txt"),
        ("a/b\\c.txt", "c.txt"),
        ("...", "file"),
        ("", "file"),
        ("\u202egpj.exe", "gpj.exe"),
        ("\ud800x", "x"),
        ("x" * 300 + ".txt", "x" * 251 + ".txt"),
    ],
)
def test_names_are_safe(path: str, name: str) -> None:
    assert safe_file_name(path) == name


async def test_uploads_are_read_by_id_and_only_by_their_tenant(tmp_path: Path, database_url: str) -> None:
    async with open_database(database_url) as database:
        ours = FileStore(tmp_path / "files", database, "us", 9, 999)
        theirs = FileStore(tmp_path / "files", database, "them", 9, 999)
        await ours.save(FILE, "notes.txt", "text/plain", "grün".encode(), 1, "a1")
        sent: dict[str, Any] = {"id": FILE, "name": "other.pdf", "created_by": "them"}
        assert await TenantFiles(ours, NoWorkers()).read([sent, "inline", {"name": "x", "content": "with it"}], "") == [
            "grün",
            "inline",
            "with it",
        ]
        for odd in (sent, {"id": "../../etc/passwd"}, {"id": 7}, {}):
            with pytest.raises(ServiceError):
                await TenantFiles(theirs, NoWorkers()).read([odd], "")
        next(p for p in (tmp_path / "files").rglob("*") if p.is_file()).unlink()
        with pytest.raises(ServiceError, match="has been deleted"):
            await TenantFiles(ours, NoWorkers()).read([sent], "")


async def test_a_file_too_large_for_a_run_is_refused(tmp_path: Path, database_url: str) -> None:
    async with open_database(database_url) as database:
        ours = FileStore(tmp_path / "files", database, "us", 9, 99 * MAX_READ_BYTES)
        await ours.save(FILE, "big.txt", "text/plain", b"x" * (MAX_READ_BYTES + 1), 1, "a1")
        with pytest.raises(ServiceError, match="10 MiB"):
            await TenantFiles(ours, NoWorkers()).read([{"id": FILE}], "")


async def test_pictures_become_data_uris_and_pages_text() -> None:
    here = NoWorkers()
    assert await file_text(here, "a.png", "image/png", b"\x89PNG") == "data:image/png;base64,iVBORw=="
    assert await file_text(here, "a.html", "text/html", b"<p>Hello</p><script>x</script>") == "Hello"
    assert await file_text(here, "a.py", "text/x-python", b"\xef\xbb\xbfx = 1\n") == "x = 1\n"
    for content in (b"\xff\xfe\x00x", b"a\0b"):
        with pytest.raises(ServiceError, match="is not UTF-8 text"):
            await file_text(here, "a.bin", "application/octet-stream", content)
    with pytest.raises(ServiceError, match="cannot be read"):
        await file_text(here, "a.docx", "", b"no zip")


async def test_a_document_that_takes_too_long_is_stopped_and_others_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = WorkerPool(size=2)
    begin = time.monotonic()
    monkeypatch.setattr(document_text, "seconds", 1.0)
    with pytest.raises(ServiceError, match=r"'slow\.pdf' cannot be read: Reading the file did not finish within 1 s"):
        await file_text(pool, "slow.pdf", "application/pdf", pdf_with_operators(200_000))

    assert time.monotonic() - begin < 10
    monkeypatch.undo()
    assert "Hello" in await file_text(pool, "fast.pdf", "application/pdf", pdf_with_operators(1))
    await pool.aclose()


def pdf_with_operators(count: int) -> bytes:
    """Return a PDF with one page that shows a text many times. Compressed, 200,000 times need 11 KB."""
    stream = zlib.compress(b"BT /F1 12 Tf 50 50 Td " + b"(Hello) Tj T* " * count + b"ET", 9)
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    content, places = b"%PDF-1.4\n", list[int]()
    for number, text in enumerate(objects, 1):
        places.append(len(content))
        content += b"%d 0 obj%s endobj\n" % (number, text)
    table = b"xref\n0 6\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % place for place in places)
    return content + table + b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % len(content)
