"""The bodies of the requests that RAGFlow sends to Elasticsearch, and the chunks of their results.

Source: RAGFlow's ``rag/nlp/search.py`` and ``rag/utils/es_conn.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, TypeAlias, cast

from msgspec import Struct

from ragflow_lg.base.lenient_values import as_text
from ragflow_lg.base.values import JsonValue
from ragflow_lg.integrations.elasticsearch.ranking import ScoredChunk
from ragflow_lg.integrations.elasticsearch.text_query import TextQuery
from ragflow_lg.services.knowledge import DocumentCount, SearchResult
from ragflow_lg.services.references import Chunk

Body: TypeAlias = dict[str, Any]
"""A JSON body."""

MAX_CANDIDATES = 10_000
"""Elasticsearch's default limit for neighbours and hits in one request."""

FIELDS = (
    "title_tks^10",
    "title_sm_tks^5",
    "important_kwd^30",
    "important_tks^20",
    "question_tks^20",
    "content_ltks^2",
    "content_sm_ltks",
)
_FIELDS = (
    "docnm_kwd content_ltks kb_id img_id title_tks important_kwd position_int doc_id chunk_order_int page_num_int "
    "top_int create_timestamp_flt knowledge_graph_kwd question_kwd question_tks doc_type_kwd available_int "
    "content_with_weight mom_id pagerank_fea tag_feas"
)
SOURCE = _FIELDS.split()
"""The fields that a request returns."""

TEXT_BOOST = 0.0
"""Words only filter the candidates: RAGFlow's fusion gives vectors a weight of 1 here, which leaves 0 for words."""


class Scope(Struct, frozen=True):
    """The chunks to search: all chunks in some datasets, or only the chunks of certain documents."""

    datasets: tuple[str, ...]
    documents: tuple[str, ...] = ()


def vector_field(length: int) -> str:
    """Return the name of the field for vectors of a given length."""
    return f"q_{length}_vec"


def build_candidates_request(
    query: TextQuery, vector: Sequence[float], scope: Scope, *, top_k: int, size: int, similarity: float
) -> Body:
    """Request the chunks that match the question's words and whose vectors are nearest to the question's."""
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
        **_page(size),
    }


def build_filter_request(scope: Scope, size: int) -> Body:
    """Request chunks in the scope, regardless of their content."""
    return {"query": {"bool": {"filter": _filters(scope)}}, **_page(size)}


def _page(size: int) -> Body:
    return {"size": size, "from": 0, "_source": SOURCE, "track_total_hits": True}


def build_vectors_request(vector: Sequence[float], ids: Sequence[str], scope: Scope) -> Body:
    """Request vector scores for some chunks, ``(1 + cosine) / 2``; chunks with a negative cosine are omitted."""
    return {
        "knn": {
            "field": vector_field(len(vector)),
            "query_vector": list(vector),
            "k": len(ids),
            "num_candidates": min(2 * len(ids), MAX_CANDIDATES),
            "similarity": 0.0,
            "filter": _with_ids(ids, scope),
        },
        "size": len(ids),
        "_source": False,
    }


def build_chunks_request(ids: Sequence[str], scope: Scope) -> Body:
    """Request chunks by id."""
    return {"query": _with_ids(ids, scope), "size": len(ids), "_source": SOURCE}


def _with_ids(ids: Sequence[str], scope: Scope) -> Body:
    return {"bool": {"filter": [{"terms": {"_id": list(ids)}}, {"terms": {"kb_id": list(scope.datasets)}}]}}


def build_metadata_request(datasets: Sequence[str]) -> Body:
    """Request the metadata of all documents in some datasets."""
    return {
        "query": {"bool": {"filter": [{"terms": {"kb_id": list(datasets)}}]}},
        "size": MAX_CANDIDATES,
        "_source": ["id", "meta_fields"],
        "track_total_hits": True,
    }


def _matching(query: TextQuery, scope: Scope) -> Body:
    clauses: Body = {"filter": _filters(scope)}
    if query.text:
        text = {
            "fields": list(FIELDS),
            "type": "best_fields",
            "query": query.text,
            "minimum_should_match": f"{round(query.min_match * 100)}%",
            "boost": 1,
        }
        clauses = {**clauses, "must": [{"query_string": text}], "boost": TEXT_BOOST}
    return {"bool": clauses}


def _filters(scope: Scope) -> list[Body]:
    filters: list[Body] = [{"terms": {"kb_id": list(scope.datasets)}}]
    if scope.documents:
        filters.append({"terms": {"doc_id": list(scope.documents)}})
    return [*filters, {"bool": {"must_not": [{"range": {"available_int": {"lt": 1}}}]}}]


def build_search_result(ranked: Sequence[ScoredChunk], top_n: int) -> SearchResult:
    """Return the best chunks, and the number of ranked chunks in each document."""
    counts: dict[str, tuple[str, int]] = {}
    for scored in ranked:
        fields = scored.candidate.fields
        name = as_text(fields.get("docnm_kwd"))
        id_, count = counts.get(name, (as_text(fields.get("doc_id")), 0))
        counts[name] = id_, count + 1
    documents = sorted((DocumentCount(name, *count) for name, count in counts.items()), key=lambda row: -row.chunks)
    return SearchResult(tuple(_chunk(scored) for scored in ranked[:top_n]), tuple(documents), len(ranked))


def _chunk(scored: ScoredChunk) -> dict[str, JsonValue]:
    fields = scored.candidate.fields
    return {
        "chunk_id": scored.candidate.id,
        "content_with_weight": as_text(fields.get("content_with_weight")),
        "doc_id": as_text(fields.get("doc_id")),
        "docnm_kwd": as_text(fields.get("docnm_kwd")),
        "kb_id": as_text(fields.get("kb_id")),
        "important_kwd": fields.get("important_kwd") or [],
        "tag_kwd": fields.get("tag_kwd") or [],
        "image_id": as_text(fields.get("img_id")),
        "similarity": scored.similarity,
        "vector_similarity": scored.vector_similarity,
        "term_similarity": scored.term_similarity,
        "positions": fields.get("position_int") or [],
        "doc_type_kwd": as_text(fields.get("doc_type_kwd")),
        "mom_id": as_text(fields.get("mom_id")),
        "row_id": None,
    }


def list_parent_ids(chunks: Sequence[Chunk]) -> list[str]:
    """Return the ids of the parent chunks, without duplicates."""
    return list(dict.fromkeys(parent for chunk in chunks if (parent := as_text(chunk.get("mom_id")).strip())))


def replace_by_parents(chunks: Sequence[Chunk], parents: Mapping[str, Mapping[str, JsonValue]]) -> tuple[Chunk, ...]:
    """Replace chunks with their parents, each with the mean of its chunks' scores; return the best first.

    Chunks without a parent in ``parents`` are returned unchanged.
    """
    children: dict[str, list[Chunk]] = {}
    result: list[Chunk] = []
    for chunk in chunks:
        parent = as_text(chunk.get("mom_id")).strip()
        if parent in parents:
            children.setdefault(parent, []).append(chunk)
        else:
            result.append(chunk)
    if not children:
        return tuple(chunks)
    result += [_parent(id_, parents[id_], group) for id_, group in children.items()]
    return tuple(sorted(result, key=lambda chunk: -cast("float", chunk["similarity"])))


def _parent(id_: str, fields: Mapping[str, JsonValue], children: Sequence[Chunk]) -> Chunk:
    keywords = [word for child in children for word in cast("list[Any]", child["important_kwd"])]
    scores = ("similarity", "vector_similarity", "term_similarity")
    return {
        **children[0],
        "chunk_id": id_,
        "content_with_weight": as_text(fields.get("content_with_weight")),
        "important_kwd": keywords,
        "mom_id": "",
        **{name: fmean(cast("float", child[name]) for child in children) for name in scores},
    }
