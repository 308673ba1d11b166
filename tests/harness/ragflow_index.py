"""Creating indexes with RAGFlow's mapping and filling them with chunks."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

SIMILARITY = """
double rarity = Math.log(1 + (field.docCount - term.docFreq + 0.5) / (term.docFreq + 0.5));
return query.boost * rarity / Math.log(1 + (field.docCount - 0.5) / 1.5) * Math.min(doc.freq, 1);
"""
"""Boost × normalised idf × min(freq, 1), as a Painless script."""

_RANK_FEATURE = {"pagerank_fea": {"type": "rank_feature"}, "tag_feas": {"type": "rank_features"}}
_PLAIN_FEATURE = {"pagerank_fea": {"type": "float"}, "tag_feas": {"type": "object", "enabled": False}}
"""For a server without the module mapper-extras. Features are read but not used in the search."""
_VECTOR = {"type": "dense_vector", "index": True, "similarity": "cosine", "index_options": {"type": "hnsw"}}
"""The default up to Elasticsearch 8.13. Later versions quantise vectors by default (``int8_hnsw``)."""


def build_mapping(dimensions: Sequence[int], *, has_rank_features: bool = True) -> dict[str, Any]:
    """Return settings and mapping of an index of chunks with vectors of these lengths."""
    coarse = {"type": "text", "analyzer": "whitespace", "similarity": "scripted_sim"}
    long_text = {"type": "text", "analyzer": "whitespace"}
    keyword = {"type": "keyword", "similarity": "boolean"}
    properties: dict[str, Any] = {
        **dict.fromkeys(("title_tks", "title_sm_tks", "important_tks", "question_tks"), coarse),
        **dict.fromkeys(("content_ltks", "content_sm_ltks"), long_text),
        **dict.fromkeys(("id", "kb_id", "doc_id", "docnm_kwd", "important_kwd", "question_kwd"), keyword),
        **dict.fromkeys(("img_id", "mom_id", "doc_type_kwd", "knowledge_graph_kwd", "tag_kwd", "toc_kwd"), keyword),
        **{name: {"type": "integer"} for name in ("available_int", "position_int", "page_num_int", "top_int")},
        "chunk_order_int": {"type": "integer"},
        "create_timestamp_flt": {"type": "float"},
        "content_with_weight": {"type": "text", "index": False},
        **(_RANK_FEATURE if has_rank_features else _PLAIN_FEATURE),
        **{f"q_{length}_vec": {**_VECTOR, "dims": length} for length in dimensions},
    }
    similarity = {"scripted_sim": {"type": "scripted", "script": {"source": SIMILARITY}}}
    settings = {"index": {"number_of_shards": 2, "number_of_replicas": 0, "similarity": similarity}}
    return {"settings": settings, "mappings": {"dynamic": False, "properties": properties}}


METADATA_MAPPING: Mapping[str, Any] = {
    "settings": {"index": {"number_of_shards": 1, "number_of_replicas": 0}},
    "mappings": {
        "properties": {"id": {"type": "keyword"}, "kb_id": {"type": "keyword"}, "meta_fields": {"type": "object"}}
    },
}


async def create_index(url: str, index: str, dimensions: Sequence[int], chunks: Sequence[Mapping[str, Any]]) -> None:
    """Create or replace an index of chunks; every chunk has an ``id``."""
    async with httpx.AsyncClient(base_url=url, timeout=30, verify=False) as client:
        await client.delete(f"/{index}", params={"ignore_unavailable": "true"})
        answer = await client.put(f"/{index}", json=build_mapping(dimensions))
        if answer.status_code == 400 and "rank_feature" in answer.text:
            answer = await client.put(f"/{index}", json=build_mapping(dimensions, has_rank_features=False))
        answer.raise_for_status()
        await _fill(client, index, chunks)


async def create_metadata_index(url: str, index: str, documents: Sequence[Mapping[str, Any]]) -> None:
    """Create or replace an index of document metadata."""
    async with httpx.AsyncClient(base_url=url, timeout=30, verify=False) as client:
        await client.delete(f"/{index}", params={"ignore_unavailable": "true"})
        (await client.put(f"/{index}", json=METADATA_MAPPING)).raise_for_status()
        await _fill(client, index, documents)


async def _fill(client: httpx.AsyncClient, index: str, documents: Sequence[Mapping[str, Any]]) -> None:
    lines: list[str] = []
    for document in documents:
        lines += [json.dumps({"index": {"_index": index, "_id": document["id"]}}), json.dumps(document)]
    answer = await client.post(
        "/_bulk",
        params={"refresh": "true"},
        content="\n".join(lines) + "\n",
        headers={"content-type": "application/x-ndjson"},
    )
    answer.raise_for_status()
    assert answer.json()["errors"] is False, answer.text
