"""Citable sources: numbered chunks from search results, and their documents.

Source: RAGFlow's ``agent/tools/base.py`` and ``rag/prompts/generator.py``.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from ragflow_lg.base.tokens import estimate_tokens
from ragflow_lg.base.values import JsonValue, to_text

logger = logging.getLogger(__name__)

Chunk: TypeAlias = Mapping[str, JsonValue]
"""A piece of a document in a search result. `add_chunks` accepts all spellings of its field names."""

References: TypeAlias = dict[str, dict[str, Any]]
"""``{"chunks": {number: chunk}, "doc_aggs": {document name: …}}``, as sent in ``message_end``."""

MAX_CONTENT_CHARS = 10_000
MAX_CITED_CHARS = 32_768
"""Maximum length of a chunk's content in the state of a run."""

MAX_DOCUMENTS = 1000
KNOWLEDGE_TOKENS = 200_000
BUDGET_SHARE = 0.97
_SHOWN_PAIRS = 3
_SHOWN_CHARS = 200
_BUCKETS = 500
_ID_BUCKETS = 10**8
_MAX_NUMBER = 10**9
_INLINE_IMAGE = re.compile(r"!?\[[a-z]+\]\(data:image/png;base64,[ 0-9A-Za-z/_=+-]+\)")
_LINE_BREAKS = re.compile(r"[\r\n]+")
_NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("chunk_id", "id"),
    "content": ("content", "content_with_weight"),
    "document_id": ("doc_id", "document_id"),
    "document_name": ("docnm_kwd", "document_name"),
    "dataset_id": ("kb_id", "dataset_id"),
    "image_id": ("image_id", "img_id"),
    "positions": ("positions", "position_int"),
    "url": ("url",),
    "similarity": ("similarity",),
    "vector_similarity": ("vector_similarity",),
    "term_similarity": ("term_similarity",),
    "row_id": ("row_id",),
    "doc_type": ("doc_type_kwd", "doc_type"),
    "document_metadata": ("document_metadata",),
}


def _hash(text: str, buckets: int) -> int:
    return int.from_bytes(hashlib.sha1(text.encode("utf-8", "replace"), usedforsecurity=False).digest()) % buckets


def citation_number(chunk_id: str) -> int:
    """Return the number by which a chunk is cited. Two chunks may have the same number.

    >>> citation_number("45743181"), citation_number("chunk-1")
    (386, 336)
    """
    return _hash(chunk_id, _BUCKETS)


NUMBER_FIELD = "citation_number"
"""Chunk field with the number under which a chunk is cited, if that is not the usual one."""


def number_of(chunk: Chunk) -> int:
    """Return the number by which a chunk is cited: its own, or else the one computed from its id.

    >>> number_of({"id": "chunk-1"}), number_of({"id": "chunk-1", "citation_number": 7})
    (336, 7)
    """
    own = chunk.get(NUMBER_FIELD)
    if type(own) is int and 0 <= own < _MAX_NUMBER:
        return own
    return citation_number(to_text(chunk.get("id") or chunk.get("chunk_id")))


def hash_text(text: str) -> str:
    """Return an id for a chunk that has none.

    >>> hash_text("hello")
    '45743181'
    """
    return str(_hash(text, _ID_BUCKETS))


def build_chunks(rows: Iterable[tuple[str, str, str, float]]) -> list[dict[str, JsonValue]]:
    """Build chunks from search results, given the title, URL, content and score of each.

    Inline images are removed, and long contents are truncated.
    """
    chunks: list[dict[str, JsonValue]] = []
    for title, url, content, score in rows:
        text = _INLINE_IMAGE.sub("", content)[:MAX_CONTENT_CHARS]
        if text:
            id_ = hash_text(text)
            row = {"chunk_id": id_, "content": text, "doc_id": id_, "docnm_kwd": title, "similarity": score, "url": url}
            chunks.append(dict(row))
    return chunks


def knowledge_text(chunks: Sequence[Chunk], max_tokens: int = KNOWLEDGE_TOKENS) -> str:
    """Render chunks for a model, each under its number. The first chunk that exceeds the budget is the last one."""
    blocks: list[str] = []
    used = 0
    for chunk in chunks:
        content = to_text(_first(chunk, _NAMES["content"]) or "")
        blocks.append("\n".join(["", *_head_lines(chunk), "└── Content:", content]))
        used += estimate_tokens(content)
        if used > BUDGET_SHARE * max_tokens:
            logger.warning("Of %d chunks, %d fit into %d tokens.", len(chunks), len(blocks), max_tokens)
            break
    return "\n".join(blocks)


def _head_lines(chunk: Chunk) -> Iterable[str]:
    metadata = chunk.get("document_metadata")
    yield f"ID: {number_of(chunk)}"
    fields: list[tuple[str, JsonValue]] = [
        ("Title", _first(chunk, _NAMES["document_name"])),
        ("URL", chunk.get("url")),
        *(cast("Mapping[str, Any]", metadata).items() if isinstance(metadata, Mapping) else ()),
    ]
    for name, value in fields:
        text = _LINE_BREAKS.sub(" ", to_text(value)) if value is not None else ""
        if text:
            yield f"├── {name}: {text}"


def add_chunks(
    references: References, chunks: Sequence[Chunk], documents: Sequence[Mapping[str, JsonValue]] | None = None
) -> References:
    """Return references with chunks and their documents added. If two chunks have the same number, the first is kept.

    ``documents`` are ``{doc_name, doc_id, count}`` maps. The default is the chunks' documents, counting each chunk
    once.
    """
    more: References = {"chunks": {}, "doc_aggs": {}}
    collisions: list[str] = []
    for row in chunks:
        chunk = reference_fields(row)
        number = str(number_of(chunk))
        existing = more["chunks"].get(number) or references.get("chunks", {}).get(number)
        if existing is not None and existing["id"] != chunk["id"]:
            collisions.append(f"{existing['id']} and {chunk['id']}")
        more["chunks"].setdefault(number, chunk)
        if documents is None:
            name = to_text(chunk["document_name"])
            document = {"doc_name": name, "doc_id": chunk["document_id"], "count": 1, "url": chunk["url"]}
            more["doc_aggs"].setdefault(name, document)
    if collisions:  # one log line for all of them
        examples = "; ".join(pair[:_SHOWN_CHARS] for pair in collisions[:_SHOWN_PAIRS])
        logger.warning(
            "%d pairs of chunks share a citation number; the first of each pair is cited: %s.",
            len(collisions),
            examples,
        )
    for document in documents or ():
        more["doc_aggs"].setdefault(to_text(document["doc_name"]), dict(document))
    return merge_references(references, more)


def merge_references(first: References, second: References) -> References:
    """Merge references. Existing chunks are kept, and the larger of a document's two counts is used.

    The merge is idempotent: if a node runs again and adds the same references, nothing changes.
    """
    documents = dict(first.get("doc_aggs", {}))
    for name, document in second.get("doc_aggs", {}).items():
        merged = documents.setdefault(name, document)
        if document.get("count", 0) > merged.get("count", 0):
            documents[name] = {**merged, "count": document["count"]}
    if len(documents) > MAX_DOCUMENTS:
        logger.warning("Of %d documents, the first %d are listed.", len(documents), MAX_DOCUMENTS)
        documents = dict(list(documents.items())[:MAX_DOCUMENTS])
    # New chunks go to the end, so that each checkpoint starts with the same data as the previous one.
    chunks = dict(first.get("chunks", {}))
    for number, chunk in second.get("chunks", {}).items():
        chunks.setdefault(number, chunk)
    return {"chunks": chunks, "doc_aggs": documents}


def reference_fields(chunk: Chunk) -> dict[str, JsonValue]:
    """Return the chunk fields that are stored in the state and shown in citations, with bounded content."""
    fields = {field: _first(chunk, names) for field, names in _NAMES.items()}
    if isinstance(content := fields["content"], str) and len(content) > MAX_CITED_CHARS:
        fields["content"] = content[:MAX_CITED_CHARS] + " …"
    if chunk.get(NUMBER_FIELD) is not None:
        fields[NUMBER_FIELD] = chunk[NUMBER_FIELD]
    return fields


def _first(chunk: Chunk, names: Iterable[str]) -> JsonValue:
    return next((chunk[name] for name in names if chunk.get(name) is not None), None)
