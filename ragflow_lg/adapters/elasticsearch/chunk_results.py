"""Conversion of ranked candidates to the chunks of a search result.

Source: RAGFlow's ``rag/nlp/search.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, cast

from ragflow_lg.adapters.elasticsearch.ranking import ScoredChunk
from ragflow_lg.base.values import JsonValue
from ragflow_lg.services.knowledge import DocumentCount, SearchResult
from ragflow_lg.services.references import Chunk


def build_search_result(ranked: Sequence[ScoredChunk], top_n: int) -> SearchResult:
    """Return the best chunks, and the number of ranked chunks in each document."""
    counts: dict[str, tuple[str, int]] = {}
    for scored in ranked:
        fields = scored.candidate.fields
        name = _text(fields.get("docnm_kwd"))
        id_, count = counts.get(name, (_text(fields.get("doc_id")), 0))
        counts[name] = id_, count + 1
    documents = sorted((DocumentCount(name, *count) for name, count in counts.items()), key=lambda row: -row.chunks)
    return SearchResult(tuple(_chunk(scored) for scored in ranked[:top_n]), tuple(documents), len(ranked))


def _chunk(scored: ScoredChunk) -> dict[str, JsonValue]:
    fields = scored.candidate.fields
    return {
        "chunk_id": scored.candidate.id,
        "content_with_weight": _text(fields.get("content_with_weight")),
        "doc_id": _text(fields.get("doc_id")),
        "docnm_kwd": _text(fields.get("docnm_kwd")),
        "kb_id": _text(fields.get("kb_id")),
        "important_kwd": fields.get("important_kwd") or [],
        "tag_kwd": fields.get("tag_kwd") or [],
        "image_id": _text(fields.get("img_id")),
        "similarity": scored.similarity,
        "vector_similarity": scored.vector_similarity,
        "term_similarity": scored.term_similarity,
        "positions": fields.get("position_int") or [],
        "doc_type_kwd": _text(fields.get("doc_type_kwd")),
        "mom_id": _text(fields.get("mom_id")),
        "row_id": None,
    }


def list_parent_ids(chunks: Sequence[Chunk]) -> list[str]:
    """Return the ids of the parent chunks, without duplicates."""
    return list(dict.fromkeys(parent for chunk in chunks if (parent := _text(chunk.get("mom_id")).strip())))


def replace_by_parents(chunks: Sequence[Chunk], parents: Mapping[str, Mapping[str, JsonValue]]) -> tuple[Chunk, ...]:
    """Replace chunks with their parents, each with the mean of its chunks' scores; return the best first.

    Chunks without a parent in ``parents`` are returned unchanged.
    """
    children: dict[str, list[Chunk]] = {}
    result: list[Chunk] = []
    for chunk in chunks:
        parent = _text(chunk.get("mom_id")).strip()
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
        "content_with_weight": _text(fields.get("content_with_weight")),
        "important_kwd": keywords,
        "mom_id": "",
        **{name: fmean(cast("float", child[name]) for child in children) for name in scores},
    }


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""
