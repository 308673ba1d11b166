import sqlite3
import threading
from pathlib import Path

import pytest

from ragflow_lg.adapters.knowledge.file_chunks import TextChunk
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.integrations.knowledge.knowledge_file import (
    KnowledgeFile,
    NewDocument,
    add_dataset,
    delete_dataset,
    delete_document,
    derive_id,
    find_dataset,
    list_datasets,
    list_documents,
    read_chunks,
    store_document,
    words_table,
)
from tests.fakes.embedded import fill, stored_knowledge
from tests.harness.rows import each_row


def test_only_the_owner_can_read_the_file_that_the_first_write_creates(tmp_path: Path) -> None:
    file = KnowledgeFile(tmp_path / "new" / "k.db")
    with pytest.raises(ServiceError, match="does not exist"), file.reading():
        pass
    assert not file.exists
    with file.writing() as connection:
        add_dataset(connection, "d", "m")
        assert {path.stat().st_mode & 0o777 for path in file.path.parent.iterdir()} == {0o600}


def test_a_failed_write_is_rolled_back(tmp_path: Path) -> None:
    file = KnowledgeFile(tmp_path / "k.db")

    def write() -> None:
        with file.writing() as connection:
            add_dataset(connection, "d", "m")
            connection.execute("INSERT INTO none VALUES (1)")

    with pytest.raises(ServiceError, match="no such table"):
        write()
    with file.reading() as connection:
        assert list_datasets(connection) == []


def test_many_threads_can_create_the_file_at_once(tmp_path: Path) -> None:
    file = KnowledgeFile(tmp_path / "k.db")
    errors: list[Exception] = []

    def write(number: int) -> None:
        try:
            with file.writing() as connection:
                add_dataset(connection, str(number), "m")
        except ServiceError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with file.reading() as connection:
        assert len(list_datasets(connection)) == 8


@each_row(("kind", "problem"), [("text", "not a database"), ("other", "another kind of database"), ("folder", "open"),
                                ("circle", "cannot be used")])  # fmt: skip
def test_other_files_are_rejected_and_not_changed(tmp_path: Path, kind: str, problem: str) -> None:
    path = tmp_path / kind
    if kind == "text":
        path.write_text("hello " * 1000, "utf-8")
    elif kind == "folder":
        path.mkdir()
    elif kind == "circle":
        path.symlink_to(path)
    else:
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE mine (a)")
        connection.close()
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(ServiceError, match=problem), KnowledgeFile(path).reading():
        pass
    assert not before or path.read_bytes() == before


def test_names_take_precedence_over_ids(tmp_path: Path) -> None:
    with KnowledgeFile(tmp_path / "k.db").writing() as connection:
        first = add_dataset(connection, "first", "m")
        second = add_dataset(connection, first.id, "m", id_="other")
        assert find_dataset(connection, first.id) == find_dataset(connection, "other") == second
        assert find_dataset(connection, "none") is None
        assert add_dataset(connection, "\udcff", "m", id_="\udcfe").name == "\ufffd"


def test_deletions_remove_all_rows_and_tables(tmp_path: Path) -> None:
    knowledge = stored_knowledge(tmp_path / "k.db")
    fill(knowledge, "d", {"a.md": ["one two", "three"], "b.md": ["four"]})
    with knowledge.file.writing() as connection:
        (record,) = list_datasets(connection)
        assert (record.documents, record.chunks) == (2, 3)
        assert [c.content for c in read_chunks(connection, "dataset = 1")] == ["one two", "three", "four"]
        delete_document(connection, record.number, "a.md")
        assert [d.name for d in list_documents(connection, record.number)] == ["b.md"]
        assert connection.execute(f"SELECT count(*) FROM {words_table(record.number)}").fetchone() == (1,)
        assert [chunk.number for chunk in read_chunks(connection, "dataset = 1")] == [3]
        delete_dataset(connection, record.number)
        assert list_datasets(connection) == list(read_chunks(connection, "TRUE")) == []
        remaining = connection.execute("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'words%'").fetchone()
        assert remaining == (0,)


def test_vectors_of_another_model_or_number_are_not_stored(tmp_path: Path) -> None:
    chunks = [TextChunk("one", []), TextChunk("two", [])]
    document = NewDocument("a.md", "/a.md", "h", {}, chunks)
    with KnowledgeFile(tmp_path / "k.db").writing() as connection:
        dataset = add_dataset(connection, "d", "m")
        store_document(connection, dataset, document, [[3e30, 4e30], [0, 0]], "a")  # without overflow
        first, second = read_chunks(connection, "TRUE")
        assert first.vector == bytes.fromhex("9a99193f cdcc4c3f")
        assert second.vector == bytes(8)
        store_document(connection, dataset, document, [[1, 2], [3, 4]], "")  # an unknown model
        store_document(connection, dataset, document._replace(name="empty", chunks=[]), (), "b")
        with pytest.raises(ServiceError, match=r"'d' has vectors of the embedding model 'a' with 2 .* those of 'b'"):
            store_document(connection, dataset, document, [[1, 2], [3, 4]], "b")
        with pytest.raises(ServiceError, match=r"with 2 numbers.*'a' with 3"):
            store_document(connection, dataset, document, [[1, 2, 3], [3, 4, 5]], "a")
        with pytest.raises(ServiceError, match="1 vectors for the 2 chunks"):
            store_document(connection, dataset, document, [[1, 2, 3, 4]], "a")
        delete_dataset(connection, dataset.number)
        with pytest.raises(ServiceError, match=r"'d' has been deleted\."):
            store_document(connection, dataset, document, [[1, 2], [3, 4]], "a")


@each_row(
    "change",
    [
        "documents SET metadata = '{'",
        "documents SET metadata = '[1]'",
        "chunks SET positions = '1'",
        "chunks SET content = x'ff'",
    ],
)
def test_damaged_values_are_reported(change: str, tmp_path: Path) -> None:
    knowledge = stored_knowledge(tmp_path / f"{derive_id(change)}.db")
    fill(knowledge, "d", {"a.md": ["text"]})
    with knowledge.file.writing() as connection:
        connection.execute(f"UPDATE {change}")
    with pytest.raises(ServiceError, match="damaged"), knowledge.file.reading() as connection:
        assert [*list_documents(connection, 1), *read_chunks(connection, "dataset = 1")]
