from typing import Any

import pytest

from ragflow_lg.adapters.elasticsearch.chunk_results import build_search_result, list_parent_ids, replace_by_parents
from ragflow_lg.adapters.elasticsearch.ranking import Candidate, ScoredChunk


def scored_chunk(id_: str, similarity: float, document: str = "a.md", **fields: Any) -> ScoredChunk:
    fields = {"docnm_kwd": document, "doc_id": f"doc-{document}", "content_with_weight": f"text of {id_}", **fields}
    return ScoredChunk(Candidate(id_, fields), similarity, similarity / 2, similarity / 4)


def test_the_best_chunks_are_returned_and_all_are_counted() -> None:
    result = build_search_result(
        [scored_chunk("1", 0.9), scored_chunk("2", 0.8, "b.md"), scored_chunk("3", 0.7, "b.md")], 2
    )
    assert [chunk["chunk_id"] for chunk in result.chunks] == ["1", "2"]
    assert [tuple(document) for document in result.documents] == [("b.md", "doc-b.md", 2), ("a.md", "doc-a.md", 1)]
    assert result.total == 3


def test_chunks_have_the_fields_of_ragflow() -> None:
    (chunk,) = build_search_result(
        [scored_chunk("1", 0.8, kb_id="k", img_id="i", position_int=[[1, 2, 3, 4, 5]], odd=1)], 8
    ).chunks
    assert chunk == {
        "chunk_id": "1",
        "content_with_weight": "text of 1",
        "doc_id": "doc-a.md",
        "docnm_kwd": "a.md",
        "kb_id": "k",
        "important_kwd": [],
        "tag_kwd": [],
        "image_id": "i",
        "similarity": 0.8,
        "vector_similarity": 0.2,
        "term_similarity": 0.4,
        "positions": [[1, 2, 3, 4, 5]],
        "doc_type_kwd": "",
        "mom_id": "",
        "row_id": None,
    }


def test_a_parent_replaces_its_chunks() -> None:
    ranked = [
        scored_chunk("1", 0.9, mom_id="p", important_kwd=["x"]),
        scored_chunk("2", 0.6),
        scored_chunk("3", 0.1, mom_id="p", important_kwd=["y"]),
        scored_chunk("4", 0.05, mom_id="lost"),
        scored_chunk("5", 0.04, mom_id=" "),
    ]
    chunks = build_search_result(ranked, 8).chunks
    assert list_parent_ids(chunks) == ["p", "lost"]
    merged = replace_by_parents(chunks, {"p": {"content_with_weight": "whole"}})
    assert [(chunk["chunk_id"], chunk["similarity"]) for chunk in merged] == [
        ("2", 0.6),
        ("p", 0.5),
        ("4", 0.05),
        ("5", 0.04),
    ]
    assert merged[1]["content_with_weight"] == "whole"
    assert merged[1]["important_kwd"] == ["x", "y"]
    assert merged[1]["term_similarity"] == pytest.approx(0.25)
    assert replace_by_parents(chunks, {}) == chunks
