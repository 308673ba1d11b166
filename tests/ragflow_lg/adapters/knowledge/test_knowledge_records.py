from pathlib import Path

import pytest

from ragflow_lg.adapters.knowledge.knowledge_records import (
    add_dataset,
    delete_dataset,
    delete_document,
    derive_id,
    find_dataset,
    iterate_chunks,
    list_datasets,
    list_documents,
    list_places,
    read_chunks,
    set_dims,
    words_table,
)
from ragflow_lg.base.errors import ServiceError
from tests.fakes.embedded import fill, stored_knowledge


def test_names_take_precedence_over_ids(tmp_path: Path) -> None:
    with stored_knowledge(tmp_path / "k.db").database.writing() as connection:
        first = add_dataset(connection, "first", "m")
        second = add_dataset(connection, first.id, "m", id_="other")
        assert find_dataset(connection, first.id) == second
        assert find_dataset(connection, "other") == second
        assert find_dataset(connection, "none") is None
        assert find_dataset(connection, "\udcff") is None
        assert add_dataset(connection, "\udcff", "m", id_="\udcfe").name == "\ufffd"


def test_the_length_of_vectors_is_stored_once(tmp_path: Path) -> None:
    with stored_knowledge(tmp_path / "k.db").database.writing() as connection:
        number = add_dataset(connection, "d", "m").number
        stored = [set_dims(connection, number, dims, model) for dims, model in ((3, "a"), (4, "b"), (3, ""))]
        assert stored == [(3, "a")] * 3


def test_deletions_remove_all_rows_and_tables(tmp_path: Path) -> None:
    knowledge = stored_knowledge(tmp_path / "k.db")
    fill(knowledge, "d", {"a.md": ["one two", "three"], "b.md": ["four"]})
    with knowledge.database.writing() as connection:
        (record,) = list_datasets(connection)
        assert (record.documents, record.chunks) == (2, 3)
        first, _ = list_documents(connection, record.number)
        assert list_places(connection, first.number) == {0, 1}
        assert [c.content for c in iterate_chunks(connection, record.number)] == ["one two", "three", "four"]
        delete_document(connection, record.number, first.number)
        assert [d.name for d in list_documents(connection, record.number)] == ["b.md"]
        assert connection.execute(f"SELECT count(*) FROM {words_table(record.number)}").fetchone() == (1,)
        assert list(read_chunks(connection, [1, 2, 3])) == [3]
        delete_dataset(connection, record.number)
        assert list_datasets(connection) == []
        remaining = connection.execute("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'words%'").fetchone()
        assert remaining == (0,)


def test_different_texts_have_different_ids() -> None:
    assert derive_id("a", "b") != derive_id("ab")
    assert derive_id("a") == derive_id("a")
    assert len(derive_id("\ud800")) == 32


@pytest.mark.parametrize(
    "change",
    [
        "documents SET metadata = '{'",
        "documents SET metadata = '[1]'",
        "chunks SET positions = '1'",
        "chunks SET content = x'ff'",
    ],
)
def test_damaged_values_are_reported(change: str, tmp_path: Path) -> None:
    knowledge = stored_knowledge(tmp_path / "k.db")
    fill(knowledge, "d", {"a.md": ["text"]})
    with knowledge.database.writing() as connection:
        connection.execute(f"UPDATE {change}")
    with pytest.raises(ServiceError, match="damaged"), knowledge.database.reading() as connection:
        assert [*list_documents(connection, 1), *iterate_chunks(connection, 1)]
    knowledge.close()


def test_versions_are_not_repeated(tmp_path: Path) -> None:
    versions: list[int] = []
    for name in ("a.db", "b.db"):
        knowledge = stored_knowledge(tmp_path / name)
        fill(knowledge, "d", {"a.md": ["text"]})
        with knowledge.database.reading() as connection:
            versions += [dataset.version for dataset in list_datasets(connection)]
        knowledge.close()
    assert versions[0] != versions[1]
