from typing import Any

from ragflow_lg.server.database.turn_writer import read_chunks, read_reference, write_reference

ODD: list[Any] = [None, {}, {"chunks": []}, {"chunks": {7: None}}]


def test_the_sources_of_an_answer_are_stored_in_ragflows_shape() -> None:
    text = write_reference({"chunks": {7: {"id": "c"}, 8: {"id": "d"}, 9: None}, "doc_aggs": {"a.md": {"count": 1}}})
    assert read_reference(text) == {"chunks": {"7": {"id": "c"}, "8": {"id": "d"}}, "doc_aggs": {"a.md": {"count": 1}}}
    assert read_chunks(text) == [{"id": "c", "citation_id": "7"}, {"id": "d", "citation_id": "8"}]


def test_an_answer_without_sources_has_an_empty_reference() -> None:
    assert [write_reference(each) for each in ODD] == [""] * len(ODD)
    assert read_reference("") == {"chunks": {}, "doc_aggs": {}}
    assert read_chunks("") == []
