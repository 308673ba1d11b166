"""LangChain's documents as RAGFlow's chunks.

What a document contains was written by others: texts are bounded, and only the metadata that citations need, or that
the settings name, gets into a chunk.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Protocol, cast

from ragflow_lg.base.errors import foreign_line
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.services.references import Chunk, hash_text

MAX_CONTENT_CHARS = 65_536
MAX_FIELD_CHARS = 500
"""Maximum length of an id, a name and a value of the metadata."""

MAX_POSITIONS = 100
MAX_LIST_ITEMS = 20
_POSITION_LENGTH = 5
_MAX_NUMBER = 10**9

_KEYS: Mapping[str, tuple[str, ...]] = {
    "chunk_id": ("chunk_id", "id", "_id"),
    "doc_id": ("document_id", "doc_id"),
    "docnm_kwd": ("document_name", "docnm_kwd", "title", "file_name", "filename", "source"),
    "url": ("url", "link", "source_url", "source"),
    "image_id": ("image_id",),
}
_SCORES = ("relevance_score", "similarity", "score")
_MAX_METADATA_KEYS = 10_000
"""A map with more keys is not looked at."""


class DocumentLike(Protocol):
    """What is read of a LangChain `Document`, which this module does not import."""

    page_content: str
    metadata: dict[Any, Any]
    id: str | None


def chunk_of_document(document: DocumentLike, dataset_id: str, score: float | None, shown: Sequence[str] = ()) -> Chunk:
    """Return a document as a chunk of a dataset.

    ``score`` is its relevance from 0 to 1; None looks for one in the metadata. A document without a score gets 1, as
    RAGFlow's tools do. ``shown`` are the keys of the metadata that models and citations get.
    """
    metadata: Mapping[str, Any] = cast("Mapping[str, Any]", document.metadata)
    if len(metadata) > _MAX_METADATA_KEYS:
        metadata = dict[str, Any]()
    content = document.page_content[:MAX_CONTENT_CHARS]
    texts = {name: _first_text(metadata, keys) for name, keys in _KEYS.items()}
    url = texts["url"] if texts["url"].lower().startswith(("http://", "https://")) else ""
    name = texts["docnm_kwd"] or url or dataset_id
    similarity = _score(metadata) if score is None else _share(score)
    return {
        "chunk_id": _line(document.id) or texts["chunk_id"] or hash_text(f"{dataset_id}\n{name}\n{content}"),
        "content_with_weight": content,
        "doc_id": texts["doc_id"] or hash_text(f"{dataset_id}\n{url or name}"),
        "docnm_kwd": name,
        "kb_id": dataset_id,
        "important_kwd": [],
        "tag_kwd": [],
        "image_id": texts["image_id"],
        "url": url,
        "similarity": similarity,
        "vector_similarity": similarity,
        "term_similarity": similarity,
        "positions": _positions(metadata),
        "doc_type_kwd": "",
        "mom_id": "",
        **({"document_metadata": found} if (found := _shown(metadata, shown)) else {}),
    }


def _line(value: Any) -> str:
    """Return a text or number as one short line, and ``""`` for anything else."""
    if isinstance(value, str):
        return "".join(c for c in foreign_line(value, (), MAX_FIELD_CHARS) if c.isprintable())
    is_number = isinstance(value, int | float) and abs(value) < _MAX_NUMBER**2
    return to_text(value) if is_number else ""  # nan is not smaller than anything


def _first_text(metadata: Mapping[str, Any], keys: Sequence[str]) -> str:
    return next((text for key in keys if (text := _line(metadata.get(key)))), "")


def _share(value: float) -> float:
    return min(max(float(value), 0.0), 1.0) if math.isfinite(value) else 0.0


def _score(metadata: Mapping[str, Any]) -> float:
    """Return the score in the metadata if it lies between 0 and 1; others have scales that nobody knows here."""
    for key in _SCORES:
        value: Any = metadata.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0.0 <= value <= 1.0:
            return float(value)
    return 1.0


def _positions(metadata: Mapping[str, Any]) -> list[JsonValue]:
    """Return RAGFlow's positions, ``[page, left, right, top, bottom]``; a page of LangChain's counts from 0."""
    rows: Any = metadata.get("positions")
    if isinstance(rows, list):
        valid = (row for row in islice(cast("list[Any]", rows), MAX_POSITIONS) if _is_position(row))
        return [[*row] for row in valid]
    page: Any = metadata.get("page")
    return [[page + 1, 0, 0, 0, 0]] if type(page) is int and 0 <= page < _MAX_NUMBER else []


def _is_position(row: Any) -> bool:
    if not isinstance(row, list | tuple) or len(cast("Sequence[Any]", row)) != _POSITION_LENGTH:
        return False
    return all(type(n) in (int, float) and abs(n) < _MAX_NUMBER for n in cast("Sequence[Any]", row))


def _shown(metadata: Mapping[str, Any], keys: Sequence[str]) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for key in keys:
        value = metadata.get(key)
        items = islice(cast("Sequence[Any]", value), MAX_LIST_ITEMS) if isinstance(value, list | tuple) else (value,)
        if text := ", ".join(line for item in items if (line := _line(item)))[:MAX_FIELD_CHARS]:
            found[key] = text
    return found
