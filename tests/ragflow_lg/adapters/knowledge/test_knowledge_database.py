import sqlite3
import threading
from pathlib import Path

import pytest

from ragflow_lg.adapters.knowledge.knowledge_database import KnowledgeDatabase
from ragflow_lg.base.errors import ServiceError


def _write(database: KnowledgeDatabase, *rows: tuple[str, str]) -> None:
    with database.writing() as connection:
        for table, values in rows:
            connection.execute(f"INSERT INTO {table} VALUES ({values})")


def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    database = KnowledgeDatabase(tmp_path / "new" / "k.db")
    assert not database.exists
    with database.writing() as connection:
        connection.execute("INSERT INTO datasets VALUES (1, 'i', 'n', 'm', 0, 1, 0, 0, '')")
    assert {file.stat().st_mode & 0o777 for file in database.path.parent.iterdir()} == {0o600}
    database.close()


def test_a_failed_write_is_rolled_back(tmp_path: Path) -> None:
    database = KnowledgeDatabase(tmp_path / "k.db")
    with pytest.raises(ServiceError, match="no such table"):
        _write(database, ("datasets", "1, 'i', 'n', 'm', 0, 1, 0, 0, ''"), ("none", "1"))
    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM datasets").fetchone() == (0,)


def test_many_threads_can_create_the_file_at_once(tmp_path: Path) -> None:
    database = KnowledgeDatabase(tmp_path / "k.db")
    errors: list[Exception] = []

    def write(number: int) -> None:
        try:
            with database.writing() as connection:
                connection.execute(f"INSERT INTO datasets VALUES ({number}, {number}, {number}, 'm', 0, 1, 0, 0, '')")
        except ServiceError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM datasets").fetchone() == (8,)


@pytest.mark.parametrize(
    ("kind", "problem"),
    [("text", "not a database"), ("other", "different kind of database"), ("newer", "format 99"), ("folder", "open")],
)
def test_other_files_are_rejected_and_not_changed(tmp_path: Path, kind: str, problem: str) -> None:
    path = tmp_path / "k.db"
    if kind == "text":
        path.write_text("hello " * 1000, "utf-8")
    elif kind == "folder":
        path.mkdir()
    else:
        if kind == "newer":
            database = KnowledgeDatabase(path)
            with database.reading():
                pass
            database.close()
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA user_version = 99" if kind == "newer" else "CREATE TABLE mine (a)")
        connection.commit()
        connection.close()
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(ServiceError, match=problem), KnowledgeDatabase(path).reading():
        pass
    assert kind == "folder" or path.read_bytes() == before


def test_a_replaced_file_is_opened_again(tmp_path: Path) -> None:
    database = KnowledgeDatabase(tmp_path / "k.db")
    _write(database, ("datasets", "1, 'i', 'old', 'm', 0, 1, 0, 0, ''"))
    for file in tmp_path.iterdir():
        file.unlink()
    other = KnowledgeDatabase(tmp_path / "k.db")
    _write(other, ("datasets", "1, 'i', 'new', 'm', 0, 1, 0, 0, ''"))
    other.close()
    with database.reading() as connection:
        assert connection.execute("SELECT name FROM datasets").fetchone() == ("new",)
    database.close()


def test_undecodable_texts_are_reported_as_damage(tmp_path: Path) -> None:
    database = KnowledgeDatabase(tmp_path / "k.db")
    with pytest.raises(ServiceError, match="it is damaged"), database.writing():
        b"\xff".decode("utf-8")


def test_an_inaccessible_file_counts_as_existing(tmp_path: Path) -> None:
    (tmp_path / "k.db").symlink_to("k.db")
    database = KnowledgeDatabase(tmp_path / "k.db")
    assert database.exists
    with pytest.raises(ServiceError, match="cannot be used"), database.reading():
        pass
