import stat
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import RequestError, ServiceError
from ragflow_lg.checkpoints.key_ring import make_key_ring
from ragflow_lg.server.agents.file_store import MAX_READ_BYTES, FileStore, TenantFiles, safe_file_name
from ragflow_lg.server.database.database import Database, open_database
from ragflow_lg.services.encryption import EncryptionKey
from ragflow_lg.services.workers import NoWorkers
from tests.harness.rows import each_row

FILE, OTHER = "a" * 32, "b" * 32


def store(folder: Path, database: Database, tenant: str = "us", files: int = 3, size: int = 10) -> FileStore:
    return FileStore(folder / "files", database, tenant, files, size)


async def test_a_file_is_visible_to_its_tenant_only_whatever_its_name(tmp_path: Path, database: Database) -> None:
    ours, theirs = store(tmp_path, database), store(tmp_path, database, "../us")
    row = await ours.save(FILE, "../../etc/passwd\r\nX: y", "text/html\r\nX: y", b"root", 1, "a1")
    assert (row.name, row.mime_type, row.size_bytes) == ("passwdX: y", "application/octet-stream", 4)
    assert await theirs.find(FILE) is None
    file = await ours.find(FILE)
    assert file is not None
    assert await ours.content(file) == b"root"
    (path,) = [p for p in (tmp_path / "files").rglob("*") if p.is_file()]
    assert (path.name, stat.S_IMODE(path.stat().st_mode)) == (FILE, 0o600)
    folders = [tmp_path / "files", *(p for p in (tmp_path / "files").rglob("*") if p.is_dir())]
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}
    for odd in ("../" + FILE, FILE.upper(), "", "%2e%2e", FILE + "\n"):
        assert await ours.find(odd) is None
    await theirs.delete_of_agent("a1")
    assert path.exists()
    await ours.delete_of_agent("a1")
    assert not path.exists()
    assert await ours.find(FILE) is None


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


@each_row(
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


async def test_uploads_are_read_by_id_and_only_by_their_tenant(tmp_path: Path, database: Database) -> None:
    ours = FileStore(tmp_path / "files", database, "us", 9, 999)
    theirs = FileStore(tmp_path / "files", database, "them", 9, 999)
    await ours.save(FILE, "notes.txt", "text/plain", "grün".encode(), 1, "a1")
    sent: dict[str, Any] = {"id": FILE, "name": "other.pdf", "created_by": "them"}
    assert await TenantFiles(ours, NoWorkers()).read([sent, "inline", {"name": "x", "content": "with it"}]) == [
        "grün",
        "inline",
        "with it",
    ]
    for odd in (sent, {"id": "../../etc/passwd"}):
        with pytest.raises(ServiceError, match="There is no file"):
            await TenantFiles(theirs, NoWorkers()).read([odd])
    for odd, problem in (({"id": 7}, "has no `id`"), ({}, "has no `id`"), (5, "is not a file but of type int")):
        with pytest.raises(ServiceError, match=f"File 2 {problem}. Send the `data` of an upload unchanged"):
            await TenantFiles(ours, NoWorkers()).read([sent, odd])
    next(p for p in (tmp_path / "files").rglob("*") if p.is_file()).unlink()
    with pytest.raises(ServiceError, match="has been deleted"):
        await TenantFiles(ours, NoWorkers()).read([sent])


async def test_a_file_too_large_for_a_run_is_refused(tmp_path: Path, database: Database) -> None:
    ours = FileStore(tmp_path / "files", database, "us", 9, 99 * MAX_READ_BYTES)
    await ours.save(FILE, "big.txt", "text/plain", b"x" * (MAX_READ_BYTES + 1), 1, "a1")
    with pytest.raises(ServiceError, match="10 MiB"):
        await TenantFiles(ours, NoWorkers()).read([{"id": FILE}])


async def test_contents_are_encrypted(tmp_path: Path, database_url: str) -> None:
    old, new = EncryptionKey("old", b"o" * 32), EncryptionKey("new", b"n" * 32)
    async with open_database(database_url) as database:

        def files(*keys: EncryptionKey, tenant: str = "us") -> FileStore:
            return FileStore(tmp_path / "files", database, tenant, 9, 999, keys=make_key_ring(keys))

        plain = await files().save(FILE, "a.txt", "", b"plain secret", 1, "a1")
        row = await files(old).save(OTHER, "b.txt", "", b"secret", 1, "a1")
        assert row.size_bytes == 6
        path = next(path for path in (tmp_path / "files").rglob(OTHER))
        assert b"secret" not in path.read_bytes()
        assert await files(new, old).content(row) == b"secret"
        assert await files(old).content(plain) == b"plain secret"
        for wrong in (files(), files(new)):
            with pytest.raises(ServiceError, match=r"'b.txt' cannot be read\. .*'old'"):
                await wrong.content(row)
        (next(path for path in (tmp_path / "files").rglob(FILE))).write_bytes(path.read_bytes())
        with pytest.raises(ServiceError, match="the data has been changed"):
            await files(old).content(plain)
