from __future__ import annotations

from server.kept_run import chunks_of


def test_what_was_cited_is_put_for_people() -> None:
    assert chunks_of({"chunks": {7: {"id": "c"}, 8: None}}) == [{"id": "c", "citation_id": "7"}]
    assert [chunks_of(odd) for odd in (None, {}, {"chunks": []})] == [[], [], []]
