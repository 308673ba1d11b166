"""Sanitizing the chunks and documents that a knowledge store returns, which may contain anything."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from ragflow_lg.base.errors import ComponentError, ServiceError
from ragflow_lg.base.values import JsonValue, to_json, to_text
from ragflow_lg.services.references import Chunk, hash_text

logger = logging.getLogger(__name__)

MAX_CHUNK_CHARS = 100_000
MAX_FIELD_CHARS = 10_000
MAX_ALL_CHARS = 4_000_000

_CONTENTS = ("content", "content_with_weight")
_TEXTS = ("chunk_id", "id", "doc_id", "document_id", "docnm_kwd", "document_name", "kb_id", "dataset_id", "image_id",
          "img_id", "url", "mom_id", "doc_type_kwd", "doc_type")  # fmt: skip
_NUMBERS = ("similarity", "vector_similarity", "term_similarity")
_DROPPED = ("vector", "content_ltks")
"""Fields that are needed only during the search."""


def readable_chunks(rows: Sequence[Any]) -> list[dict[str, JsonValue]]:
    """Return the readable chunks in order, each with an id, typed fields and bounded texts.

    Raises:
        ServiceError: if there are rows and none is readable.
    """
    chunks: list[dict[str, JsonValue]] = []
    size = 0
    for row in rows:
        if not isinstance(row, Mapping):
            continue
        chunk = _sanitize_chunk(cast("Chunk", row))
        size += sum(len(value) for value in chunk.values() if isinstance(value, str))
        if size > MAX_ALL_CHARS and chunks:
            logger.warning(
                "Only the first %d of %d chunks are used: the others exceed the size limit.", len(chunks), len(rows)
            )
            return chunks
        chunks.append(chunk)
    if len(chunks) < len(rows):
        logger.warning("%d of %d chunks are unreadable and were dropped.", len(rows) - len(chunks), len(rows))
    if rows and not chunks:
        raise ServiceError("The knowledge store returned no readable chunk: none of them is a map.")
    return chunks


def readable_documents(documents: Iterable[tuple[Any, Any, Any]]) -> list[dict[str, JsonValue]]:
    """Return documents in the format used in references: a ``{doc_name, doc_id, count}`` map for each."""
    return [
        {
            "doc_name": _text(name, MAX_FIELD_CHARS),
            "doc_id": _text(id_, MAX_FIELD_CHARS),
            "count": count if isinstance(count, int) and not isinstance(count, bool) and 0 < count < 2**53 else 1,
        }
        for name, id_, count in documents
    ]


def _sanitize_chunk(row: Chunk) -> dict[str, JsonValue]:
    chunk: dict[str, JsonValue] = {}
    for key, value in row.items():
        if key in _DROPPED or key.endswith("_vec"):
            continue
        if key in _CONTENTS:
            chunk[key] = _text(value, MAX_CHUNK_CHARS)
        elif key in _TEXTS:
            chunk[key] = None if value is None else _text(value, MAX_FIELD_CHARS)
        elif key in _NUMBERS:
            chunk[key] = _score(value)
        else:
            chunk[key] = _sanitize_field(key, value)
    if not chunk.get("chunk_id") and not chunk.get("id"):
        content = next((to_text(value) for name in _CONTENTS if (value := chunk.get(name))), "")
        chunk["chunk_id"] = hash_text(content)
    return chunk


def _score(value: JsonValue) -> JsonValue:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
        return None
    return to_json(float(value))


def _text(value: JsonValue, limit: int) -> str:
    return str(to_json(to_text(value)[:limit]))


def _sanitize_field(key: str, value: JsonValue) -> JsonValue:
    """Return a field of unknown type if it is small (metadata only if it is a map), otherwise None."""
    if key == "document_metadata" and not isinstance(value, Mapping):
        return None
    try:
        plain = to_json(value)
        return plain if len(to_text(plain)) <= MAX_FIELD_CHARS else None
    except ComponentError:
        return None
