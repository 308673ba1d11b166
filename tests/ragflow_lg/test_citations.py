from __future__ import annotations

from ragflow_lg.citations import CITATION_GUIDELINES, evidence_request, known_citations

REFERENCES = {"chunks": {"61": {"id": "c-rice", "content": "Rice needs water."}, "7": {"id": "x"}}, "doc_aggs": {}}


def test_numbers_that_the_references_have_count() -> None:
    text = "Rice [ID:61][ID: 7], again [ID:61]; made up [ID:9], [7], (ID: 7), [ID:x], [ID:" + "6" * 10_000 + "]"
    assert known_citations(text, REFERENCES) == ["61", "7"]
    assert known_citations(text, {}) == []


def test_what_can_be_cited_is_shown_when_evidence_is_asked_for() -> None:
    asked = evidence_request(REFERENCES)
    assert "Rice needs water." in asked
    assert "[ID:n]" in asked
    assert "[ID:n]" in CITATION_GUIDELINES
