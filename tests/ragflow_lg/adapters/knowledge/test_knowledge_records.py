from __future__ import annotations

from pathlib import Path

import pytest

from ragflow_lg.adapters.knowledge.knowledge_records import (
    add_dataset,
    all_chunks,
    chunks_by_number,
    datasets_in,
    delete_dataset,
    delete_document,
    documents_of,
    find_dataset,
    id_of,
    places_of,
    set_dims,
    words_table,
)
from ragflow_lg.base.errors import ServiceError
from tests.fakes.embedded import fill, stored_knowledge


def test_a_name_goes_before_an_id(tmp_path: Path) -> None:
    with stored_knowledge(tmp_path / "k.db").database.writing() as connection:
        first = add_dataset(connection, "first", "m")
        second = add_dataset(connection, first.id, "m", id_="other")
        assert find_dataset(connection, first.id) == second
        assert find_dataset(connection, "other") == second
        assert find_dataset(connection, "none") is None
        assert find_dataset(connection, "\udcff") is None
        assert add_dataset(connection, "\udcff", "m", id_="\udcfe").name == "?"


def test_the_length_of_vectors_is_kept_once_it_is_known(tmp_path: Path) -> None:
    with stored_knowledge(tmp_path / "k.db").database.writing() as connection:
        number = add_dataset(connection, "d", "m").number
        assert [set_dims(connection, number, dims) for dims in (3, 4, 3)] == [3, 3, 3]


def test_what_is_deleted_is_gone_everywhere(tmp_path: Path) -> None:
    knowledge = stored_knowledge(tmp_path / "k.db")
    fill(knowledge, "d", {"a.md": ["one two", "three"], "b.md": ["four"]})
    with knowledge.database.writing() as connection:
        (record,) = datasets_in(connection)
        assert (record.documents, record.chunks) == (2, 3)
        first, _ = documents_of(connection, record.number)
        assert places_of(connection, first.number) == {0, 1}
        assert [c.content for c in all_chunks(connection, record.number)] == ["one two", "three", "four"]
        delete_document(connection, record.number, first.number)
        assert [d.name for d in documents_of(connection, record.number)] == ["b.md"]
        assert connection.execute(f"SELECT count(*) FROM {words_table(record.number)}").fetchone() == (1,)
        assert list(chunks_by_number(connection, [1, 2, 3])) == [3]
        delete_dataset(connection, record.number)
        assert datasets_in(connection) == []
        left = connection.execute("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'words%'").fetchone()
        assert left == (0,)


def test_ids_tell_texts_apart() -> None:
    assert id_of("a", "b") != id_of("ab")
    assert id_of("a") == id_of("a")
    assert len(id_of("\ud800")) == 32


@pytest.mark.parametrize(
    "change",
    [
        "documents SET metadata = '{'",
        "documents SET metadata = '[1]'",
        "chunks SET positions = '1'",
        "chunks SET content = x'ff'",
    ],
)
def test_what_somebody_has_damaged_says_so(change: str, tmp_path: Path) -> None:
    knowledge = stored_knowledge(tmp_path / "k.db")
    fill(knowledge, "d", {"a.md": ["text"]})
    with knowledge.database.writing() as connection:
        connection.execute(f"UPDATE {change}")
    with pytest.raises(ServiceError, match="damaged"), knowledge.database.reading() as connection:
        assert [*documents_of(connection, 1), *all_chunks(connection, 1)]
    knowledge.close()


def test_versions_do_not_come_again(tmp_path: Path) -> None:
    versions: list[int] = []
    for name in ("a.db", "b.db"):
        knowledge = stored_knowledge(tmp_path / name)
        fill(knowledge, "d", {"a.md": ["text"]})
        with knowledge.database.reading() as connection:
            versions += [dataset.version for dataset in datasets_in(connection)]
        knowledge.close()
    assert versions[0] != versions[1]
