from __future__ import annotations

from typing import Any

import pytest

from ragflow_lg.adapters.elasticsearch.chunk_results import chunks_of, parent_ids, with_parents
from ragflow_lg.adapters.elasticsearch.ranking import Candidate, Scored


def scored(id_: str, similarity: float, document: str = "a.md", **fields: Any) -> Scored:
    fields = {"docnm_kwd": document, "doc_id": f"doc-{document}", "content_with_weight": f"text of {id_}", **fields}
    return Scored(Candidate(id_, fields), similarity, similarity / 2, similarity / 4)


def test_the_best_are_given_and_all_are_counted() -> None:
    found = chunks_of([scored("1", 0.9), scored("2", 0.8, "b.md"), scored("3", 0.7, "b.md")], 2)
    assert [chunk["chunk_id"] for chunk in found.chunks] == ["1", "2"]
    assert [tuple(document) for document in found.documents] == [("b.md", "doc-b.md", 2), ("a.md", "doc-a.md", 1)]
    assert found.total == 3


def test_a_chunk_has_ragflows_fields() -> None:
    (chunk,) = chunks_of([scored("1", 0.8, kb_id="k", img_id="i", position_int=[[1, 2, 3, 4, 5]], odd=1)], 8).chunks
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


def test_a_parent_takes_the_place_of_its_chunks() -> None:
    ranked = [
        scored("1", 0.9, mom_id="p", important_kwd=["x"]),
        scored("2", 0.6),
        scored("3", 0.1, mom_id="p", important_kwd=["y"]),
        scored("4", 0.05, mom_id="lost"),
        scored("5", 0.04, mom_id=" "),
    ]
    chunks = chunks_of(ranked, 8).chunks
    assert parent_ids(chunks) == ["p", "lost"]
    found = with_parents(chunks, {"p": {"content_with_weight": "whole"}})
    assert [(chunk["chunk_id"], chunk["similarity"]) for chunk in found] == [
        ("2", 0.6),
        ("p", 0.5),
        ("4", 0.05),
        ("5", 0.04),
    ]
    assert found[1]["content_with_weight"] == "whole"
    assert found[1]["important_kwd"] == ["x", "y"]
    assert found[1]["term_similarity"] == pytest.approx(0.25)
    assert with_parents(chunks, {}) == chunks
