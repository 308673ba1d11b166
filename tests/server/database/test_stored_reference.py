from typing import Any

from ragflow_lg.server.database.stored_reference import (
    add_sources,
    empty_reference,
    read_chunks,
    read_reference,
    write_reference,
)

ODD: list[Any] = [None, {}, {"chunks": []}, {"chunks": {7: None}}]


def test_the_sources_of_all_messages_are_stored_in_ragflows_shape() -> None:
    reference = empty_reference()
    for more in (*ODD, {"chunks": {7: {"id": "c"}}}, {"chunks": {8: {"id": "d"}}, "doc_aggs": {"a.md": {"count": 1}}}):
        add_sources(reference, more)
    text = write_reference(reference)
    assert read_reference(text) == {"chunks": {"7": {"id": "c"}, "8": {"id": "d"}}, "doc_aggs": {"a.md": {"count": 1}}}
    assert read_chunks(text) == [{"id": "c", "citation_id": "7"}, {"id": "d", "citation_id": "8"}]


def test_an_answer_without_sources_has_an_empty_reference() -> None:
    assert write_reference(empty_reference()) == ""
    assert read_reference("") == {"chunks": {}, "doc_aggs": {}}
    assert read_chunks("") == []
