"""Requests are compared with the files of ``tests/fixtures/elasticsearch``."""

import json
from typing import Any

import pytest

from ragflow_lg.adapters.elasticsearch.connection import SearchHit
from ragflow_lg.adapters.elasticsearch.ranking import ScoredChunk
from ragflow_lg.adapters.elasticsearch.search_requests import (
    Body,
    Scope,
    build_candidates_request,
    build_chunks_request,
    build_filter_request,
    build_metadata_request,
    build_search_result,
    build_vectors_request,
)
from ragflow_lg.adapters.elasticsearch.term_weights import TermWeights
from ragflow_lg.adapters.elasticsearch.text_query import TextQuery, build_text_query
from tests.conftest import FIXTURES
from tests.fakes.recorded_tokenizer import RecordedTokenizer
from tests.harness.rows import each_row

GUIDE = Scope(("kb-guide", "kb-letters"))
ONE_DOCUMENT = Scope(("kb-guide",), ("doc-bikes.md",))
VECTOR = [0.5, 0.25, -0.125, 0.0]
WEIGHTS = TermWeights(RecordedTokenizer())


def build_request(question: str, scope: Scope) -> Body:
    query = build_text_query(question, WEIGHTS)
    return build_candidates_request(query, VECTOR, scope, top_k=1024, size=64, similarity=0.2)


REQUESTS: dict[str, Body] = {
    "candidates_latin": build_request("how does elasticsearch hybrid search ranking work today", GUIDE),
    "candidates_chinese": build_request("请问如何使用检索组件", ONE_DOCUMENT),
    "candidates_without_words": build_request("?!", GUIDE),
    "filtered": build_filter_request(ONE_DOCUMENT, 64),
    "vectors": build_vectors_request(VECTOR, ["c1", "c2"], GUIDE),
    "chunks": build_chunks_request(["parent"], GUIDE),
    "metadata": build_metadata_request(["kb-guide"]),
}


@each_row("name", REQUESTS)
def test_requests_equal_their_files(name: str) -> None:
    expected: dict[str, Any] = json.loads((FIXTURES / "elasticsearch" / f"{name}.json").read_text(encoding="utf-8"))
    assert REQUESTS[name] == expected


@pytest.mark.parametrize(
    ("top_k", "k", "candidates"), [(8, 8, 16), (1024, 1024, 2048), (6000, 6000, 10_000), (99_999, 10_000, 10_000)]
)
def test_neighbours_do_not_exceed_the_limit_of_the_server(top_k: int, k: int, candidates: int) -> None:
    body = build_candidates_request(TextQuery("a", ("a",)), VECTOR, GUIDE, top_k=top_k, size=64, similarity=0.2)
    assert (body["knn"]["k"], body["knn"]["num_candidates"]) == (k, candidates)


def scored_chunk(id_: str, similarity: float, document: str = "a.md", **fields: Any) -> ScoredChunk:
    fields = {"docnm_kwd": document, "doc_id": f"doc-{document}", "content_with_weight": f"text of {id_}", **fields}
    return ScoredChunk(SearchHit(id_, 0.0, fields), similarity, similarity / 2, similarity / 4)


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
