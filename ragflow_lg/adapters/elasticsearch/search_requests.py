"""The bodies of the requests that RAGFlow sends to Elasticsearch.

Source: RAGFlow's ``rag/nlp/search.py`` and ``rag/utils/es_conn.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from ragflow_lg.adapters.elasticsearch.text_query import TextQuery

__all__ = [
    "MAX_CANDIDATES",
    "SOURCE",
    "Body",
    "Scope",
    "candidates_request",
    "chunks_request",
    "filtered_request",
    "metadata_request",
    "vector_field",
    "vectors_request",
]

Body: TypeAlias = dict[str, Any]
"""A body of JSON."""

MAX_CANDIDATES = 10_000
"""More neighbours, or hits, Elasticsearch does not give at once."""

FIELDS = (
    "title_tks^10",
    "title_sm_tks^5",
    "important_kwd^30",
    "important_tks^20",
    "question_tks^20",
    "content_ltks^2",
    "content_sm_ltks",
)
SOURCE = [
    "docnm_kwd",
    "content_ltks",
    "kb_id",
    "img_id",
    "title_tks",
    "important_kwd",
    "position_int",
    "doc_id",
    "chunk_order_int",
    "page_num_int",
    "top_int",
    "create_timestamp_flt",
    "knowledge_graph_kwd",
    "question_kwd",
    "question_tks",
    "doc_type_kwd",
    "available_int",
    "content_with_weight",
    "mom_id",
    "pagerank_fea",
    "tag_feas",
]
"""The fields that are asked for."""

TEXT_BOOST = 0.0
"""The words only filter: their share of the first order is 1 less the 1 that RAGFlow's own fusion gives the vectors."""


class Scope(Struct, frozen=True):
    """What is searched: the chunks of some datasets, of some documents if any are named."""

    datasets: tuple[str, ...]
    documents: tuple[str, ...] = ()


def vector_field(length: int) -> str:
    """Name the field of vectors of a length."""
    return f"q_{length}_vec"


def candidates_request(
    query: TextQuery, vector: Sequence[float], scope: Scope, *, top_k: int, size: int, similarity: float
) -> Body:
    """Ask for the chunks whose vectors are next to the question's and that have its words."""
    matching = _matching(query, scope)
    neighbours = min(top_k, MAX_CANDIDATES)
    return {
        "query": matching,
        "knn": {
            "field": vector_field(len(vector)),
            "query_vector": list(vector),
            "k": neighbours,
            "num_candidates": min(2 * neighbours, MAX_CANDIDATES),
            "similarity": similarity,
            "filter": matching,
        },
        "size": size,
        "from": 0,
        "_source": SOURCE,
        "track_total_hits": True,
    }


def filtered_request(scope: Scope, size: int) -> Body:
    """Ask for chunks of the scope, whatever they say."""
    return {
        "query": {"bool": {"filter": _filters(scope)}},
        "size": size,
        "from": 0,
        "_source": SOURCE,
        "track_total_hits": True,
    }


def vectors_request(vector: Sequence[float], ids: Sequence[str], scope: Scope) -> Body:
    """Ask how near some chunks are: ``(1 + cosine) / 2``; those on the far side are left out."""
    chosen = [{"terms": {"_id": list(ids)}}, {"terms": {"kb_id": list(scope.datasets)}}]
    return {
        "knn": {
            "field": vector_field(len(vector)),
            "query_vector": list(vector),
            "k": len(ids),
            "num_candidates": min(2 * len(ids), MAX_CANDIDATES),
            "similarity": 0.0,
            "filter": {"bool": {"filter": chosen}},
        },
        "size": len(ids),
        "_source": False,
    }


def chunks_request(ids: Sequence[str], scope: Scope) -> Body:
    """Ask for chunks by their ids."""
    chosen = [{"terms": {"_id": list(ids)}}, {"terms": {"kb_id": list(scope.datasets)}}]
    return {"query": {"bool": {"filter": chosen}}, "size": len(ids), "_source": SOURCE}


def metadata_request(datasets: Sequence[str]) -> Body:
    """Ask for the metadata of all documents of some datasets."""
    return {
        "query": {"bool": {"filter": [{"terms": {"kb_id": list(datasets)}}]}},
        "size": MAX_CANDIDATES,
        "_source": ["id", "meta_fields"],
        "track_total_hits": True,
    }


def _matching(query: TextQuery, scope: Scope) -> Body:
    found: Body = {"filter": _filters(scope)}
    if query.text:
        text = {
            "fields": list(FIELDS),
            "type": "best_fields",
            "query": query.text,
            "minimum_should_match": f"{round(query.min_match * 100)}%",
            "boost": 1,
        }
        found = {**found, "must": [{"query_string": text}], "boost": TEXT_BOOST}
    return {"bool": found}


def _filters(scope: Scope) -> list[Body]:
    filters: list[Body] = [{"terms": {"kb_id": list(scope.datasets)}}]
    if scope.documents:
        filters.append({"terms": {"doc_id": list(scope.documents)}})
    return [*filters, {"bool": {"must_not": [{"range": {"available_int": {"lt": 1}}}]}}]
